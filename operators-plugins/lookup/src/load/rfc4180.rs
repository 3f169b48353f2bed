//! A check of the quotation marks of CSV, because the decoder accepts texts that RFC 4180 does not allow.

use std::{
    fmt,
    io::{self, Read},
};

/// A reader of CSV that fails at the first quotation mark that RFC 4180 does not allow.
///
/// Without the check, the decoder would read the remaining file as one value if a quotation mark is never closed.
pub(super) struct Quotes<R> {
    reader: R,
    delimiter: u8,
    state: State,
    at: Position,
}

/// A position in a file, from 1. Columns are counted in characters.
#[derive(Clone, Copy, Debug)]
struct Position {
    line: u64,
    column: u64,
}

/// The part of a row before the next byte.
#[derive(Clone, Copy, Debug)]
enum State {
    /// The beginning of a value.
    Start,
    /// A value without quotes.
    Plain,
    /// A quoted value, with the position of its opening quotation mark.
    Quoted(Position),
    /// A quotation mark in a quoted value: it closes the value, or the next one makes it a part of the value.
    Closed(Position),
}

/// A mistake in a file, with its position.
#[derive(Debug)]
pub(super) struct Mistake {
    at: Position,
    problem: &'static str,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.at;
        write!(f, "line {line}, column {column}: {}", self.problem)
    }
}

impl std::error::Error for Mistake {}

impl<R> Quotes<R> {
    pub(super) fn new(reader: R, delimiter: u8) -> Self {
        Self { reader, delimiter, state: State::Start, at: Position { line: 1, column: 1 } }
    }

    /// Checks the next byte.
    fn step(&mut self, byte: u8) -> Result<(), Mistake> {
        let at = self.at;
        let ends_value = byte == self.delimiter || matches!(byte, b'\r' | b'\n');
        self.state = match (self.state, byte) {
            (State::Start, b'"') => State::Quoted(at),
            (State::Plain, b'"') => {
                let problem = "`\"` within a value without quotes: put the value in quotes, and write `\"\"` for `\"`";
                return Err(Mistake { at, problem });
            }
            (State::Quoted(start), b'"') => State::Closed(start),
            (State::Quoted(start), _) | (State::Closed(start), b'"') => State::Quoted(start),
            _ if ends_value => State::Start,
            (State::Start | State::Plain, _) => State::Plain,
            (State::Closed(_), _) => {
                let problem = "expected the delimiter or the end of the row after a quoted value; write `\"\"` for `\"` in it";
                return Err(Mistake { at, problem });
            }
        };
        if byte == b'\n' {
            self.at = Position { line: at.line + 1, column: 1 };
        } else if byte & 0xc0 != 0x80 {
            // Bytes that continue a character of UTF-8 are not counted.
            self.at.column += 1;
        }
        Ok(())
    }

    /// Checks that the file may end here.
    fn end(&self) -> Result<(), Mistake> {
        match self.state {
            State::Quoted(at) => Err(Mistake {
                at,
                problem: "the quotation mark is never closed: add the closing `\"`",
            }),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let checked = match &buffer[..read] {
            [] if buffer.is_empty() => Ok(()),
            [] => self.end(),
            bytes => bytes.iter().try_for_each(|byte| self.step(*byte)),
        };
        checked.map_err(|mistake| io::Error::new(io::ErrorKind::InvalidData, mistake))?;
        Ok(read)
    }
}

impl Mistake {
    /// Returns the mistake that an error of the decoder contains.
    pub(super) fn of(error: &csv::Error) -> Option<&Self> {
        match error.kind() {
            csv::ErrorKind::Io(error) => error.get_ref()?.downcast_ref(),
            _ => None,
        }
    }
}
