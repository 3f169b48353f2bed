//! JSON text to nodes.

use std::ops::Range;

use simd_json::{Buffers, ErrorType, INPUT_PADDING, Tape, fill_tape_padded};
use tremor_abi::document::MAX_DEPTH;

use super::{count, explain, numbers, plain, tape};
use crate::codec::Error;
use crate::codec::buffer::{self, Bytes, Nodes, Span};
use crate::codec::copied::without_signature;
use crate::codec::duplicates::Duplicates;
use crate::codec::limit;

/// The longest message, in bytes, that can have no more nodes than it may: each but the last takes two
/// bytes of text at least.
const COUNTED: usize = 2 * (limit::nodes(0) - 1);

/// How JSON is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// How many arrays and objects may lie in each other; at most [`MAX_DEPTH`] counts.
    pub max_depth: usize,
    /// Whether an integer that 64 bits cannot hold becomes a float, instead of bad data.
    pub big_integers_as_floats: bool,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { max_depth: MAX_DEPTH, big_integers_as_floats: false }
    }
}

/// Reads JSON messages; keeps its buffers from one to the next.
///
/// The number `-0` becomes the float that keeps its sign. Duplicate keys: the last value, in the
/// place of the first.
pub struct Decoder {
    buffers: Buffers,
    /// Empty between messages, which makes its lifetime meaningless.
    tape: Tape<'static>,
    plain: plain::Reader,
    copier: tape::Copier,
    duplicates: Duplicates,
    options: DecodeOptions,
}

impl Decoder {
    /// A decoder with empty buffers.
    pub fn new(options: DecodeOptions) -> Self {
        let max_depth = options.max_depth.min(MAX_DEPTH);
        Self {
            buffers: Buffers::with_max_depth(0, max_depth),
            tape: Tape(Vec::new()),
            plain: plain::Reader::new(),
            copier: tape::Copier::default(),
            duplicates: Duplicates::default(),
            options: DecodeOptions { max_depth, ..options },
        }
    }

    /// Decodes the message at `span`: appends its nodes, gives the index of the first one.
    ///
    /// Strings stay where they are in `bytes`. A message with escapes is copied to the end of
    /// `bytes` and unescaped there, so what lies at `span` never changes. `bytes` also grows by
    /// the [`INPUT_PADDING`] that the parser reads beyond the last message.
    ///
    /// # Errors
    /// Bad data for what is not JSON, lies too deep, or has a number that neither 64 bits nor a
    /// float can hold; `nodes` and the length of `bytes` are then as they were, but for padding.
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
        let decoded = if memchr::memchr(b'\\', &bytes[message.clone()]).is_none() {
            if bytes.len() - message.end < INPUT_PADDING {
                bytes.resize(message.end + INPUT_PADDING, 0);
            }
            if let Some(root) = self.read_plain(bytes, message.clone(), nodes) {
                return Ok(root);
            }
            self.parse(bytes, message.start, message.len(), nodes)
        } else {
            let copy = bytes.len();
            bytes.resize(copy + message.len() + INPUT_PADDING, 0);
            bytes.as_mut_slice().copy_within(message.clone(), copy);
            self.parse_copy(bytes, copy, message.len(), nodes)
        };
        decoded.or_else(|failure| match failure {
            Failure::Syntax(error)
                if self.options.big_integers_as_floats
                    && *error.error() == ErrorType::InvalidNumber =>
            {
                let copy = bytes.len();
                let len = numbers::widen(bytes, message.clone());
                bytes.resize(bytes.len() + INPUT_PADDING, 0);
                self.parse_copy(bytes, copy, len, nodes).map_err(|failure| match failure {
                    // The first error names a position in the message, which this one does not.
                    Failure::Syntax(_) => self.explain(&error, &bytes[message]),
                    Failure::Other(error) => error,
                })
            }
            Failure::Syntax(error) => self
                .decode_after_signature(bytes, span, nodes)
                .unwrap_or_else(|| Err(self.explain(&error, &bytes[message]))),
            Failure::Other(error) => Err(error),
        })
    }

    /// Decodes a message that did not decode without its UTF-8 signature. Returns `None` if it has none.
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
        // A second signature is no JSON, and would come back here.
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

    /// Decodes a message without escapes, if there is nothing else that is rare about it.
    #[inline]
    fn read_plain(
        &mut self,
        bytes: &Bytes,
        message: Range<usize>,
        nodes: &mut Nodes,
    ) -> Option<u32> {
        // A node has a byte of text at least.
        let root = buffer::next_index(nodes, message.len()).ok()?;
        let Self { plain, duplicates, options, .. } = self;
        let read = plain.read(bytes, message.clone(), options.max_depth, nodes, duplicates);
        // Outside of strings it is ASCII, or it would not have been read.
        let is_text = || simdutf8::basic::from_utf8(&bytes[message]).is_ok();
        if read.is_some() && is_text() {
            self.duplicates.resolve(bytes, nodes, root);
            return Some(root);
        }
        self.duplicates.clear();
        nodes.truncate(root as usize);
        None
    }

    /// Parses a message at the end of `bytes`, and removes it if it does not parse.
    fn parse_copy(
        &mut self,
        bytes: &mut Bytes,
        copy: usize,
        len: usize,
        nodes: &mut Nodes,
    ) -> Result<u32, Failure> {
        let parsed = self.parse(bytes, copy, len, nodes);
        if parsed.is_err() {
            bytes.truncate(copy);
        }
        parsed
    }

    fn parse(
        &mut self,
        bytes: &mut Bytes,
        start: usize,
        len: usize,
        nodes: &mut Nodes,
    ) -> Result<u32, Failure> {
        let base = bytes.as_ptr().addr();
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let parsed = fill_tape_padded(&mut bytes[start..], len, &mut self.buffers, &mut tape);
        let copied = parsed.map_err(Failure::Syntax).and_then(|()| {
            let root = buffer::next_index(nodes, tape.0.len())?;
            self.copier.copy(&tape.0, base, nodes, &mut self.duplicates);
            Ok(root)
        });
        if len > limit::KEPT {
            self.buffers = Buffers::with_max_depth(0, self.options.max_depth);
            drop(tape);
        } else {
            self.tape = tape.reset();
        }
        let root = copied?;
        self.duplicates.resolve(bytes, nodes, root);
        Ok(root)
    }
}

/// Why a message did not become nodes.
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
