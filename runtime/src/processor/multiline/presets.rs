//! Rules for the stack traces of programming languages.
//!
//! Most lines begin a message. For most of these lines, the first or the last byte shows that no further test is
//! needed.

use memchr::memmem;

use super::{Link, Verdict};

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
    /// The given number of lines after an exception, which are part of its text if the traceback of a further exception
    /// follows.
    PythonText(u8),
    /// The line that announces the traceback of a further exception.
    PythonChain,
    /// Lines that Go writes before a fatal error.
    GoError,
    /// The beginning of a panic or of a fatal error of Go, before the first stack.
    GoPanic,
    /// The stack of a goroutine.
    Go,
    /// The error of a Ruby program. The code that caused it may follow after an empty line.
    RubyError,
    /// The empty line after the error of a Ruby program, and the code after it if the code is indented.
    RubyGap,
    /// The code that caused the error of a Ruby program.
    RubyCode,
    /// The modules that required a missing module of Node.js.
    NodeModules,
    /// A line that ends with an opening brace, or the indented lines after it.
    Brace,
    /// The last line of an inner exception of .NET, or the line before the frames of an exception that was thrown
    /// again. An empty line may follow.
    DotnetPart,
    /// The stack trace of a PHP exception, or the exception that it caused.
    Php,
    /// The empty line after the stack trace of a PHP exception. The exception that it caused may follow.
    PhpGap,
    /// The first line of a panic of Rust.
    RustPanic,
    /// The given number of lines after the first line of the text of a panic. The lines are part of the text if the
    /// stack backtrace follows.
    RustText(u8),
    /// The stack backtrace of a panic.
    Rust,
    /// An error of Rust, or its causes.
    RustError,
    /// The empty line after an error of Rust. Its causes or its stack backtrace may follow.
    RustGap,
}

/// Maximum number of lines after an exception or a panic that are kept because they may be part of its text.
const TEXT: u8 = 30;

/// First line of a Python traceback.
const TRACEBACK: &[u8] = b"Traceback (most recent call last):";
/// First line of the traceback of a Python exception group, which is indented.
const GROUP: &[u8] = b"  + Exception Group Traceback (most recent call last):";
/// Lines between the tracebacks of two Python exceptions.
const CHAINS: [&[u8]; 2] = [
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
];

/// First bytes of the line between the frames of an exception of .NET that was thrown again.
const DOTNET_RETHROWN: &[u8] = b"--- End of stack trace from previous location";

/// First bytes of an inner exception of the .NET Framework and of Mono, which do not indent it.
const DOTNET_INNER: &[u8] = b"---> (Inner Exception #";

/// Lines between an exception of PHP and its frames. The second one is that of Monolog.
const PHP_TRACES: [&[u8]; 2] = [b"Stack trace:", b"[stacktrace]"];
/// First bytes of the line with which Monolog begins the cause of an exception.
const PHP_PREVIOUS: &[u8] = b"[previous exception] ";

impl Trace {
    /// Returns this state, or `other` if this state is [`None`](Self::None).
    fn or(self, other: Self) -> Self {
        if self == Self::None { other } else { self }
    }
}

impl Languages {
    pub(super) const JAVA: Self = Self(1);
    pub(super) const PYTHON: Self = Self(2);
    pub(super) const GO: Self = Self(4);
    pub(super) const RUBY: Self = Self(8);
    pub(super) const NODE: Self = Self(16);
    pub(super) const DOTNET: Self = Self(32);
    pub(super) const PHP: Self = Self(64);
    pub(super) const RUST: Self = Self(128);
    pub(super) const ALL: Self = Self(255);

    const fn has(self, language: Self) -> bool {
        self.0 & language.0 != 0
    }

    /// Decides whether `line` continues the open message, if there is one with the state `open`.
    #[inline]
    pub(super) fn judge(self, line: &[u8], open: Option<Trace>) -> Verdict<Trace> {
        let (link, state) = self.link(line, open.unwrap_or(Trace::None));
        Verdict { link, is_last: false, state }
    }

    #[inline]
    fn link(self, line: &[u8], trace: Trace) -> (Link, Trace) {
        let (Some(first), Some(last)) = (line.first(), line.last()) else {
            return empty_line(trace);
        };
        // Only with these states does a later line beginning with a brace, or an empty line, continue the message.
        let opens = || match last {
            b'{' if self.has(Self::NODE) => Trace::Brace,
            b'-' if self.has(Self::DOTNET) && is_dotnet_inner_end(line) => Trace::DotnetPart,
            _ => Trace::None,
        };
        if matches!(first, b' ' | b'\t') {
            if self.has(Self::PYTHON) && line.starts_with(GROUP) {
                return (Link::of(trace == Trace::PythonChain), Trace::PythonException);
            }
            return match trace {
                Trace::None
                | Trace::NodeModules
                | Trace::DotnetPart
                | Trace::Php
                | Trace::PhpGap => (Link::Continues, opens()),
                Trace::RustPanic => (Link::Continues, Trace::RustText(0)),
                Trace::RustError | Trace::RustGap => {
                    (Link::Continues, opens().or(Trace::RustError))
                }
                Trace::RubyGap | Trace::RubyCode if is_ruby_mark(line) => {
                    (Link::Reunites, Trace::RubyError)
                }
                _ => (Link::Continues, trace),
            };
        }
        if trace != Trace::None
            && let Some(judged) = in_trace(line, trace)
        {
            return judged;
        }
        match first {
            b'C' | b'S' | b'W' | b'.' if self.has(Self::JAVA) && is_java_cause(line) => {
                (Link::Continues, Trace::None)
            }
            b'T' if self.has(Self::PYTHON) && line == TRACEBACK => (Link::Begins, Trace::Python),
            b'p' | b'f' if self.has(Self::GO) && is_go_panic(line) => {
                (Link::Begins, Trace::GoPanic)
            }
            b'r' | b'u' | b'S' if self.has(Self::GO) && is_go_error(line) => {
                (Link::Begins, Trace::GoError)
            }
            b'-' if self.has(Self::DOTNET) && line.starts_with(DOTNET_RETHROWN) => {
                (Link::Continues, Trace::DotnetPart)
            }
            b'-' if self.has(Self::DOTNET) && line.starts_with(DOTNET_INNER) => {
                (Link::Continues, opens())
            }
            // Too general for logs of other languages.
            b'P' if self == Self::DOTNET && line.starts_with(b"Parameter name: ") => {
                (Link::Continues, Trace::None)
            }
            b'S' | b'[' if self.has(Self::PHP) && PHP_TRACES.contains(&line) => {
                (Link::Continues, Trace::Php)
            }
            b't' if self.has(Self::RUST) && is_rust_panic(line) => {
                // Before version 1.73, the text was in the first line.
                let is_before_text = line.ends_with(b":");
                let state = if is_before_text { Trace::RustPanic } else { Trace::RustText(0) };
                (Link::Begins, state)
            }
            b'E' if self.has(Self::RUST) && line.starts_with(b"Error: ") => {
                (Link::Begins, opens().or(Trace::RustError))
            }
            b'g' if self.has(Self::GO) && is_goroutine(line) => (Link::Continues, Trace::Go),
            b'R' if self.has(Self::NODE) && line == b"Require stack:" => {
                (Link::Continues, Trace::NodeModules)
            }
            _ if *last == b'\'' && self.has(Self::RUBY) && is_ruby_frame(line) => {
                (Link::Continues, Trace::None)
            }
            _ if *last == b')' && self.has(Self::RUBY) && is_ruby_error(line) => {
                (Link::Begins, Trace::RubyError)
            }
            _ => text_after(trace).unwrap_or_else(|| (Link::Begins, opens())),
        }
    }
}

/// Judges an empty line.
fn empty_line(trace: Trace) -> (Link, Trace) {
    match trace {
        // Empty lines separate the parts of a stack trace.
        Trace::Python
        | Trace::PythonException
        | Trace::PythonChain
        | Trace::GoPanic
        | Trace::Go => (Link::Continues, trace),
        Trace::RubyError => (Link::MayBegin, Trace::RubyGap),
        Trace::DotnetPart => (Link::Continues, Trace::None),
        Trace::Php => (Link::MayBegin, Trace::PhpGap),
        Trace::RustPanic => (Link::Continues, Trace::RustText(0)),
        Trace::RustError => (Link::MayBegin, Trace::RustGap),
        _ => text_after(trace).unwrap_or((Link::Begins, Trace::None)),
    }
}

/// Judges a line that may be part of the error before it. Returns `None` if it is not.
fn text_after(trace: Trace) -> Option<(Link, Trace)> {
    let state = match trace {
        Trace::PythonException => Trace::PythonText(1),
        Trace::PythonText(lines) if lines < TEXT => Trace::PythonText(lines + 1),
        Trace::RustText(lines) if lines < TEXT => Trace::RustText(lines + 1),
        Trace::RubyGap => Trace::RubyCode,
        _ => return None,
    };
    Some((Link::MayBegin, state))
}

/// Judges a line, which is not indented, by the state of the open message. Returns `None` if the state does not decide.
fn in_trace(line: &[u8], trace: Trace) -> Option<(Link, Trace)> {
    Some(match trace {
        Trace::Python => (Link::Continues, Trace::PythonException),
        Trace::PythonException if CHAINS.contains(&line) => (Link::Continues, Trace::PythonChain),
        Trace::PythonText(_) if CHAINS.contains(&line) => (Link::Reunites, Trace::PythonChain),
        Trace::PythonChain if line == TRACEBACK => (Link::Continues, Trace::Python),
        Trace::GoError if line.starts_with(b"runtime: ") => (Link::Continues, Trace::GoError),
        Trace::GoError if line.starts_with(b"fatal error: ") || line.starts_with(b"PC=") => {
            (Link::Continues, Trace::GoPanic)
        }
        Trace::GoPanic if is_go_signal(line) => (Link::Continues, Trace::GoPanic),
        Trace::GoPanic | Trace::Go if is_goroutine(line) || line == b"runtime stack:" => {
            (Link::Continues, Trace::Go)
        }
        Trace::Go if is_go_frame(line) => (Link::Continues, Trace::Go),
        Trace::RubyError if line.starts_with(b"Did you mean?") => (Link::Continues, trace),
        Trace::NodeModules if line.starts_with(b"- ") => (Link::Continues, Trace::NodeModules),
        Trace::Brace if line.starts_with(b"}") => {
            let opens = line.ends_with(b"{");
            (Link::Continues, if opens { Trace::Brace } else { Trace::None })
        }
        Trace::Php if is_php_frame(line) || line.starts_with(PHP_PREVIOUS) => {
            (Link::Continues, Trace::Php)
        }
        // Monolog ends a trace within the text of a JSON object.
        Trace::Php if line.starts_with(b"\"}") => (Link::Continues, Trace::None),
        Trace::PhpGap if line.starts_with(b"Next ") || line.starts_with(PHP_PREVIOUS) => {
            (Link::Reunites, Trace::Php)
        }
        Trace::RustPanic => (Link::Continues, Trace::RustText(0)),
        Trace::RustText(_) if line == b"stack backtrace:" => (Link::Reunites, Trace::Rust),
        Trace::RustText(_) if line.starts_with(b"note: run with `RUST_BACKTRACE=") => {
            (Link::Reunites, Trace::None)
        }
        Trace::Rust if line.starts_with(b"note: Some details are omitted, ") => {
            (Link::Continues, Trace::None)
        }
        Trace::RustGap if matches!(line, b"Caused by:" | b"Stack backtrace:") => {
            (Link::Reunites, Trace::RustError)
        }
        _ => return None,
    })
}

/// Returns whether `line` names a cause, or has the form `... 12 more` or `... 12 common frames omitted`.
fn is_java_cause(line: &[u8]) -> bool {
    let causes: [&[u8]; 3] = [b"Caused by:", b"Suppressed:", b"Wrapped by:"];
    let count = line.strip_prefix(b"... ").unwrap_or_default();
    let digits = count.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_omission =
        digits > 0 && matches!(&count[digits..], b" more" | b" common frames omitted");
    is_omission || causes.iter().any(|cause| line.starts_with(cause))
}

fn is_go_panic(line: &[u8]) -> bool {
    line.starts_with(b"panic: ") || line.starts_with(b"fatal error: ")
}

/// Returns whether `line` is the first of those before a fatal error, or has the form `SIGQUIT: quit`.
fn is_go_error(line: &[u8]) -> bool {
    let prefixes: [&[u8]; 3] = [
        b"runtime: goroutine stack exceeds ",
        b"runtime: out of memory: ",
        b"unexpected fault address ",
    ];
    if prefixes.iter().any(|prefix| line.starts_with(prefix)) {
        return true;
    }
    let Some(name) = line.strip_prefix(b"SIG") else { return false };
    let letters = name.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    letters > 0 && name[letters..].starts_with(b": ")
}

fn is_go_signal(line: &[u8]) -> bool {
    line.starts_with(b"[signal ") || line.starts_with(b"signal arrived during ")
}

/// Returns whether `line` has the form `goroutine 1 [running]:`.
fn is_goroutine(line: &[u8]) -> bool {
    let Some(number) = line.strip_prefix(b"goroutine ") else { return false };
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && number[digits..].starts_with(b" ") && line.ends_with(b":")
}

/// Returns whether `line`, which is not indented, belongs to the stack of a goroutine, such as
/// `main.(*Server).serve(0xc000010000)`.
fn is_go_frame(line: &[u8]) -> bool {
    let prefixes: [&[u8]; 2] = [b"created by ", b"[originating from goroutine "];
    if prefixes.iter().any(|prefix| line.starts_with(prefix)) {
        return true;
    }
    if line.starts_with(b"...") && line.ends_with(b" frames elided...") || is_go_register(line) {
        return true;
    }
    // The name of a function has no space before its arguments.
    line.ends_with(b")")
        && matches!(memchr::memchr2(b'(', b' ', line), Some(at) if line[at] == b'(')
}

/// Returns whether `line` has the form `rax    0x0`.
fn is_go_register(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let value = line[name..].trim_ascii_start().strip_prefix(b"0x").unwrap_or_default();
    (2..=6).contains(&name) && !value.is_empty() && value.iter().all(u8::is_ascii_hexdigit)
}

/// Returns whether `line` has the form ``app.rb:2:in `name'`` or `app.rb:2:in 'name'`.
fn is_ruby_frame(line: &[u8]) -> bool {
    let Some(at) = memmem::find(line, b":in ") else { return false };
    let (origin, name) = (&line[..at], &line[at + b":in ".len()..]);
    let digits = origin.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let path = &origin[..at - digits];
    // A line with spaces is a log record that names its origin, except for code that Ruby evaluates.
    let is_path = !path.iter().any(u8::is_ascii_whitespace) || path.starts_with(b"(eval at ");
    let [b'`' | b'\'', name @ .., b'\''] = name else { return false };
    digits > 0 && path.len() > 1 && path.ends_with(b":") && is_path && !name.contains(&b'\'')
}

/// Returns whether `line` has the form `app.rb:2:in 'name': text (NameError)`.
fn is_ruby_error(line: &[u8]) -> bool {
    let method = memmem::find(line, b":in ").and_then(|at| line.get(at + b":in ".len()));
    matches!(method, Some(b'`' | b'\'')) && line.ends_with(b"Error)")
}

/// Returns whether `line`, which is indented, marks a part of the code above it.
fn is_ruby_mark(line: &[u8]) -> bool {
    line.contains(&b'^') && line.iter().all(|byte| b" \t^~".contains(byte))
}

/// Returns whether `line` is the last one of an inner exception. Its frames are indented.
fn is_dotnet_inner_end(line: &[u8]) -> bool {
    let is_inner = line.starts_with(b" ") || line.starts_with(DOTNET_INNER);
    is_inner && line.ends_with(b"<---")
}

/// Returns whether `line` has the form `#0 /app.php(7): f()` or `#1 {main}`.
fn is_php_frame(line: &[u8]) -> bool {
    let number = line.strip_prefix(b"#").unwrap_or_default();
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && number[digits..].starts_with(b" ")
}

/// Returns whether `line` has the form `thread 'main' (42) panicked at src/main.rs:2:5:`.
fn is_rust_panic(line: &[u8]) -> bool {
    line.starts_with(b"thread '") && memmem::find(line, b" panicked at ").is_some()
}
