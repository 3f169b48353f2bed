//! What is sent to the peer.

use std::{future::poll_fn, sync::Arc};

use tremor_pdk::prelude::*;
use tungstenite::{Bytes, Message, Utf8Bytes};

use crate::{config::Frames, session::Link};

/// The sink: each event is a message. A batch is delivered once the system has all of it: the protocol has no
/// acknowledgements.
#[derive(Debug)]
pub struct Sender {
    link: Arc<Link>,
    frames: Frames,
}

impl Sender {
    pub(crate) fn new(link: Arc<Link>, frames: Frames) -> Self {
        Self { link, frames }
    }
}

impl Sink for Sender {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn deliver(&mut self, batch: &Batch) -> Delivery {
        let mut exceptions = Exceptions::none();
        for (position, event) in batch.iter().enumerate() {
            let Some(bytes) = event.raw() else { continue };
            let bytes = Bytes::copy_from_slice(bytes);
            match self.frames {
                Frames::Binary => self.link.send(Message::Binary(bytes)),
                Frames::Text => match Utf8Bytes::try_from(bytes) {
                    Ok(text) => self.link.send(Message::Text(text)),
                    Err(error) => {
                        let error = Error::bad_data(format!(
                            "the message is no text: {error}; set `frames: binary`"
                        ));
                        exceptions.push(position..position + 1, error);
                    }
                },
            }
        }
        self.link.wake();
        let written = poll_fn(|context| self.link.poll_written(context)).await;
        written.map_err(|end| {
            Error::connection_lost(format!("cannot send to `{}`: {end}", self.link.peer))
        })?;
        exceptions.into()
    }
}
