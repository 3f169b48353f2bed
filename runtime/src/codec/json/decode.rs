//! Decoding of JSON text to nodes.

use std::ops::Range;

use simd_json::{Buffers, ErrorType, INPUT_PADDING, Tape, fill_tape_padded};
use tremor_abi::document::MAX_DEPTH;

use super::{count, explain, numbers, plain, tape};
use crate::codec::Error;
use crate::codec::buffer::{self, Bytes, Nodes, Span};
use crate::codec::copied::without_signature;
use crate::codec::duplicates::Duplicates;
use crate::codec::limit;

/// Length in bytes up to which a message cannot exceed the limit of nodes, because each node except the last takes at
/// least two bytes of text. The nodes of longer messages are counted before the messages are parsed.
const COUNTED: usize = 2 * (limit::nodes(0) - 1);

/// Options for reading JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Maximum nesting depth of arrays and objects, at most [`MAX_DEPTH`].
    pub max_depth: usize,
    /// `true` if a number that no 64-bit integer or float represents exactly becomes the nearest float. Otherwise it
    /// keeps its text.
    pub nearest_floats: bool,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { max_depth: MAX_DEPTH, nearest_floats: false }
    }
}

/// Reads JSON messages. It is reused for every message, to keep its buffers.
///
/// The number `-0` becomes a float, which keeps the sign. If an object has duplicate keys, the last value replaces the
/// first one, at the position of the first one.
pub struct Decoder {
    buffers: Buffers,
    /// The tape is empty between messages, so its lifetime has no meaning.
    tape: Tape<'static>,
    plain: plain::Reader,
    copier: tape::Copier,
    duplicates: Duplicates,
    options: DecodeOptions,
    /// Number of messages without escapes since the last one with escapes, at most [`UNSEARCHED`].
    without_escapes: u32,
    /// `true` if the message that was decoded last contains line breaks.
    has_line_breaks: bool,
}

/// Number of messages without escapes after which the next one is not searched for escapes before it is read. The search
/// takes about 120 instructions for a log event; without it, a message with escapes is read in vain up to the first one.
const UNSEARCHED: u32 = 16;

impl Decoder {
    /// Creates a decoder with empty buffers.
    pub fn new(options: DecodeOptions) -> Self {
        let max_depth = options.max_depth.min(MAX_DEPTH);
        Self {
            buffers: Buffers::with_max_depth(0, max_depth),
            tape: Tape(Vec::new()),
            plain: plain::Reader::new(),
            copier: tape::Copier::default(),
            duplicates: Duplicates::default(),
            options: DecodeOptions { max_depth, ..options },
            without_escapes: 0,
            has_line_breaks: false,
        }
    }

    /// Returns whether the value of the message that was decoded last has all its keys and the values of its numbers,
    /// and the message has no line breaks, as messages that an encoder writes.
    #[inline]
    pub(in crate::codec) fn is_exact(&mut self) -> bool {
        !self.duplicates.take_found() && !self.options.nearest_floats && !self.has_line_breaks
    }

    /// Decodes the message at `span`, appends its nodes, and returns the index of the first node.
    ///
    /// Strings refer to the original text in `bytes`. A message with escapes is copied to the end of `bytes` and
    /// unescaped there, so the bytes at `span` never change. `bytes` also grows by the [`INPUT_PADDING`] that the
    /// parser reads beyond the last message.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the message is not JSON or is nested too deeply, or if a number that has
    /// to become a float exceeds the range of floats. Then `nodes` is unchanged, and `bytes` has at most grown by the
    /// padding.
    pub fn decode(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        nodes: &mut Nodes,
    ) -> Result<u32, Error> {
        let message = buffer::range(span, bytes.len())?;
        if message.len() > COUNTED {
            limit::admit(message.len(), count::nodes(&bytes[message.clone()]))?;
        }
        let before = (bytes.len(), nodes.len());
        let root = self.decode_exact(bytes, span, message.clone(), nodes)?;
        if self.options.nearest_floats
            && let Err(error) = numbers::round(bytes, message.start, &mut nodes[before.1..])
        {
            bytes.truncate(before.0);
            nodes.truncate(before.1);
            return Err(error);
        }
        Ok(root)
    }

    /// Decodes a message. Numbers keep their values.
    fn decode_exact(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        message: Range<usize>,
        nodes: &mut Nodes,
    ) -> Result<u32, Error> {
        let has_escapes = |text: &[u8]| memchr::memchr(b'\\', text).is_some();
        let is_searched = self.without_escapes < UNSEARCHED;
        let mut is_escaped = is_searched && has_escapes(&bytes[message.clone()]);
        if !is_escaped {
            if bytes.len() - message.end < INPUT_PADDING {
                bytes.resize(message.end + INPUT_PADDING, 0);
            }
            if let Some(root) = self.read_plain(bytes, message.clone(), nodes) {
                self.without_escapes += u32::from(is_searched);
                return Ok(root);
            }
            is_escaped = !is_searched && has_escapes(&bytes[message.clone()]);
        }
        self.has_line_breaks = has_line_breaks(&bytes[message.clone()]);
        let decoded = if is_escaped {
            self.without_escapes = 0;
            let copy = append_copy(bytes, message.clone());
            self.parse_copy(bytes, message.clone(), copy, false, nodes)
        } else {
            self.parse(bytes, message.clone(), message.start, false, nodes)
        };
        decoded.or_else(|failure| match failure {
            Failure::Syntax(error) if *error.error() == ErrorType::InvalidNumber => {
                // The parser rejects valid numbers that exceed its range.
                let copy = append_copy(bytes, message.clone());
                let decoded = if numbers::blank(&mut bytes[copy..][..message.len()]) {
                    self.parse_copy(bytes, message.clone(), copy, true, nodes)
                } else {
                    bytes.truncate(copy);
                    Err(Failure::Syntax(error))
                };
                decoded.map_err(|failure| match failure {
                    Failure::Syntax(error) => self.explain(&error, &bytes[message]),
                    Failure::Other(error) => error,
                })
            }
            Failure::Syntax(error) => self
                .decode_after_signature(bytes, span, nodes)
                .unwrap_or_else(|| Err(self.explain(&error, &bytes[message]))),
            Failure::Other(error) => Err(error),
        })
    }

    /// Decodes a message again, without its UTF-8 signature, after it could not be decoded with the signature. Returns
    /// `None` if the message has no signature.
    #[cold]
    fn decode_after_signature(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        nodes: &mut Nodes,
    ) -> Option<Result<u32, Error>> {
        let message = &bytes[span.range()];
        let text = without_signature(message);
        let count = message.len() - text.len();
        // Two signatures are not JSON. Without this check, the second one would be removed recursively.
        if count == 0 || without_signature(text).len() < text.len() {
            return None;
        }
        let shift = u32::try_from(count).ok()?;
        let span = Span { start: span.start + shift, len: span.len - shift };
        Some(self.decode(bytes, span, nodes).map_err(|error| error.after(count)))
    }

    #[cold]
    fn explain(&self, error: &simd_json::Error, message: &[u8]) -> Error {
        explain::error(error, message, self.options.max_depth)
    }

    /// Decodes a message if it contains no escapes and no other rare construct.
    #[inline]
    fn read_plain(
        &mut self,
        bytes: &Bytes,
        message: Range<usize>,
        nodes: &mut Nodes,
    ) -> Option<u32> {
        // Each node takes at least one byte of text.
        let root = buffer::next_index(nodes, message.len()).ok()?;
        let Self { plain, duplicates, options, .. } = self;
        let read = plain.read(bytes, message.clone(), options.max_depth, nodes, duplicates);
        let text = &bytes[message];
        // Outside of strings, the reader accepts only ASCII, so invalid UTF-8 can only be in strings.
        if let Some(has_blanks) = read
            && simdutf8::basic::from_utf8(text).is_ok()
        {
            self.has_line_breaks = has_blanks && has_line_breaks(text);
            self.duplicates.resolve(bytes, nodes, root);
            return Some(root);
        }
        self.duplicates.clear();
        nodes.truncate(root as usize);
        None
    }

    /// Parses a copy of `message` at the end of `bytes`. Removes the copy if it cannot be parsed.
    fn parse_copy(
        &mut self,
        bytes: &mut Bytes,
        message: Range<usize>,
        copy: usize,
        is_blanked: bool,
        nodes: &mut Nodes,
    ) -> Result<u32, Failure> {
        let parsed = self.parse(bytes, message, copy, is_blanked, nodes);
        if parsed.is_err() {
            bytes.truncate(copy);
        }
        parsed
    }

    /// Parses the text at `start`, which is the message or a copy of it. `is_blanked` is `true` if [`numbers::blank`]
    /// changed the copy.
    fn parse(
        &mut self,
        bytes: &mut Bytes,
        message: Range<usize>,
        start: usize,
        is_blanked: bool,
        nodes: &mut Nodes,
    ) -> Result<u32, Failure> {
        let (base, len) = (bytes.as_ptr().addr(), message.len());
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let parsed = fill_tape_padded(&mut bytes[start..], len, &mut self.buffers, &mut tape);
        let copied = parsed.map_err(Failure::Syntax).and_then(|()| {
            let root = buffer::next_index(nodes, tape.0.len())?;
            let has_floats = self.copier.copy(&tape.0, base, nodes, &mut self.duplicates);
            Ok((root, has_floats))
        });
        if len > limit::KEPT {
            self.buffers = Buffers::with_max_depth(0, self.options.max_depth);
            drop(tape);
        } else {
            self.tape = tape.reset();
        }
        let (root, has_floats) = copied?;
        if has_floats || is_blanked {
            numbers::restore(&bytes[message.clone()], message.start, &mut nodes[root as usize..]);
        }
        self.duplicates.resolve(bytes, nodes, root);
        Ok(root)
    }
}

/// Returns whether a message contains line breaks, except around its value.
fn has_line_breaks(message: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', message.trim_ascii()).is_some()
}

/// Appends a copy of a message and the padding that the parser needs. Returns the position of the copy.
fn append_copy(bytes: &mut Bytes, message: Range<usize>) -> usize {
    let copy = bytes.len();
    bytes.resize(copy + message.len() + INPUT_PADDING, 0);
    bytes.as_mut_slice().copy_within(message, copy);
    copy
}

/// The reason why a message could not be decoded.
enum Failure {
    Syntax(simd_json::Error),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

#[cfg(test)]
mod tests;
