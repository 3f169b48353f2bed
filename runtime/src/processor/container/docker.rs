//! The log files of Docker's driver `json-file`: `{"log":"TEXT\n","stream":"stdout","time":"TIME"}`.

use std::borrow::Cow;

use serde::Deserialize;
use tremor_pdk::{Error, Result};

use super::{Entry, Format, Text, Time, Written};

pub(crate) enum Docker {}

impl Format for Docker {
    const NAME: &'static str = "docker";
    const KEY: Text = Text::DOCKER;
    const HAS_FLAG: bool = false;
    const KEEPS_RETURN: bool = false;

    #[inline]
    fn read(line: &[u8], scratch: &mut Vec<u8>) -> Result<Entry> {
        match usual(line, scratch) {
            Some(entry) => Ok(entry),
            None => other(line, scratch),
        }
    }
}

/// Reads a line in exactly the form in which Docker writes lines without attributes. Returns `None` for other lines.
#[inline]
fn usual(line: &[u8], scratch: &mut Vec<u8>) -> Option<Entry> {
    const START: &[u8] = b"{\"log\":\"";
    const FEED: &[u8] = b"\\n";
    line.strip_prefix(START)?;
    let (mut at, mut last_escape, mut escapes) = (START.len(), 0, 0_usize);
    loop {
        at += memchr::memchr2(b'"', b'\\', &line[at..])?;
        if line[at] == b'"' {
            break;
        }
        (last_escape, escapes) = (at, escapes + 1);
        // The escaped character may be a quotation mark.
        at += 2;
        line.get(at)?;
    }
    let mut text = START.len()..at;
    let after = line[at..].strip_prefix(b"\",\"stream\":\"std")?;
    let is_stderr = after.starts_with(b"err");
    let after = after.strip_prefix(if is_stderr { b"err" } else { b"out" })?;
    let time = after.strip_prefix(b"\",\"time\":\"")?.strip_suffix(b"\"}")?;
    let time = Time::new(time).filter(|_| memchr::memchr2(b'"', b'\\', time).is_none())?;
    let is_partial = escapes == 0 || last_escape + 2 != at || line[last_escape..at] != *FEED;
    if !is_partial {
        text.end -= FEED.len();
        escapes -= 1;
    }
    let text = if escapes == 0 {
        Some(text)
    } else {
        unescape(&line[text], scratch)?;
        None
    };
    Some(Entry { written: Written { time, is_stderr, is_partial }, text })
}

/// Writes the text of a JSON string to `scratch`. Returns `None` if an escape sequence is invalid.
fn unescape(mut left: &[u8], scratch: &mut Vec<u8>) -> Option<()> {
    scratch.clear();
    while let Some(at) = memchr::memchr(b'\\', left) {
        scratch.extend_from_slice(&left[..at]);
        let plain = match *left.get(at + 1)? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, length) = unicode(&left[at..])?;
                scratch.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                left = &left[at + length..];
                continue;
            }
            _ => return None,
        };
        scratch.push(plain);
        left = &left[at + 2..];
    }
    scratch.extend_from_slice(left);
    Some(())
}

/// Reads an escape sequence of the form `\u0041`, or two that form a surrogate pair. Returns the character and the
/// length of the sequence in bytes.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digit = |value: u32, byte: &u8| Some(value * 16 + char::from(*byte).to_digit(16)?);
        digits.iter().try_fold(0, digit)
    };
    let first = unit(0)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = unit(6).filter(|unit| (0xdc00..0xe000).contains(unit) && first < 0xdc00)?;
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)).map(|it| (it, 12))
}

/// A line with its keys in any order, and possibly further keys.
#[derive(Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    log: Cow<'l, str>,
    #[serde(borrow, default)]
    stream: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    time: Option<Cow<'l, str>>,
}

#[cold]
fn other(line: &[u8], scratch: &mut Vec<u8>) -> Result<Entry> {
    let Line { log, stream, time } = serde_json::from_slice(line).map_err(invalid)?;
    let is_stderr = match stream.as_deref() {
        None | Some("stdout") => false,
        Some("stderr") => true,
        Some(_) => return Err(invalid("`stream` is neither `stdout` nor `stderr`")),
    };
    let time = Time::new(time.as_deref().unwrap_or_default().as_bytes());
    let time = time.ok_or_else(|| invalid("`time` is not a time"))?;
    let text = log.strip_suffix('\n');
    scratch.clear();
    scratch.extend_from_slice(text.unwrap_or(&log).as_bytes());
    let is_partial = text.is_none();
    Ok(Entry { written: Written { time, is_stderr, is_partial }, text: None })
}

#[cold]
fn invalid(cause: impl std::fmt::Display) -> Error {
    Error::bad_data(format_args!(
        "invalid line of a log file of Docker: {cause}; expected an object such as \
         `{{\"log\":\"text\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05.678Z\"}}`"
    ))
}
