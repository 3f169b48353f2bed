//! The log format of the Container Runtime Interface of Kubernetes, which containerd and CRI-O write:
//! `TIME STREAM FLAG TEXT`.

use tremor_pdk::{Error, Result};

use super::{Entry, Format, Text, Time, Written};

pub(crate) enum Cri {}

impl Format for Cri {
    const NAME: &'static str = "cri";
    const KEY: Text = Text::CRI;
    const HAS_FLAG: bool = true;
    const KEEPS_RETURN: bool = true;

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
            Some(b'\r') if at + 2 == line.len() => at + 1,
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
