//! What both connectors are told alike: what messages are sent as, and what holds where nothing is said.

use tremor_pdk::{
    prelude::*,
    units::{Interval, Size},
};
use tungstenite::{Bytes, Message, Utf8Bytes};

/// What a message is sent as.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Frames {
    /// As text. What is not UTF-8 is not sent.
    #[default]
    Text,
    /// As bytes.
    Binary,
}

impl Frames {
    pub(crate) fn message(self, bytes: &[u8]) -> Result<Message> {
        let bytes = Bytes::copy_from_slice(bytes);
        match self {
            Self::Binary => Ok(Message::Binary(bytes)),
            Self::Text => Utf8Bytes::try_from(bytes).map(Message::Text).map_err(|error| {
                Error::bad_data(format!("the message is no text: {error}; set `frames: binary`"))
            }),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the default of a key that may be null")]
pub(crate) fn default_ping_interval() -> Option<Interval> {
    Some(Interval::of_ms(30_000))
}

pub(crate) fn default_max_message_bytes() -> Size {
    Size::of_bytes(4 << 20)
}

/// A size of something that has to fit into memory.
pub(crate) fn in_memory(size: Size) -> usize {
    usize::try_from(size.get()).unwrap_or(usize::MAX)
}
