//! Rules for the stack traces of programming languages.
//!
//! Most lines begin a message. For most of these lines, the first or the last byte shows that no further test is
//! needed.

use memchr::memmem;

use super::Verdict;

/// A set of programming languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Languages(u8);

/// State of an open message: the part of a stack trace that its last line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// A line that needs no state.
    None,
    /// Frames of a Python traceback, before the line with the exception.
    Python,
    /// The exception of a Python traceback. The traceback of a further exception may follow.
    PythonException,
    /// The line that announces the traceback of a further exception.
    PythonChain,
    /// A panic of Go, or the stack of a goroutine.
    Go,
}

/// First line of a Python traceback.
const TRACEBACK: &[u8] = b"Traceback (most recent call last):";
/// First line of the traceback of a Python exception group, which is indented.
const GROUP: &[u8] = b"  + Exception Group Traceback (most recent call last):";
/// Lines between the tracebacks of two Python exceptions.
const CHAINS: [&[u8]; 2] = [
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
];

impl Languages {
    pub(super) const JAVA: Self = Self(1);
    pub(super) const PYTHON: Self = Self(2);
    pub(super) const GO: Self = Self(4);
    pub(super) const RUBY: Self = Self(8);
    pub(super) const NODE: Self = Self(16);
    pub(super) const ALL: Self = Self(31);

    const fn has(self, language: Self) -> bool {
        self.0 & language.0 != 0
    }

    /// Decides whether `line` continues the open message, if there is one with the state `open`.
    #[inline]
    pub(super) fn judge(self, line: &[u8], open: Option<Trace>) -> Verdict<Trace> {
        let trace = open.unwrap_or(Trace::None);
        let begins = |state| Verdict { continues: false, is_last: false, state };
        let continues = |state| Verdict { continues: true, is_last: false, state };
        let (Some(first), Some(last)) = (line.first(), line.last()) else {
            // Empty lines separate the parts of a stack trace.
            return if trace == Trace::None { begins(trace) } else { continues(trace) };
        };
        if matches!(first, b' ' | b'\t') {
            let is_group = self.has(Self::PYTHON) && trace != Trace::PythonChain;
            if is_group && line.starts_with(GROUP) {
                return begins(Trace::None);
            }
            return continues(trace);
        }
        match trace {
            Trace::Python => return continues(Trace::PythonException),
            Trace::PythonException if CHAINS.contains(&line) => {
                return continues(Trace::PythonChain);
            }
            Trace::PythonChain if line == TRACEBACK => return continues(Trace::Python),
            Trace::Go if is_go_frame(line) => return continues(Trace::Go),
            _ => {}
        }
        match first {
            b'C' | b'S' | b'W' if self.has(Self::JAVA) && is_java_cause(line) => continues(trace),
            b'T' if self.has(Self::PYTHON) && line == TRACEBACK => begins(Trace::Python),
            b'p' | b'f' if self.has(Self::GO) && is_go_panic(line) => begins(Trace::Go),
            b'g' if self.has(Self::GO) && is_goroutine(line) => continues(Trace::Go),
            b'}' if self.has(Self::NODE) => continues(trace),
            _ if *last == b'\'' && self.has(Self::RUBY) && is_ruby_frame(line) => continues(trace),
            _ => begins(Trace::None),
        }
    }
}

fn is_java_cause(line: &[u8]) -> bool {
    let causes: [&[u8]; 3] = [b"Caused by:", b"Suppressed:", b"Wrapped by:"];
    causes.iter().any(|cause| line.starts_with(cause))
}

fn is_go_panic(line: &[u8]) -> bool {
    line.starts_with(b"panic: ") || line.starts_with(b"fatal error: ")
}

/// Returns whether `line` has the form `goroutine 1 [running]:`.
fn is_goroutine(line: &[u8]) -> bool {
    let Some(number) = line.strip_prefix(b"goroutine ") else { return false };
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && number[digits..].starts_with(b" ") && line.ends_with(b":")
}

/// Returns whether `line`, which is not indented, belongs to the stack trace of a Go program, such as
/// `main.(*Server).serve(0xc000010000)`.
fn is_go_frame(line: &[u8]) -> bool {
    let prefixes: [&[u8]; 3] = [b"created by ", b"[signal ", b"...additional frames elided..."];
    if prefixes.iter().any(|prefix| line.starts_with(prefix)) || is_goroutine(line) {
        return true;
    }
    // The name of a function has no space before its arguments.
    line.ends_with(b")")
        && matches!(memchr::memchr2(b'(', b' ', line), Some(at) if line[at] == b'(')
}

/// Returns whether `line` has the form ``app.rb:2:in `name'`` or `app.rb:2:in 'name'`.
fn is_ruby_frame(line: &[u8]) -> bool {
    let Some(at) = memmem::find(line, b":in ") else { return false };
    let digits = line[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let is_quoted = matches!(line.get(at + 4), Some(b'`' | b'\''));
    is_quoted && digits > 0 && line[..at - digits].ends_with(b":")
}
