//! The preprocessor `decode-text`, which turns text of other encodings, such as UTF-16, into UTF-8.

use encoding_rs::{Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use tremor_abi::batch::Cutter;
use tremor_pdk::{Component, ComponentContext, Error, Result};

use super::streams::{Cut, States, Streams};

/// Decodes text to UTF-8. A stream is decoded while it arrives, and a whole message separately. A byte order mark at
/// the beginning is removed.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Name of the encoding, such as `utf-16`, `utf-16le`, `utf-16be`, `windows-1252` or `shift_jis`. With `utf-16`,
    /// the byte order mark determines the byte order.
    encoding: String,
    /// Treatment of bytes that are not text of the encoding.
    #[serde(default)]
    invalid: Invalid,
}

/// The treatments of bytes that are not text of the encoding.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Invalid {
    /// Each invalid sequence becomes a replacement character, U+FFFD.
    #[default]
    Replace,
    /// A whole message with an invalid sequence goes to `err`. In a stream, the text before the sequence is passed on,
    /// the fragment that contains the sequence goes to `err`, and later bytes of the stream are skipped and counted.
    Reject,
}

/// Minimum capacity of the output of a call, in bytes. A single character has at most 4 bytes.
const LEAST: usize = 64;

/// Maximum capacity in bytes that is kept for the next output.
const KEPT: usize = 1 << 20;

/// An encoding that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Choice {
    Known(&'static Encoding),
    /// UTF-16 in the byte order of the first two bytes.
    Utf16,
}

/// The part of the preprocessor that is common to all streams.
pub(crate) struct Decode {
    choice: Choice,
    invalid: Invalid,
    text: Vec<u8>,
}

/// The preprocessor `decode-text`.
pub(crate) type DecodeText = Streams<Decode>;

/// State of a stream or of a whole message.
pub(crate) enum State {
    /// At most one byte was received, so the byte order of UTF-16 is not known.
    Undetermined(Option<u8>),
    Open(Box<Open>),
    /// The stream had invalid text. The field is the number of bytes after it.
    Lost(u64),
}

/// A stream whose encoding is known.
pub(crate) struct Open {
    decoder: Decoder,
    /// Number of bytes that were decoded.
    read: u64,
    /// The last two bytes that were decoded.
    last: [u8; 2],
}

impl Component for DecodeText {
    const NAME: &str = "decode-text";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let Config { encoding, invalid } = config;
        Ok(Self::cutting(Decode { choice: choice(&encoding)?, invalid, text: Vec::new() }))
    }
}

/// Returns the encoding with a name, by the labels of the Encoding Standard and a few other names.
fn choice(name: &str) -> Result<Choice> {
    // The standard takes `utf-16` for little-endian text, whatever its byte order mark.
    if ["utf-16", "utf16"].iter().any(|it| name.eq_ignore_ascii_case(it)) {
        return Ok(Choice::Utf16);
    }
    let label = match name.to_ascii_lowercase().as_str() {
        "utf16le" => "utf-16le",
        "utf16be" => "utf-16be",
        "latin-1" => "latin1",
        _ => name,
    };
    let found = Encoding::for_label_no_replacement(label.as_bytes());
    // The escape sequences of ISO-2022-JP apply to all later text, so a stream could not be continued after a restart.
    match found.filter(|it| *it != encoding_rs::ISO_2022_JP) {
        Some(encoding) => Ok(Choice::Known(encoding)),
        None => Err(Error::configuration(format_args!(
            "`encoding`: expected the name of an encoding, such as utf-16, utf-16le, latin1, windows-1252 or \
             shift_jis, found {name:?}"
        ))),
    }
}

/// Returns the byte order of text in UTF-16 that begins with these bytes. Text without a byte order mark is
/// little-endian, unless the first character is ASCII in the other byte order.
const fn byte_order(first: [u8; 2]) -> &'static Encoding {
    match first {
        [0xfe, 0xff] => UTF_16BE,
        [0, low] if low != 0 => UTF_16BE,
        _ => UTF_16LE,
    }
}

impl State {
    fn new(choice: Choice) -> Self {
        match choice {
            Choice::Known(encoding) => Self::of(encoding),
            Choice::Utf16 => Self::Undetermined(None),
        }
    }

    fn of(encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder_with_bom_removal();
        Self::Open(Box::new(Open { decoder, read: 0, last: [0; 2] }))
    }
}

impl Open {
    /// Decodes `bytes`, and appends text to `text` until it has `most` bytes. Returns the number of bytes that were
    /// decoded.
    ///
    /// # Errors
    /// `bytes` contain an invalid sequence, and `invalid` says that it is an error. The text before the sequence was
    /// appended.
    fn push(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        invalid: Invalid,
        text: &mut Vec<u8>,
        most: usize,
    ) -> Result<usize> {
        let mut read = 0;
        loop {
            let needed = self.decoder.max_utf8_buffer_length(bytes.len() - read);
            let start = text.len();
            let capacity = needed.unwrap_or(most).min(most.saturating_sub(start)).max(LEAST);
            text.resize(start + capacity, 0);
            let (rest, space) = (&bytes[read..], &mut text[start..]);
            let (is_full, count, written, is_invalid) = match invalid {
                Invalid::Replace => {
                    let (result, count, written, _) =
                        self.decoder.decode_to_utf8(rest, space, is_last);
                    (result == encoding_rs::CoderResult::OutputFull, count, written, false)
                }
                Invalid::Reject => {
                    let (result, count, written) =
                        self.decoder.decode_to_utf8_without_replacement(rest, space, is_last);
                    let is_full = result == encoding_rs::DecoderResult::OutputFull;
                    let is_invalid = matches!(result, encoding_rs::DecoderResult::Malformed(..));
                    (is_full, count, written, is_invalid)
                }
            };
            text.truncate(start + written);
            for byte in &rest[count.saturating_sub(2)..count] {
                self.last = [self.last[1], *byte];
            }
            (read, self.read) = (read + count, self.read + count as u64);
            if is_invalid {
                return Err(Error::bad_data(format_args!(
                    "invalid {} text within the {} bytes up to here",
                    self.decoder.encoding().name(),
                    self.read
                )));
            }
            if !is_full || text.len() >= most {
                return Ok(read);
            }
        }
    }

    /// Returns whether the bytes so far end within a character. Call this only at the end of a stream.
    fn ends_within_character(&mut self) -> bool {
        let mut text = [0; LEAST];
        let (result, ..) = self.decoder.decode_to_utf8_without_replacement(b"", &mut text, true);
        matches!(result, encoding_rs::DecoderResult::Malformed(..))
    }

    /// Returns whether the bytes so far may end within a character.
    fn is_unfinished(&self) -> bool {
        let encoding = self.decoder.encoding();
        let [before, last] = self.last;
        if encoding.is_single_byte() || self.read == 0 {
            return false;
        }
        if encoding == UTF_16LE || encoding == UTF_16BE {
            let high = if encoding == UTF_16LE { last } else { before };
            return !self.read.is_multiple_of(2) || (0xd8..0xdc).contains(&high);
        }
        // These bytes are never part of a longer sequence. Other bytes may be.
        let least = if encoding == UTF_8 { 0x80 } else { 0x30 };
        last >= least
    }
}

impl Cut for Decode {
    type State = State;

    fn is_unfinished(state: &State) -> bool {
        match state {
            State::Undetermined(first) => first.is_some(),
            State::Open(open) => open.is_unfinished(),
            State::Lost(_) => false,
        }
    }

    fn fragment(&mut self, states: &mut States<State>, cutter: &mut Cutter<'_>) {
        self.clear();
        let Self { choice, invalid, text } = self;
        let state = states.entry(cutter.event().stream).or_insert_with(|| State::new(*choice));
        if Self::is_unfinished(state) {
            // The character begins in an earlier event, from which on its bytes have to be read again.
            cutter.forget_position();
        }
        let most = cutter.capacity().max(LEAST);
        let payload = cutter.payload();
        let mut pushed = Ok(payload.len());
        if let State::Undetermined(first) = state {
            let (earlier, more) = match (*first, payload) {
                (_, []) => return,
                (None, [first]) => {
                    *state = State::Undetermined(Some(*first));
                    return;
                }
                (None, [first, second, ..]) => (None, [*first, *second]),
                (Some(first), [second, ..]) => (Some(first), [first, *second]),
            };
            let mut open = State::of(byte_order(more));
            if let (State::Open(open), Some(first)) = (&mut open, earlier) {
                pushed = open.push(&[first], false, *invalid, text, LEAST);
            }
            *state = open;
        }
        match state {
            State::Open(open) => {
                if pushed.is_ok() {
                    pushed = open.push(payload, false, *invalid, text, most);
                }
            }
            State::Lost(bytes) => *bytes += payload.len() as u64,
            State::Undetermined(_) => {}
        }
        let length = payload.len();
        if !text.is_empty() {
            cutter.emit_fragment(text);
        }
        match pushed {
            Ok(read) if read < length => cutter.leave(read),
            Ok(_) => {}
            Err(error) => {
                cutter.refuse(error.context("the remainder of the stream is lost"));
                *state = State::Lost(0);
            }
        }
    }

    fn end(&mut self, states: &mut States<State>, cutter: &mut Cutter<'_>) {
        self.clear();
        let mut state = states.remove(&cutter.event().stream);
        let is_aborted = cutter.event().is_stream_aborted();
        let is_cut_off = match &mut state {
            Some(State::Open(open)) if is_aborted => open.ends_within_character(),
            state => state.as_ref().is_some_and(Self::is_unfinished),
        };
        let ended = match state {
            None | Some(State::Undetermined(None) | State::Lost(0)) => Ok(()),
            Some(State::Lost(bytes)) => Err(Error::bad_data(format_args!(
                "{bytes} bytes after invalid text of the stream were not decoded"
            ))),
            Some(_) if is_aborted && !is_cut_off => Ok(()),
            Some(_) if is_aborted => {
                Err(Error::connection_lost("the stream was cut off within a character"))
            }
            Some(State::Undetermined(Some(first))) => self.finish(State::of(UTF_16LE), &[first]),
            Some(state) => self.finish(state, b""),
        };
        if !self.text.is_empty() {
            cutter.emit_fragment(&self.text);
        }
        if let Err(error) = ended {
            cutter.reject(b"", error);
        }
        cutter.pass();
    }

    fn message(&mut self, cutter: &mut Cutter<'_>) {
        self.clear();
        let payload = cutter.payload();
        let state = match (self.choice, payload) {
            (Choice::Utf16, [first, second, ..]) => State::of(byte_order([*first, *second])),
            (Choice::Utf16, _) => State::of(UTF_16LE),
            (Choice::Known(encoding), _) => State::of(encoding),
        };
        match self.finish(state, payload) {
            Ok(()) => cutter.emit_with_end(&self.text, self.text.len()),
            Err(error) => cutter.refuse(error),
        }
    }
}

impl Decode {
    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT);
    }

    /// Decodes the last bytes of a stream or of a message.
    fn finish(&mut self, state: State, bytes: &[u8]) -> Result<()> {
        let Self { invalid, text, .. } = self;
        match state {
            State::Open(mut open) => open.push(bytes, true, *invalid, text, usize::MAX).map(|_| ()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
