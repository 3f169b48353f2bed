//! The preprocessors `cri` and `docker`, which read the log files of containers and join the parts of long lines.

mod cri;
mod docker;
mod metadata;
#[cfg(test)]
mod tests;

use std::{marker::PhantomData, ops::Range};

use tremor_abi::batch::Event;
use tremor_pdk::{
    Batch, Result,
    units::{Interval, MessageBytes},
};

use self::metadata::{Metadata, Text};
use super::{
    joining::{Joining, Limits, Link, Part, Rule, Verdict},
    max_length,
};

/// The preprocessor `cri`.
pub(crate) type Cri = Joining<Container<cri::Cri>>;

/// The preprocessor `docker`.
pub(crate) type Docker = Joining<Container<docker::Docker>>;

/// Maximum number of parts of a message. Without this limit, parts with an empty text, which never reach `max_length`,
/// could keep any number of pulls open. Container runtimes divide lines at 16 KiB, so that a message with the maximum
/// `max_length` of 1 GiB has fewer parts.
const MAX_PARTS: usize = 100_000;

/// Default time after which an incomplete line is passed on.
const fn timeout() -> Interval {
    Interval::of_ms(5_000)
}

const fn yes() -> bool {
    true
}

/// A format of log files.
pub(crate) trait Format: Send + 'static {
    /// Name of the preprocessor.
    const NAME: &'static str;

    /// Key of the metadata.
    const KEY: Text;

    /// `true` if the metadata have the flag of a line.
    const HAS_FLAG: bool;

    /// `true` if a carriage return at the end of a line of the file is part of the text.
    const KEEPS_RETURN: bool;

    /// Reads a line. If the text is not a range of the line, writes it to `scratch`.
    ///
    /// # Errors
    /// The line is invalid.
    fn read(line: &[u8], scratch: &mut Vec<u8>) -> Result<Entry>;
}

/// Joins the parts of long lines of containers. A message is the text of a line. The remainder of the line becomes
/// metadata.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Maximum length of a message in bytes, above which the message is divided between two of its parts.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
    /// Time without a further part after which an incomplete line is passed on.
    #[serde(default = "timeout")]
    timeout: Interval,
    /// `true` if messages have the metadata `%cri.time` or `%docker.time`. With `false`, messages share their metadata,
    /// which takes less time and memory.
    #[serde(default = "yes")]
    time: bool,
}

/// A line of a log file.
pub(crate) struct Entry {
    written: Written,
    /// Range of the text within the line, or `None` if the text is in the scratch buffer.
    text: Option<Range<usize>>,
}

/// Data about a message that becomes metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    time: Time,
    is_stderr: bool,
    is_partial: bool,
}

/// The time of a line as text.
#[derive(Clone, Copy, Debug)]
struct Time {
    length: u8,
    bytes: [u8; Time::MAX_LENGTH],
}

impl Time {
    /// Maximum length of a time in bytes. A time with nanoseconds and an offset has 35 bytes.
    const MAX_LENGTH: usize = 40;

    /// Returns `None` if `text` is too long or is not ASCII.
    fn new(text: &[u8]) -> Option<Self> {
        let length = u8::try_from(text.len()).ok()?;
        let mut bytes = [0; Self::MAX_LENGTH];
        bytes.get_mut(..text.len()).filter(|_| text.is_ascii())?.copy_from_slice(text);
        Some(Self { length, bytes })
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }
}

/// The rule by which the parts of a line are joined.
pub(crate) struct Container<F> {
    metadata: Metadata,
    /// `true` if the metadata have the time of the line.
    has_time: bool,
    /// The line that was read last.
    last: Written,
    format: PhantomData<F>,
}

impl<F: Format> Rule for Container<F> {
    type Config = Config;
    type State = Written;

    const NAME: &str = F::NAME;
    const SEPARATOR: &[u8] = b"";
    const KEEPS_RETURN: bool = F::KEEPS_RETURN;

    fn new(config: Config) -> Result<(Self, Limits)> {
        let Config { max_length, timeout, time } = config;
        let (bytes, timeout) = (max_length.get(), timeout.get());
        let limits = Limits { parts: MAX_PARTS, bytes, timeout };
        let none = Time { length: 0, bytes: [0; Time::MAX_LENGTH] };
        let last = Written { time: none, is_stderr: false, is_partial: false };
        let metadata = Metadata::new(F::KEY);
        Ok((Self { metadata, has_time: time, last, format: PhantomData }, limits))
    }

    fn begin_batch(&mut self) {
        self.metadata.begin_batch();
    }

    #[inline]
    fn part(
        &mut self,
        _batch: &Batch,
        _event: &Event,
        line: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<Part> {
        let Entry { written, text } = F::read(line, scratch)?;
        self.last = written;
        Ok(Part { side: u8::from(written.is_stderr), range: text })
    }

    #[inline]
    fn judge(&mut self, _text: &[u8], open: Option<&Written>) -> Verdict<Written> {
        // The time of a message is the time of its first part.
        let time = open.map_or(self.last.time, |open| open.time);
        let state = Written { time, ..self.last };
        Verdict { link: Link::of(open.is_some()), is_last: !state.is_partial, state }
    }

    /// Removes the carriage return at the end of a line, which a program in a terminal writes. In a part without the end
    /// of the line, a carriage return is text.
    #[inline]
    fn trimmed<'t>(written: &Written, content: &'t [u8]) -> &'t [u8] {
        content.strip_suffix(b"\r").filter(|_| !written.is_partial).unwrap_or(content)
    }

    #[inline]
    fn complete(&mut self, batch: &mut Batch, event: &mut Event, written: &Written) {
        let stream = if written.is_stderr { Text::STDERR } else { Text::STDOUT };
        let flag = if written.is_partial { Text::PARTIAL } else { Text::FULL };
        let time = self.has_time.then(|| written.time.as_bytes()).filter(|time| !time.is_empty());
        self.metadata.write(batch, event, time, stream, F::HAS_FLAG.then_some(flag));
    }
}
