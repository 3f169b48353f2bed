//! Limits of the evaluation of an event: an event must neither end the process nor take its memory.
//!
//! Three things together limit a program:
//! - Between two expressions, [`Control`] compares what the evaluation has taken with the limits. Therefore the values
//!   that a loop builds are limited.
//! - A function that can take far more in one call than its arguments are large is wrapped in
//!   [`Guarded`](guard::Guarded), which checks the arguments before the call.
//! - The program runs on a stack of a known size ([`on_stack`]). The limit of [`Control`] is a part of it, so that the
//!   remainder is enough for a value that one more expression has built, and for functions that need more stack than
//!   copying a value.

use std::ops::ControlFlow;

use vrl::compiler::runtime::ExecutionControl;

use crate::memory::{Usage, stack_address};

pub(crate) mod checks;
pub(crate) mod guard;
pub(crate) mod multiply;
pub(crate) mod table;
mod unnest;

/// Size of the stack on which programs run, in bytes.
const STACK: usize = 16 << 20;

/// Part of the stack that is used before the program runs, in bytes. If less of the current stack was used, the program
/// runs on it.
const USED: usize = 256 << 10;

/// Part of the stack that the values of a program may take while they are copied or dropped, in bytes.
const MOST_STACK: usize = 2 << 20;

/// Memory that a program may allocate for an event in total, in bytes. A loop that copies a value in each iteration may
/// take hours without ever holding much memory.
const MOST_TOTAL: usize = 8 << 30;

/// Maximum number of expressions that a program may evaluate for an event.
const MOST_EXPRESSIONS: u64 = 10_000_000;

/// Maximum bytes of the cause in an error, because a program can make a message of any size.
pub(crate) const MOST_CAUSE: usize = 4 << 10;

/// Calls `run` on a stack that has at least `STACK - USED` bytes left.
pub(crate) fn on_stack<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK - USED, STACK, run)
}

/// Stops a program that has exceeded a limit. VRL asks before each expression.
pub(crate) struct Control<'a> {
    usage: &'a Usage,
    /// Lowest address of the stack that the program may use.
    lowest: usize,
    /// Number of expressions that the program may still evaluate.
    left: u64,
    /// Limit that the program has exceeded.
    pub(crate) exceeded: Option<String>,
}

impl<'a> Control<'a> {
    pub(crate) fn new(usage: &'a Usage) -> Self {
        let lowest = stack_address().saturating_sub(MOST_STACK);
        Self { usage, lowest, left: MOST_EXPRESSIONS, exceeded: None }
    }

    #[cold]
    fn exceed(&mut self) {
        let (held, most) = (self.usage.held(), self.usage.most());
        let stack = self.lowest.saturating_add(MOST_STACK).saturating_sub(self.usage.deepest());
        self.exceeded = Some(if held > most {
            format!(
                "its values take {}; at most {} are allowed for this event",
                mebibytes(held),
                mebibytes(most)
            )
        } else if stack > MOST_STACK {
            format!(
                "its values are nested too deeply: copying them takes {} of the stack; at most {} are allowed, which \
                 is enough for some thousand levels",
                mebibytes(stack),
                mebibytes(MOST_STACK)
            )
        } else if self.usage.total() > MOST_TOTAL {
            format!(
                "it copies values of {} in total; at most {} are allowed for an event",
                mebibytes(self.usage.total()),
                mebibytes(MOST_TOTAL)
            )
        } else {
            format!(
                "it evaluates more than the {MOST_EXPRESSIONS} expressions that are allowed for an event"
            )
        });
    }
}

impl ExecutionControl for Control<'_> {
    #[inline]
    fn checkpoint(&mut self) -> ControlFlow<()> {
        self.left = self.left.saturating_sub(1);
        let (held, deepest) = (self.usage.held(), self.usage.deepest());
        let is_within = held <= self.usage.most() && self.usage.total() <= MOST_TOTAL;
        if is_within && deepest >= self.lowest && self.left > 0 {
            return ControlFlow::Continue(());
        }
        self.exceed();
        ControlFlow::Break(())
    }
}

/// Returns a number of bytes as text.
pub(crate) fn mebibytes(bytes: usize) -> String {
    format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20)
}

/// Returns the beginning of a cause that is too long for an error.
pub(crate) fn shortened(cause: &str) -> &str {
    &cause[..cause.floor_char_boundary(MOST_CAUSE)]
}

#[cfg(test)]
mod tests;
