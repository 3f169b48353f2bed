//! The log format of the Container Runtime Interface of Kubernetes, which containerd and CRI-O write:
//! `TIME STREAM FLAG TEXT`.

use tremor_pdk::{Error, Result, units::Interval};

use super::{Entry, Format, Settings, Text, Time, Written, timeout, yes};
use crate::processor::max_length;

/// Reads log lines of containers in Kubernetes, `TIME STREAM FLAG TEXT`, and joins the parts of long lines. A message
/// is the text. The remainder becomes the metadata `%cri.time`, `%cri.stream` and `%cri.flag`.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Maximum length of a message in bytes, above which the message is divided between two of its parts.
    #[serde(default = "max_length")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_length: usize,
    /// Time without a further part after which an incomplete line is passed on.
    #[serde(default = "timeout")]
    timeout: Interval,
    /// `true` if messages have the metadata `%cri.time`. With `false`, messages share their metadata, which takes less
    /// time and memory.
    #[serde(default = "yes")]
    time: bool,
}

impl From<Config> for Settings {
    fn from(config: Config) -> Self {
        let Config { max_length, timeout, time } = config;
        Self { max_length, timeout: timeout.get(), time }
    }
}

pub(crate) enum Cri {}

impl Format for Cri {
    type Config = Config;

    const NAME: &'static str = "cri";
    const KEY: Text = Text::CRI;
    const HAS_FLAG: bool = true;

    #[inline]
    fn read(line: &[u8], _scratch: &mut Vec<u8>) -> Result<Entry> {
        let time = line.iter().take(Time::MAX_LENGTH + 1).position(|byte| *byte == b' ');
        let time = time.filter(|_| line[0].is_ascii_digit());
        let Some((end, time)) = time.and_then(|end| Some((end, Time::new(&line[..end])?))) else {
            return Err(invalid("it does not begin with a time and a space"));
        };
        let after = &line[end + 1..];
        let is_stderr = after.starts_with(b"stderr ");
        if !is_stderr && !after.starts_with(b"stdout ") {
            return Err(invalid("the stream is neither `stdout` nor `stderr`"));
        }
        let at = end + 1 + b"stdout ".len();
        let is_partial = match line.get(at) {
            Some(b'F') => false,
            Some(b'P') => true,
            _ => return Err(invalid(FLAG)),
        };
        // Further tags may follow the flag, separated by colons.
        let start = match line.get(at + 1) {
            None => line.len(),
            Some(b' ') => at + 2,
            Some(b':') => memchr::memchr(b' ', &line[at..]).map_or(line.len(), |end| at + end + 1),
            Some(_) => return Err(invalid(FLAG)),
        };
        let written = Written { time, is_stderr, is_partial };
        Ok(Entry { written, text: Some(start..line.len()) })
    }
}

const FLAG: &str = "the flag is neither `F` nor `P`";

#[cold]
fn invalid(cause: &str) -> Error {
    Error::bad_data(format_args!(
        "invalid line of a container log: {cause}; expected `TIME STREAM FLAG TEXT`, such as \
         `2026-01-02T03:04:05.678Z stdout F text`"
    ))
}
