//! Configuration that the client and the server share: message type, defaults and sizes.

use tremor_pdk::{
    prelude::*,
    units::{Interval, Size},
};
use tungstenite::{Bytes, Message, Utf8Bytes};

/// Type of sent messages.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Frames {
    /// Text messages. An event that is not UTF-8 is not sent.
    #[default]
    Text,
    /// Binary messages.
    Binary,
}

impl Frames {
    pub(crate) fn message(self, bytes: &[u8]) -> Result<Message> {
        let bytes = Bytes::copy_from_slice(bytes);
        match self {
            Self::Binary => Ok(Message::Binary(bytes)),
            Self::Text => Utf8Bytes::try_from(bytes).map(Message::Text).map_err(|error| {
                Error::bad_data(format!(
                    "the message is not UTF-8 text: {error}; set `frames: binary`"
                ))
            }),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the default has to be that of the key")]
pub(crate) fn default_ping_interval() -> Option<Interval> {
    Some(Interval::of_ms(30_000))
}

pub(crate) fn default_max_message_bytes() -> Size {
    Size::of_bytes(4 << 20)
}
