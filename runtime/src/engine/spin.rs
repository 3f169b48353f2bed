//! Busy waiting for another task or for a near deadline, for a short time before the executor parks the waiting task.
//!
//! Parking a thread and waking it again can take longer than the work on a batch, for the task that waits and for the
//! task that wakes it. A task that waits for its in-order section therefore first spins for up to [`SPIN`]. It does not
//! begin to spin if there are more busy tasks than processors, because it would take a processor from one of them.
//!
//! A spinning task never yields its processor. Beside programs that always work, each yield costs a whole time slice of
//! one of them, so that two threads were a third as fast as one. After a spin, which is short, the task parks instead.
//!
//! Senders and receivers of queues do not spin. According to `bench/runs/2026-11-24-spin`, spinning made flows of
//! JSON no faster, and a flow that copies bytes two and a half times slower.

use std::{
    hint::spin_loop,
    time::{Duration, Instant},
};

use crate::clock::Clock;
use crate::engine::{
    processors::Processors,
    tuning::{CLOSE_NS, SPIN},
};

/// Spins until `ready` returns `true` or [`SPIN`] is over. Returns at once if there are more busy tasks than
/// processors. Call this only if another task that is running now is going to make `ready` return `true`.
pub(crate) fn briefly(processors: &Processors, ready: impl FnMut() -> bool) {
    if !processors.are_crowded() {
        spin(SPIN, ready);
    }
}

/// Spins until `deadline` of `clock`, if the deadline is so near that a timer would be late and no other task needs the
/// processor. Returns whether this function has spun.
pub(crate) fn until(processors: &Processors, clock: &Clock, deadline: Instant) -> bool {
    let wait = deadline.saturating_duration_since(clock.now());
    if wait.as_nanos() > u128::from(CLOSE_NS) || !processors.suffice() || clock.is_simulated() {
        return false;
    }
    spin(wait, || clock.now() >= deadline);
    true
}

/// Checks `ready` until it returns `true` or `limit` is over.
fn spin(limit: Duration, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() && start.elapsed() < limit {
        // More frequent checks would take the cache line away from the task that writes to it.
        (0..8).for_each(|_| spin_loop());
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, time::Duration};

    use super::spin;

    #[test]
    fn busy_wait_ends_when_ready_or_at_its_limit() {
        let checks = Cell::new(0);
        spin(Duration::MAX, || {
            checks.set(checks.get() + 1);
            checks.get() == 3
        });
        assert_eq!(checks.get(), 3);
        spin(Duration::from_nanos(1), || false);
    }
}
