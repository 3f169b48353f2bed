//! The driver of codecs.

use tremor_abi::batch::{HostBatch, Payload};

use crate::{
    Batch, Codec, Document, Error, Message, Output, Result, Writer,
    dynamic::{DynCodec, discard_empty},
};

/// Calls a codec for the messages of a batch, one after the other.
///
/// Each message is copied before it is decoded, because decoding writes to the buffer that contains the message.
pub(crate) struct CodecDriver<T> {
    codec: T,
    message: Vec<u8>,
}

impl<T: Codec> CodecDriver<T> {
    pub(crate) fn new(codec: T) -> Self {
        Self { codec, message: Vec::new() }
    }
}

impl<T: Codec> DynCodec for CodecDriver<T> {
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let Self { codec, message } = self;
        let mut rejected = batch.decode_with(|bytes, nodes, span| {
            message.clear();
            message.extend_from_slice(bytes.get(span.range()).unwrap_or_default());
            let mut writer = Writer::new(bytes, nodes);
            codec.decode(message, &mut writer)?;
            writer.finish().map_err(Error::bad_data)
        });
        output.discard(discard_empty(batch, &mut rejected, |bytes| codec.holds_no_event(bytes)));
        output.reject_all(rejected);
        Ok(())
    }

    fn encode(
        &mut self,
        batch: &mut Batch,
        encoded: &mut Batch,
        output: &mut Output,
    ) -> Result<()> {
        let codec = &mut self.codec;
        let most = batch.output_at_most();
        output.reject_all(batch.encode_into(encoded, |payload, bytes| {
            let value = match payload {
                Payload::Document { bytes, nodes, root, .. } => {
                    Document::new(bytes, nodes).root(root)
                }
                Payload::Value(value) => value,
            };
            let mut message = Message::new(bytes, most);
            codec.encode(value, &mut message)?;
            message.finish()
        }));
        Ok(())
    }
}
