//! The preprocessor: a message for every sample.

use std::collections::HashMap;
use std::ops::Range;

use tremor_pdk::{Cutter, Memory, Preprocessor, Rest, prelude::*};

use crate::config::Format;

/// Cuts a scrape into messages, one for each sample, with the `HELP`, `TYPE` and `UNIT` lines of its
/// family before it.
#[tremor_pdk::config]
#[derive(Debug)]
pub struct Config {
    /// The longest line that is taken, in bytes. Longer ones go to `err`.
    #[serde(default = "max_length")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_length: usize,
    /// The version of the format. With `openmetrics`, what follows `# EOF` goes to `err`. In `text`, such a line is a
    /// comment.
    #[serde(default)]
    format: Format,
}

const fn max_length() -> usize {
    1 << 20
}

/// What the lines about a family may take, in bytes: they are copied to each of its samples.
const ABOUT: usize = 8 << 10;
/// What lines that have begun in all streams may take, in bytes, where one alone may not take more.
const HELD: usize = 32 << 20;
/// How much of a line that is too long its dead letter shows, in bytes.
const SHOWN: usize = 4 << 10;
/// Bytes that are kept of a line whose beginning was discarded for lack of memory.
const KEPT: usize = 64;

/// The preprocessor `prometheus`.
pub struct Split {
    config: Config,
    streams: HashMap<u64, State>,
    /// What the lines take that have begun in all streams, in bytes.
    held: usize,
    /// Counts them in the memory of the flow.
    memory: Memory,
    /// What has come and is not cut yet.
    rest: Rest,
    /// Room to put a message together.
    head: Vec<u8>,
}

/// What is kept of a stream.
#[derive(Default)]
struct State {
    /// The line that has begun; of one that is too long, what will be shown.
    begun: Vec<u8>,
    /// How long a line is that is too long, so far.
    too_long: Option<usize>,
    family: Vec<u8>,
    /// The lines about the family, with their line feeds.
    about: Vec<u8>,
    has_ended: bool,
}

impl Component for Split {
    const NAME: &str = "prometheus";
    const DESCRIPTION: &str = "A message for each sample of a scrape, in text or OpenMetrics.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let (streams, head) = Default::default();
        let memory = context.memory();
        Ok(Self { config, streams, held: 0, memory, rest: Rest::default(), head })
    }
}

impl Preprocessor for Split {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut rest = std::mem::take(&mut self.rest);
        output.reject_all(rest.cut(batch, |cutter| self.cut(cutter)));
        self.rest = rest;
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.rest.is_empty()
    }

    fn holds(&self, stream: u64) -> bool {
        let has_begun = |state: &State| !state.begun.is_empty();
        self.streams.get(&stream).is_some_and(has_begun) || self.rest.holds(stream)
    }

    fn streams(&self) -> Vec<u64> {
        let mut all: Vec<_> = self.streams.keys().copied().chain(self.rest.streams()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Split {
    fn cut(&mut self, cutter: &mut Cutter<'_>) {
        let stream = cutter.event().stream;
        let mut state = self.streams.remove(&stream).unwrap_or_default();
        self.held -= state.begun.len();
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &cutter.payload()[start..]) {
            self.line(&mut state, cutter, start..start + length);
            start += length + 1;
            if cutter.is_heavy() {
                self.streams.insert(stream, state);
                return cutter.leave(start);
            }
        }
        let end = cutter.payload().len();
        let ends = cutter.event().is_stream_end();
        if cutter.event().is_stream_aborted() && !state.begun.is_empty() {
            let shown = &state.begun[..state.begun.len().min(SHOWN)];
            cutter.reject(shown, Error::connection_lost("the stream was cut off within a line"));
        } else if !ends && cutter.event().is_fragment() {
            self.begin(&mut state, &cutter.payload()[start..]);
            self.hold(&mut state);
            self.streams.insert(stream, state);
        } else if start < end || !state.begun.is_empty() {
            self.line(&mut state, cutter, start..end);
        }
        if ends {
            cutter.pass();
        }
    }

    /// Adds to a line whose end has not come yet.
    fn begin(&self, state: &mut State, piece: &[u8]) {
        let length = state.too_long.unwrap_or(state.begun.len()) + piece.len();
        let together = self.held + length;
        if state.too_long.is_some() || length > self.config.max_length || together > self.most() {
            let missing = SHOWN.saturating_sub(state.begun.len()).min(piece.len());
            state.begun.extend_from_slice(&piece[..missing]);
            state.begun.truncate(SHOWN);
            state.begun.shrink_to(SHOWN);
            state.too_long = Some(length);
        } else {
            state.begun.extend_from_slice(piece);
        }
    }

    /// Counts the beginning of a line. If the flow may not take the memory, and other streams hold some, the beginning
    /// is discarded.
    fn hold(&mut self, state: &mut State) {
        let others = self.held;
        self.held += state.begun.len();
        if !self.memory.try_resize(self.held) && others > 0 {
            state.too_long.get_or_insert(state.begun.len());
            state.begun.truncate(KEPT);
            state.begun.shrink_to(KEPT);
            self.held = others + state.begun.len();
        }
    }

    fn most(&self) -> usize {
        self.config.max_length.max(HELD)
    }

    /// A line that has come whole, of which a range of the payload is the end.
    fn line(&mut self, state: &mut State, cutter: &mut Cutter<'_>, range: Range<usize>) {
        let length = state.too_long.unwrap_or(state.begun.len()) + range.len();
        if state.too_long.is_some() || length > self.config.max_length {
            self.begin(state, &cutter.payload()[range]);
            cutter.reject(&state.begun, self.too_long(length));
            state.begun.clear();
            state.too_long = None;
            return;
        }
        let is_joined = !state.begun.is_empty();
        if is_joined {
            state.begun.extend_from_slice(&cutter.payload()[range.clone()]);
        }
        let line = if is_joined { &state.begun[..] } else { &cutter.payload()[range.clone()] };
        // No line begins with a UTF-8 signature but the first of a file.
        let signature = if line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let line = &line[signature..];
        match Line::of(line) {
            Line::Nothing => {}
            Line::Eof => state.has_ended = self.config.format == Format::OpenMetrics,
            _ if state.has_ended => {
                let line = line.to_owned();
                cutter.reject(&line, Error::bad_data("expected nothing after `# EOF`"));
            }
            Line::About(name) => {
                if name != state.family {
                    state.family = name.to_owned();
                    state.about.clear();
                }
                if state.about.len() + line.len() < ABOUT {
                    state.about.extend_from_slice(line);
                    state.about.push(b'\n');
                } else {
                    let line = line.to_owned();
                    let what = format_args!(
                        "the lines about a family take more than {ABOUT} bytes: its samples go without \
                         this one"
                    );
                    cutter.reject(&line, Error::bad_data(what));
                }
            }
            Line::Sample(name) => {
                let about = if name.starts_with(&state.family) { &state.about[..] } else { &[] };
                if is_joined {
                    self.head.clear();
                    self.head.extend_from_slice(about);
                    self.head.extend_from_slice(line);
                    cutter.emit_joined(&self.head, 0..0);
                } else {
                    let range = range.start + signature..range.end;
                    if about.is_empty() {
                        cutter.emit(range);
                    } else {
                        cutter.emit_joined(about, range);
                    }
                }
            }
        }
        state.begun.clear();
    }

    #[cold]
    fn too_long(&self, length: usize) -> Error {
        let most = self.config.max_length;
        if length > most {
            return Error::bad_data(format_args!(
                "a line of {length} bytes is longer than `max_length`, {most} bytes; shown are its first \
                 {SHOWN}"
            ));
        }
        Error::bad_data(format_args!(
            "cannot complete a line of {length} bytes: the lines that had begun in all streams took the most \
             that they may, {} bytes, or the flow had reached its memory limit",
            self.most()
        ))
    }
}

/// What a line is, as far as that matters here: the codec reads it.
enum Line<'l> {
    /// Empty, or for people.
    Nothing,
    /// About the family of this name.
    About(&'l [u8]),
    /// A sample of this name.
    Sample(&'l [u8]),
    Eof,
}

impl<'l> Line<'l> {
    fn of(line: &'l [u8]) -> Self {
        let is_blank = |byte: &u8| b" \t".contains(byte);
        let words = |line: &'l [u8]| line.split(is_blank).filter(|word| !word.is_empty());
        let mut rest = words(line);
        match rest.next() {
            None => Self::Nothing,
            Some(first) if first.starts_with(b"#") => {
                let keyword = if first.len() > 1 { Some(&first[1..]) } else { rest.next() };
                match (keyword, rest.next()) {
                    (Some(b"HELP" | b"TYPE" | b"UNIT"), Some(name)) => Self::About(name),
                    (Some(b"EOF"), None) => Self::Eof,
                    _ => Self::Nothing,
                }
            }
            Some(first) => {
                let length = first.iter().position(|byte| *byte == b'{').unwrap_or(first.len());
                Self::Sample(&first[..length])
            }
        }
    }
}

#[cfg(test)]
mod tests;
