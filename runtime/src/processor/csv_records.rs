//! The processors `csv-records`, for records of CSV (RFC 4180) whose quoted fields may contain line feeds.

use std::num::NonZeroU32;

use tremor_pdk::{
    Batch, Component, ComponentContext, Error, Found, Input, Output, Postprocessor, Result,
    StreamSplitter, units::MessageBytes,
};

use super::max_length;
use crate::codec::csv::{ascii, ascii_or_null, check_separators};

/// Splits byte streams at the line feeds that end a record, and not at those in quoted fields. A carriage return before
/// the line feed is removed, and so is a UTF-8 signature at the start of a stream. A whole message is split too.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Separator of the fields, one ASCII character.
    #[serde(default = "comma", deserialize_with = "ascii")]
    #[schemars(with = "char")]
    delimiter: u8,
    /// Quotation mark of fields, one ASCII character, or `null` for none.
    #[serde(default = "quotation_mark", deserialize_with = "ascii_or_null")]
    #[schemars(with = "Option<char>")]
    quote: Option<u8>,
    /// Maximum number of lines of a record. If a record has more, a quotation mark is missing, so its first line goes
    /// to `err`.
    #[serde(default = "max_lines")]
    max_lines: NonZeroU32,
    /// Maximum length of a record in bytes. The first line of a longer record goes to `err`.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
}

/// Ends every record with a line feed.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct EndConfig {
    /// Separator of the fields, one ASCII character.
    #[serde(default = "comma", deserialize_with = "ascii")]
    #[schemars(with = "char")]
    delimiter: u8,
    /// Quotation mark of fields, one ASCII character, or `null` for none.
    #[serde(default = "quotation_mark", deserialize_with = "ascii_or_null")]
    #[schemars(with = "Option<char>")]
    quote: Option<u8>,
}

const fn comma() -> u8 {
    b','
}

#[allow(clippy::unnecessary_wraps, reason = "the default of an optional key")]
const fn quotation_mark() -> Option<u8> {
    Some(b'"')
}

fn max_lines() -> NonZeroU32 {
    NonZeroU32::new(1_000).unwrap_or(NonZeroU32::MIN)
}

/// Characters with a meaning in records.
#[derive(Clone, Copy, Debug)]
struct Format {
    delimiter: u8,
    quote: Option<u8>,
}

/// Progress within a record.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    within: Within,
    /// Line feeds in quoted fields.
    lines: u32,
    /// Number of bytes of the first line, with its line feed, if a quoted field contains a line feed.
    first_line: Option<usize>,
}

/// Position relative to the fields of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Within {
    /// At the start of a field.
    #[default]
    Start,
    Plain,
    Quotes,
    /// After a quotation mark in a quoted field, which ends the field unless another one follows.
    Quote,
}

/// Result of a step through a record.
enum Step {
    /// More bytes are needed.
    More,
    /// The line feed at this position ends the record.
    End(usize),
    /// Other text follows a quoted field, or a quoted field has too many lines. The field is the number of bytes that
    /// were searched.
    Malformed(usize),
}

impl Format {
    /// Creates the format from its separators, which have to differ.
    fn new(delimiter: u8, quote: Option<u8>) -> Result<Self> {
        check_separators(delimiter, quote)?;
        Ok(Self { delimiter, quote })
    }

    /// Continues a record at `at`.
    fn step(self, progress: &mut Progress, bytes: &[u8], mut at: usize, max_lines: u32) -> Step {
        while let Some(byte) = bytes.get(at).copied() {
            let rest = &bytes[at..];
            match progress.within {
                Within::Start if Some(byte) == self.quote => {
                    (progress.within, at) = (Within::Quotes, at + 1);
                }
                Within::Start | Within::Plain => {
                    // Only after a delimiter, a quotation mark begins a quoted field.
                    let found = memchr::memchr2(self.delimiter, b'\n', rest);
                    let Some(length) = found else {
                        progress.within = Within::Plain;
                        return Step::More;
                    };
                    at += length;
                    if bytes[at] == b'\n' {
                        return Step::End(at);
                    }
                    (progress.within, at) = (Within::Start, at + 1);
                }
                Within::Quotes => {
                    let quote = self.quote.unwrap_or(b'"');
                    let Some(length) = memchr::memchr2(quote, b'\n', rest) else {
                        return Step::More;
                    };
                    at += length + 1;
                    if rest[length] == quote {
                        progress.within = Within::Quote;
                    } else {
                        progress.first_line.get_or_insert(at);
                        progress.lines += 1;
                        if progress.lines >= max_lines {
                            return Step::Malformed(at);
                        }
                    }
                }
                Within::Quote => match byte {
                    b'\n' => return Step::End(at),
                    _ if Some(byte) == self.quote => {
                        (progress.within, at) = (Within::Quotes, at + 1);
                    }
                    _ if byte == self.delimiter => {
                        (progress.within, at) = (Within::Start, at + 1);
                    }
                    b'\r' if rest.len() == 1 => return Step::More,
                    b'\r' if rest[1] == b'\n' => return Step::End(at + 1),
                    _ => return Step::Malformed(at),
                },
            }
        }
        Step::More
    }
}

/// The preprocessor `csv-records`.
pub(crate) struct CsvRecords {
    format: Format,
    max_lines: u32,
    max_length: usize,
}

impl Component for CsvRecords {
    const NAME: &str = "csv-records";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let Config { delimiter, quote, max_lines, max_length } = config;
        let format = Format::new(delimiter, quote)?;
        Ok(Self { format, max_lines: max_lines.get(), max_length: max_length.get() })
    }
}

/// Number of bytes that may be searched in vain before malformed records are rejected with all lines that were searched.
const SEARCHED: usize = 1 << 20;

/// Number of bytes by which each byte that is split or rejected lowers the number of bytes that were searched in vain.
const REPAID: usize = 8;

/// State of a stream.
#[derive(Default)]
pub(crate) struct State {
    /// Progress within the record that has begun.
    progress: Progress,
    /// `true` after the first bytes of the stream, which may be a UTF-8 signature.
    has_begun: bool,
    /// The reason for which the line at the beginning of the input goes to `err`.
    malformed: Option<&'static str>,
    /// Number of bytes that were searched for the ends of malformed records, less those that were repaid. The lines
    /// after the first line of such a record are searched again. Otherwise a peer could send lines that each begin a
    /// record without an end, and cause `max_lines` searches of each line.
    searched: usize,
}

impl State {
    fn repay(&mut self, bytes: usize) {
        self.searched = self.searched.saturating_sub(bytes.saturating_mul(REPAID));
    }
}

/// Rejects the first line of a malformed record of which `searched` bytes were searched, so that the lines after it are
/// split again. Rejects all lines that were searched if too many bytes of the stream were searched in vain.
fn reject(state: &mut State, input: Input<'_>, searched: usize, why: &'static str) -> Found {
    let from = if state.malformed.is_some() { input.seen() } else { 0 };
    // The beginning of a truncated message is gone, so the position of its first line means nothing.
    let first_line = state.progress.first_line.filter(|_| !input.is_truncated());
    let is_all = first_line.is_some() && state.searched > SEARCHED;
    let last_line = |first| memchr::memrchr(b'\n', &input[..searched]).map_or(first, |end| end + 1);
    let line = first_line.map(|first| if is_all { last_line(first) } else { first });
    let line = line.or_else(|| {
        let length = memchr::memchr(b'\n', &input[from..])?;
        Some(from + length + 1)
    });
    let len = match line {
        Some(line) => line.min(input.len()),
        None if input.is_end() => input.len(),
        None => {
            state.malformed = Some(why);
            return Found::More;
        }
    };
    if first_line.is_some() {
        state.searched += searched;
    }
    state.repay(len);
    (state.progress, state.malformed) = (Progress::default(), None);
    let skipped = if is_all { "all its lines were" } else { "its first line was" };
    Found::Reject {
        len,
        error: Error::bad_data(format_args!(
            "invalid record of CSV: {why}; {skipped} skipped, and the next record is expected in the next line"
        )),
    }
}

impl StreamSplitter for CsvRecords {
    type State = State;

    fn next(&mut self, state: &mut State, input: Input<'_>) -> Result<Found> {
        const SIGNATURE: &[u8] = b"\xef\xbb\xbf";
        let is_first = !state.has_begun;
        if is_first {
            if input.len() < SIGNATURE.len() && SIGNATURE.starts_with(&input) && !input.is_end() {
                return Ok(Found::More);
            }
            state.has_begun = true;
            if input.starts_with(SIGNATURE) {
                return Ok(Found::Skip(SIGNATURE.len()));
            }
        }
        if let Some(why) = state.malformed {
            return Ok(reject(state, input, input.len(), why));
        }
        let seen = if is_first { 0 } else { input.seen() };
        // A carriage return at the end of the input is examined again with the byte after it.
        let has_return = state.progress.within == Within::Quote && input[..seen].ends_with(b"\r");
        let from = seen - usize::from(has_return);
        match self.format.step(&mut state.progress, &input, from, self.max_lines) {
            Step::End(end) => {
                state.progress = Progress::default();
                state.repay(end + 1);
                let line = &input[..end];
                let length = line.strip_suffix(b"\r").unwrap_or(line).len();
                Ok(Found::message(0..length, end + 1))
            }
            Step::Malformed(searched) if state.progress.lines >= self.max_lines => {
                let why = "a quoted field does not end within `max_lines` lines";
                Ok(reject(state, input, searched, why))
            }
            Step::Malformed(searched) => {
                let why = "expected a delimiter or the end of the line after a field in quotes";
                Ok(reject(state, input, searched, why))
            }
            Step::More if input.is_end() && state.progress.within == Within::Quotes => {
                Ok(reject(state, input, input.len(), "a quoted field does not end"))
            }
            Step::More if input.is_end() => {
                state.progress = Progress::default();
                let length = input.strip_suffix(b"\r").unwrap_or(&input).len();
                Ok(Found::message(0..length, input.len()))
            }
            Step::More
                if state.progress.first_line.is_some()
                    && (input.is_truncated() || input.len() > self.max_length) =>
            {
                Ok(reject(state, input, input.len(), "it is longer than `max_length`"))
            }
            Step::More => Ok(Found::More),
        }
    }

    fn max_length(&self) -> usize {
        self.max_length
    }
}

/// The postprocessor `csv-records`.
pub(crate) struct End(Format);

impl Component for End {
    const NAME: &str = "csv-records";
    type Config = EndConfig;

    fn new(config: EndConfig, _context: ComponentContext) -> Result<Self> {
        Format::new(config.delimiter, config.quote).map(Self)
    }
}

impl Postprocessor for End {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.reject_all(batch.cut(|cutter| {
            let mut progress = Progress::default();
            let step = self.0.step(&mut progress, cutter.payload(), 0, u32::MAX);
            if matches!(step, Step::More) && progress.within != Within::Quotes {
                cutter.emit_followed(b"\n");
            } else {
                // A receiver would read other records than this one.
                cutter.refuse(Error::bad_data(
                    "the message is not one record of CSV: line feeds and quotation marks have to be in quoted fields",
                ));
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
