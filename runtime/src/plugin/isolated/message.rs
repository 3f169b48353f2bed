//! Messages between the runtime and the process of a plugin: a header of 32 bytes, and a body. `docs/isolation.md`
//! describes every message.

use serde::{Serialize, de::DeserializeOwned};
use tremor_pdk::Error;

use super::body::ErrorBody;
use crate::plugin::executable::PROTOCOL;

/// Version of the protocol. A process refuses every other version.
pub(super) const VERSION: u64 = PROTOCOL;

/// Length of a header, in bytes.
pub(super) const HEADER: usize = 32;

/// Maximum length of a body, in bytes. Larger contents are sent as frames.
pub(super) const MAX_BODY: usize = 64 << 20;

/// The kind of a message. An open set: messages of unknown kinds are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub(super) u16);

impl Kind {
    pub(super) const HELLO: Self = Self(1);
    pub(super) const NEW: Self = Self(2);
    pub(super) const CONNECT: Self = Self(3);
    pub(super) const HOOK: Self = Self(4);
    pub(super) const PING: Self = Self(5);
    pub(super) const CHECK: Self = Self(6);
    pub(super) const PULL: Self = Self(16);
    pub(super) const ACK: Self = Self(17);
    pub(super) const FAIL: Self = Self(18);
    pub(super) const UNDECODABLE: Self = Self(19);
    pub(super) const BREAKER: Self = Self(20);
    pub(super) const CLOSE_SOURCE: Self = Self(21);
    pub(super) const DROP_SOURCE: Self = Self(22);
    pub(super) const GRANT: Self = Self(32);
    pub(super) const DELIVER: Self = Self(33);
    pub(super) const TICK: Self = Self(34);
    pub(super) const FLUSH: Self = Self(35);
    pub(super) const CLOSE_SINK: Self = Self(36);
    pub(super) const DROP_SINK: Self = Self(37);
    pub(super) const GIVE_UP: Self = Self(48);
    pub(super) const LOG: Self = Self(64);
    pub(super) const METRICS: Self = Self(65);
    pub(super) const PROBLEM: Self = Self(66);
    pub(super) const CONNECTION_LOST: Self = Self(67);
    pub(super) const REQUEST_STOP: Self = Self(68);
}

/// Bits of the field `flags`.
pub(super) mod flags {
    /// The message answers the call with its number.
    pub(in super::super) const ANSWER: u16 = 1;
    /// The call failed, and the body is the error.
    pub(in super::super) const ERROR: u16 = 2;
    /// Answer to PULL: no event is available now.
    pub(in super::super) const IDLE: u16 = 4;
    /// Answer to PULL: the source has ended.
    pub(in super::super) const FINISHED: u16 = 8;
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Sum of [`flags`].
    pub(super) flags: u16,
    /// Number of the call; 0 if the message is not part of a call.
    pub(super) call: u32,
    /// Number of the slot of the shared memory.
    pub(super) slot: u32,
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// Creates a message without a body, whose fields are 0.
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, flags: 0, call: 0, slot: 0, a: 0, b: 0, body: Vec::new() }
    }

    /// Creates the answer to the call with the number `call`.
    pub(super) fn answer(kind: Kind, call: u32) -> Self {
        Self { flags: flags::ANSWER, call, ..Self::new(kind) }
    }

    /// Creates the answer to a call: without a body if it succeeded, and with the error otherwise.
    pub(super) fn outcome(kind: Kind, call: u32, outcome: &Result<(), Error>) -> Self {
        match outcome {
            Ok(()) => Self::answer(kind, call),
            Err(error) => Self::answer(kind, call).failed(error),
        }
    }

    /// Makes the message an answer of a call that failed.
    pub(super) fn failed(self, error: &Error) -> Self {
        Self { flags: self.flags | flags::ERROR, ..self.json(&ErrorBody::from(error)) }
    }

    /// Sets the body to the JSON of `body`.
    pub(super) fn json(self, body: &impl Serialize) -> Self {
        // Only maps with keys that are no texts cannot be serialised, and bodies have none.
        Self { body: serde_json::to_vec(body).unwrap_or_default(), ..self }
    }

    /// Sets the body to `text`.
    pub(super) fn text(self, text: &str) -> Self {
        Self { body: text.as_bytes().to_vec(), ..self }
    }

    /// Returns whether all bits of `flags` are set.
    pub(super) const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Returns the error of the call if it failed.
    ///
    /// # Errors
    /// Returns the error in the body. If the body is not an error, the kind is internal.
    pub(super) fn check(&self) -> Result<(), Error> {
        if !self.has(flags::ERROR) {
            return Ok(());
        }
        Err(self.read::<ErrorBody>()?.into())
    }

    /// Reads the body as JSON.
    ///
    /// # Errors
    /// Kind internal, if the body is not such a value.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::internal(format_args!(
                "message of kind {} between the runtime and the process of the plugin: invalid body: {error}",
                self.kind.0
            ))
        })
    }

    /// Appends the message to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        // A body that is too long cannot be read. All bodies are limited before they are written.
        let len = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        out.reserve(HEADER + self.body.len());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&self.kind.0.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.call.to_le_bytes());
        out.extend_from_slice(&self.slot.to_le_bytes());
        out.extend_from_slice(&self.a.to_le_bytes());
        out.extend_from_slice(&self.b.to_le_bytes());
        out.extend_from_slice(&self.body);
    }
}

/// A body that is longer than [`MAX_BODY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message has a body of {len} bytes: the limit is {MAX_BODY} bytes")]
pub(super) struct TooLong {
    len: usize,
}

/// Finds messages in a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    /// Number of bytes that were returned as messages.
    read: usize,
}

impl Parser {
    /// Appends bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// The body is too long. Nothing that follows can be read.
    pub(super) fn next(&mut self) -> Result<Option<Message>, TooLong> {
        let left = &self.bytes[self.read..];
        let Some(header) = left.first_chunk::<HEADER>() else { return Ok(None) };
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let len = u32_at(0) as usize;
        if len > MAX_BODY {
            return Err(TooLong { len });
        }
        let Some(body) = left[HEADER..].get(..len) else { return Ok(None) };
        let message = Message {
            kind: Kind(u16_at(4)),
            flags: u16_at(6),
            call: u32_at(8),
            slot: u32_at(12),
            a: u64_at(16),
            b: u64_at(24),
            body: body.to_vec(),
        };
        self.read += HEADER + len;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tremor_pdk::{Error, ErrorPolicy};

    use super::{HEADER, Kind, MAX_BODY, Message, Parser, TooLong};

    fn messages() -> impl Strategy<Value = Vec<Message>> {
        let body = prop::collection::vec(any::<u8>(), 0..200);
        let fields = (any::<[u16; 2]>(), any::<[u32; 2]>(), any::<[u64; 2]>(), body);
        let message = fields.prop_map(|([kind, flags], [call, slot], [a, b], body)| Message {
            kind: Kind(kind),
            flags,
            call,
            slot,
            a,
            b,
            body,
        });
        prop::collection::vec(message, 0..8)
    }

    proptest! {
        #[test]
        fn messages_are_read_as_written_in_pieces_of_any_size(
            messages in messages(),
            size in 1_usize..100,
        ) {
            let mut bytes = Vec::new();
            messages.iter().for_each(|message| message.write(&mut bytes));
            let (mut parser, mut read) = (Parser::default(), Vec::new());
            for piece in bytes.chunks(size) {
                parser.push(piece);
                while let Some(message) = parser.next().unwrap() {
                    read.push(message);
                }
            }
            prop_assert_eq!(read, messages);
        }

        #[test]
        fn any_bytes_are_messages_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        ) {
            let mut parser = Parser::default();
            parser.push(&bytes);
            let mut len = 0;
            while let Ok(Some(message)) = parser.next() {
                len += HEADER + message.body.len();
            }
            prop_assert!(len <= bytes.len());
        }
    }

    #[test]
    fn body_above_limit_is_an_error_before_it_arrives() {
        let mut bytes = Vec::new();
        Message::new(Kind::LOG).write(&mut bytes);
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut parser = Parser::default();
        parser.push(&bytes);
        assert_eq!(parser.next(), Err(TooLong { len: u32::MAX as usize }));
        assert!(u32::MAX as usize > MAX_BODY);
    }

    #[test]
    fn error_of_a_call_keeps_kind_policy_and_causes() {
        let cause = std::io::Error::other("no space left");
        let error = Error::full("cannot write").caused_by(&cause).with_policy(ErrorPolicy::GIVE_UP);
        let answer = Message::outcome(Kind::TICK, 7, &Err(error.clone()));
        assert_eq!((answer.check(), answer.call), (Err(error), 7));
        assert_eq!(Message::outcome(Kind::TICK, 7, &Ok(())).check(), Ok(()));
    }

    #[test]
    fn failed_call_without_an_error_is_an_internal_error() {
        let mut answer = Message::answer(Kind::PULL, 1).failed(&Error::internal("wrong"));
        answer.body.truncate(3);
        assert!(answer.check().unwrap_err().message().contains("invalid body"));
    }
}
