//! The preprocessor `multiline`, which joins lines that belong together, such as those of a stack trace.

mod presets;
#[cfg(test)]
mod tests;

use regex::bytes::Regex;
use tremor_abi::{
    batch::{Event, HostBatch},
    document::{Key, ValueRef},
};
use tremor_pdk::{
    Batch, Error, Result,
    units::{Interval, MessageBytes},
};

use self::presets::{Languages, Trace};
use super::{
    joining::{Joining, Limits, Link, Part, Rule, Verdict},
    max_length,
};

/// Joins consecutive lines of a stream into one message, such as the lines of a stack trace. Lines of standard output
/// and of standard error are not joined with each other, if the preprocessor `cri` or `docker` precedes this one.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Language whose stack traces are joined. Cannot be combined with `begin`, `continue` and `end`.
    preset: Option<Preset>,
    /// Regular expression of the first line of a message. Lines that do not match continue the message, unless
    /// `continue` or `end` is set as well.
    begin: Option<String>,
    /// Regular expression of the lines that continue a message.
    r#continue: Option<String>,
    /// Regular expression of the last line of a message.
    end: Option<String>,
    /// Maximum number of lines of a message. A message with more lines is divided.
    #[serde(default = "max_lines")]
    #[schemars(range(min = 1, max = 1_000_000))]
    max_lines: usize,
    /// Maximum length of a message in bytes, above which the message is divided between two of its lines.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
    /// Time without a further line of the stream after which a message is complete.
    #[serde(default = "timeout")]
    timeout: Interval,
}

const fn max_lines() -> usize {
    1_000
}

const fn timeout() -> Interval {
    Interval::of_ms(1_000)
}

/// Languages whose stack traces are joined.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug)]
#[serde(rename_all = "lowercase")]
enum Preset {
    /// Indented lines, and lines such as `Caused by: ...`.
    Java,
    /// Tracebacks, with the exceptions that caused them.
    Python,
    /// Panics, with the stacks of all goroutines.
    Go,
    /// Indented lines, and lines of a backtrace.
    Ruby,
    /// Indented lines, and the properties of an error in braces.
    Node,
    /// Indented lines, and the line before the frames of an exception that was thrown again.
    Dotnet,
    /// Traces of PHP and of Monolog, with the exceptions that they caused.
    Php,
    /// Panics, and errors with their causes, with their backtraces.
    Rust,
    /// The stack traces of all these languages.
    All,
}

impl Preset {
    const fn languages(self) -> Languages {
        match self {
            Self::Java => Languages::JAVA,
            Self::Python => Languages::PYTHON,
            Self::Go => Languages::GO,
            Self::Ruby => Languages::RUBY,
            Self::Node => Languages::NODE,
            Self::Dotnet => Languages::DOTNET,
            Self::Php => Languages::PHP,
            Self::Rust => Languages::RUST,
            Self::All => Languages::ALL,
        }
    }
}

impl Config {
    fn lines(&self) -> Result<Lines> {
        let Self { preset, begin, r#continue, end, .. } = self;
        let patterns = [("begin", begin), ("continue", r#continue), ("end", end)];
        let given = patterns.iter().find(|(_, pattern)| pattern.is_some());
        match (preset, given) {
            (None, None) => Err(Error::configuration(
                "no rule states which lines belong together; set `preset` to `java`, `python`, `go`, `ruby`, `node`, \
                 `dotnet`, `php`, `rust` or `all`, or set at least one of the patterns `begin`, `continue` and `end`",
            )),
            (Some(_), Some((name, _))) => Err(Error::configuration(format_args!(
                "`{name}`: cannot be combined with `preset`, which has rules of its own; remove one of the two"
            ))),
            (Some(preset), None) => Ok(Lines::Preset(preset.languages())),
            (None, Some(_)) => {
                let [begin, r#continue, end] =
                    patterns.map(|(name, pattern)| compile(name, pattern.as_deref()));
                Ok(Lines::Patterns(Patterns { begin: begin?, r#continue: r#continue?, end: end? }))
            }
        }
    }
}

fn compile(name: &str, pattern: Option<&str>) -> Result<Option<Regex>> {
    let wrong =
        |error: &dyn std::fmt::Display| Error::configuration(format_args!("`{name}`: {error}"));
    match pattern {
        None => Ok(None),
        Some("") => Err(wrong(
            &"expected a regular expression, found an empty text, which matches every line",
        )),
        Some(pattern) => Regex::new(pattern).map(Some).map_err(|error| wrong(&error)),
    }
}

/// The preprocessor `multiline`.
pub(crate) type Multiline = Joining<Lines>;

/// The rules by which lines are joined.
pub(crate) enum Lines {
    Preset(Languages),
    Patterns(Patterns),
}

/// The patterns of the configuration. At least one of them is set.
pub(crate) struct Patterns {
    begin: Option<Regex>,
    r#continue: Option<Regex>,
    end: Option<Regex>,
}

impl Patterns {
    /// Decides whether `line` continues the open message, if there is one. `open` is `true` if a line that matched
    /// `begin` began that message.
    fn judge(&self, line: &[u8], open: Option<bool>) -> Verdict<bool> {
        let is_match =
            |pattern: &Option<Regex>| pattern.as_ref().is_some_and(|it| it.is_match(line));
        let ends = is_match(&self.end);
        if is_match(&self.begin) {
            return Verdict { link: Link::Begins, is_last: ends, state: true };
        }
        // Lines outside of messages with a beginning and an end are messages by themselves.
        let is_strict = self.begin.is_some() && (self.r#continue.is_some() || self.end.is_some());
        let continues = match &self.r#continue {
            Some(pattern) => ends || pattern.is_match(line),
            None => true,
        };
        let continues = continues && (!is_strict || open == Some(true));
        Verdict {
            link: Link::of(continues),
            is_last: ends || (is_strict && !continues),
            state: continues && is_strict,
        }
    }
}

/// State of an open message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    Preset(Trace),
    /// `true` if a line that matched `begin` began the message.
    Patterns(bool),
}

impl Rule for Lines {
    type Config = Config;
    type State = State;

    const NAME: &str = "multiline";
    const SEPARATOR: &[u8] = b"\n";

    fn new(config: Config) -> Result<(Self, Limits)> {
        let limits = Limits {
            parts: config.max_lines,
            bytes: config.max_length.get(),
            timeout: config.timeout.get(),
        };
        Ok((config.lines()?, limits))
    }

    #[inline]
    fn part(
        &mut self,
        batch: &Batch,
        event: &Event,
        message: &[u8],
        _scratch: &mut Vec<u8>,
    ) -> Result<Part> {
        let side = u8::from(event.has_metadata() && is_stderr(batch, event));
        Ok(Part { side, range: Some(0..message.len()) })
    }

    #[inline]
    fn judge(&mut self, line: &[u8], open: Option<&State>) -> Verdict<State> {
        match self {
            Self::Preset(languages) => {
                let open =
                    open.map(|it| if let State::Preset(it) = it { *it } else { Trace::None });
                let Verdict { link, is_last, state } = languages.judge(line, open);
                Verdict { link, is_last, state: State::Preset(state) }
            }
            Self::Patterns(patterns) => {
                let open = open.map(|it| matches!(it, State::Patterns(true)));
                let Verdict { link, is_last, state } = patterns.judge(line, open);
                Verdict { link, is_last, state: State::Patterns(state) }
            }
        }
    }
}

/// Returns whether `cri` or `docker` read the message from the standard error of a container.
fn is_stderr(batch: &Batch, event: &Event) -> bool {
    const CRI: Key<'_> = Key::new("cri");
    const DOCKER: Key<'_> = Key::new("docker");
    const STREAM: Key<'_> = Key::new("stream");
    let metadata = batch.metadata(event);
    let of = |key| metadata.and_then(|it| it.get_key(key));
    let stream = of(CRI).or_else(|| of(DOCKER)).and_then(|it| it.get_key(STREAM));
    stream.and_then(ValueRef::as_str) == Some("stderr")
}
