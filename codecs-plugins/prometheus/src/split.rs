//! The preprocessor, which splits an exposition into a message for each sample.

use std::collections::HashMap;
use std::ops::Range;

use tremor_pdk::{Cutter, Memory, Preprocessor, RemainingInput, prelude::*, units::MessageBytes};

use crate::config::Format;

/// Splits a scrape into messages, one for each sample, each preceded by the `HELP`, `TYPE` and `UNIT` lines of its
/// family.
#[tremor_pdk::config]
#[derive(Debug)]
pub struct Config {
    /// Maximum length of a line in bytes. Longer lines go to `err`.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
    /// Version of the format. With `openmetrics`, data after `# EOF` goes to `err`. With `text`, such a line is a
    /// comment.
    #[serde(default)]
    format: Format,
}

const fn max_length() -> MessageBytes {
    MessageBytes::new(1 << 20)
}

/// Maximum number of bytes of the `HELP`, `TYPE` and `UNIT` lines of a family, which are copied to each of its samples.
const MAX_ABOUT_BYTES: usize = 8 << 10;
/// Maximum number of bytes of the incomplete lines of all streams together. A larger `max_length` replaces this limit.
const MAX_INCOMPLETE_BYTES: usize = 32 << 20;
/// Maximum number of bytes of a line in its dead letter, if the line is too long.
const MAX_SHOWN_BYTES: usize = 4 << 10;
/// Number of bytes at the beginning of a line that are kept if the line is discarded for lack of
/// memory.
const DISCARDED_PREFIX_BYTES: usize = 64;

/// The preprocessor `prometheus`.
pub struct Split {
    config: Config,
    streams: HashMap<u64, State>,
    /// Bytes of incomplete lines in all streams.
    incomplete_bytes: usize,
    /// Counts `incomplete_bytes` against the memory limit.
    memory: Memory,
    /// Input that has arrived and is not processed yet.
    remaining: RemainingInput,
    /// Buffer for assembling a message, reused for every message.
    head: Vec<u8>,
}

/// State of a stream.
#[derive(Default)]
struct State {
    /// The incomplete line; if it is too long, only the part for the dead letter.
    begun: Vec<u8>,
    /// Number of received bytes of the line if it is too long; otherwise `None`.
    too_long: Option<usize>,
    family: Vec<u8>,
    /// The first `HELP`, `TYPE` and `UNIT` lines of the family, with their line feeds.
    about: Vec<u8>,
    /// Keywords of the lines in `about`.
    keywords: Vec<Keyword>,
    has_ended: bool,
}

impl Component for Split {
    const NAME: &str = "prometheus";
    const DESCRIPTION: &str = "A message for each sample of a scrape, in text or OpenMetrics.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let (streams, head) = Default::default();
        let memory = context.memory();
        Ok(Self {
            config,
            streams,
            incomplete_bytes: 0,
            memory,
            remaining: RemainingInput::default(),
            head,
        })
    }
}

impl Preprocessor for Split {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut remaining = std::mem::take(&mut self.remaining);
        output.reject_all(remaining.cut(batch, |cutter| self.cut(cutter)));
        self.remaining = remaining;
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.remaining.is_empty()
    }

    fn buffers(&self, stream: u64) -> bool {
        let has_begun = |state: &State| !state.begun.is_empty();
        self.streams.get(&stream).is_some_and(has_begun) || self.remaining.contains(stream)
    }

    fn streams(&self) -> Vec<u64> {
        let mut all: Vec<_> =
            self.streams.keys().copied().chain(self.remaining.streams()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Split {
    fn cut(&mut self, cutter: &mut Cutter<'_>) {
        let stream = cutter.event().stream;
        let mut state = self.streams.remove(&stream).unwrap_or_default();
        self.incomplete_bytes -= state.begun.len();
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
            let shown = &state.begun[..state.begun.len().min(MAX_SHOWN_BYTES)];
            cutter.reject(shown, Error::connection_lost("the stream was cut off within a line"));
        } else if !ends && cutter.event().is_fragment() {
            self.begin(&mut state, &cutter.payload()[start..]);
            self.reserve(&mut state);
            self.streams.insert(stream, state);
        } else if start < end || !state.begun.is_empty() {
            self.line(&mut state, cutter, start..end);
        }
        if ends {
            cutter.pass();
        }
    }

    /// Adds a fragment to an incomplete line.
    fn begin(&self, state: &mut State, piece: &[u8]) {
        let length = state.too_long.unwrap_or(state.begun.len()) + piece.len();
        let together = self.incomplete_bytes + length;
        if state.too_long.is_some()
            || length > self.config.max_length.get()
            || together > self.most()
        {
            let missing = MAX_SHOWN_BYTES.saturating_sub(state.begun.len()).min(piece.len());
            state.begun.extend_from_slice(&piece[..missing]);
            state.begun.truncate(MAX_SHOWN_BYTES);
            state.begun.shrink_to(MAX_SHOWN_BYTES);
            state.too_long = Some(length);
        } else {
            state.begun.extend_from_slice(piece);
        }
    }

    /// Counts the memory of an incomplete line. If the flow refuses the memory, and other streams
    /// have incomplete lines, the line is discarded except for its first bytes.
    fn reserve(&mut self, state: &mut State) {
        let others = self.incomplete_bytes;
        self.incomplete_bytes += state.begun.len();
        if !self.memory.try_resize(self.incomplete_bytes) && others > 0 {
            state.too_long.get_or_insert(state.begun.len());
            state.begun.truncate(DISCARDED_PREFIX_BYTES);
            state.begun.shrink_to(DISCARDED_PREFIX_BYTES);
            self.incomplete_bytes = others + state.begun.len();
        }
    }

    fn most(&self) -> usize {
        self.config.max_length.get().max(MAX_INCOMPLETE_BYTES)
    }

    /// Processes a complete line. Its last part is the given range of the payload; an earlier part may be in `state`.
    fn line(&mut self, state: &mut State, cutter: &mut Cutter<'_>, range: Range<usize>) {
        let length = state.too_long.unwrap_or(state.begun.len()) + range.len();
        if state.too_long.is_some() || length > self.config.max_length.get() {
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
        // The first line of a file may begin with a UTF-8 signature.
        let signature = if line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let line = &line[signature..];
        match Line::of(line) {
            Line::Nothing => {}
            Line::Eof => state.has_ended = self.config.format == Format::OpenMetrics,
            _ if state.has_ended => {
                let line = line.to_owned();
                cutter.reject(&line, Error::bad_data("expected nothing after `# EOF`"));
            }
            Line::About(keyword, name) => {
                if name != state.family {
                    state.family = name.to_owned();
                    state.about.clear();
                    state.keywords.clear();
                }
                // Some exporters repeat these lines before each sample.
                let is_new = !state.keywords.contains(&keyword);
                if is_new && state.about.len() + line.len() < MAX_ABOUT_BYTES {
                    state.about.extend_from_slice(line);
                    state.about.push(b'\n');
                    state.keywords.push(keyword);
                } else if is_new {
                    let line = line.to_owned();
                    let what = format_args!(
                        "the lines about a family take more than {MAX_ABOUT_BYTES} bytes: its samples omit \
                         this line"
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
        let most = self.config.max_length.get();
        if length > most {
            return Error::bad_data(format_args!(
                "a line of {length} bytes is longer than `max_length`, {most} bytes; the dead letter contains its first \
                 {MAX_SHOWN_BYTES}"
            ));
        }
        Error::bad_data(format_args!(
            "cannot complete a line of {length} bytes: the incomplete lines of all streams reached their limit of \
             {} bytes, or the flow had reached its memory limit",
            self.most()
        ))
    }
}

/// The kind of a line, as far as the preprocessor distinguishes it.
enum Line<'l> {
    /// An empty line, or a comment.
    Nothing,
    /// A line that describes the family with this name.
    About(Keyword, &'l [u8]),
    /// A sample with this name.
    Sample(&'l [u8]),
    Eof,
}

/// The keyword of a line that describes a family.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Help,
    Type,
    Unit,
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
                match (keyword, rest.next(), rest.next()) {
                    (Some(b"HELP"), Some(name), _) => Self::About(Keyword::Help, name),
                    (Some(b"TYPE"), Some(name), Some(_)) => Self::About(Keyword::Type, name),
                    (Some(b"UNIT"), Some(name), Some(_)) => Self::About(Keyword::Unit, name),
                    (Some(b"EOF"), None, _) => Self::Eof,
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
