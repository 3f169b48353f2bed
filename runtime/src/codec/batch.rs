//! Codecs over batches: what the engine works with.

use tremor_abi::batch::{HostBatch, Payload, Pool, Rejected};
use tremor_pdk::{Batch, Error};

use super::{Codec, Decoder, Encoder, Terminator};
use crate::dynamic::discard_empty;

/// Turns the raw events of batches into values.
pub(crate) trait BatchDecoder: Send {
    /// Decodes a batch in place, until it is heavy; what is left then stays as it is, after the
    /// others ([`Batch::take_undecoded`]). What it fails on is taken out and returned.
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded;
}

/// The events that a decoder took out of a batch.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The messages that do not decode.
    pub rejected: Vec<Rejected>,
    /// Number of messages that hold no event, such as blank lines and comments.
    pub discarded: usize,
}

/// Turns the values of batches into messages.
pub(crate) trait BatchEncoder: Send {
    /// Encodes the events of a batch, each with `terminator` after it, into a new one. What it fails
    /// on, and what contains the terminator, is taken out of both and returned.
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>);
}

/// Makes both for one connector.
pub(crate) trait MakeCodec {
    /// A decoder, to be kept from batch to batch.
    ///
    /// # Errors
    /// Those of a plugin's constructor.
    fn decoder(&self) -> Result<Box<dyn BatchDecoder>, Error>;

    /// An encoder, to be kept from batch to batch.
    ///
    /// # Errors
    /// Those of a plugin's constructor.
    fn encoder(&self) -> Result<Box<dyn BatchEncoder>, Error>;

    /// Whether batches are better decoded and encoded by one core, and may be by several instances
    /// that take turns: values are larger than their bytes, and nothing is kept between batches.
    fn is_best_on_one_core(&self) -> bool {
        false
    }
}

impl MakeCodec for Codec {
    fn decoder(&self) -> Result<Box<dyn BatchDecoder>, Error> {
        Ok(Box::new(Self::decoder(self)))
    }

    fn encoder(&self) -> Result<Box<dyn BatchEncoder>, Error> {
        Ok(Box::new(Self::encoder(self)))
    }

    fn is_best_on_one_core(&self) -> bool {
        // What any of them keeps is room to work in. These give no more than the bytes.
        !matches!(self, Self::String | Self::Binary | Self::Null)
    }
}

impl BatchDecoder for Decoder {
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        Self::decode_batch(self, batch)
    }
}

impl BatchEncoder for Encoder {
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        if self.never_writes(terminator) {
            return Self::encode_batch(self, batch, pool, terminator.bytes());
        }
        self.encode_checked(batch, pool, terminator)
    }
}

impl Decoder {
    /// Decodes the raw events of a batch, until it is heavy; the others stay as they are. What it
    /// fails on is taken out and returned.
    pub fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        let mut rejected = batch.decode_with(|bytes, nodes, span| {
            self.decode(bytes, span, nodes).map_err(Error::bad_data)
        });
        // A blank line is rare, and fails to decode. So only messages that failed are searched for one.
        let discarded = discard_empty(batch, &mut rejected, |it| self.holds_no_event(it));
        Decoded { rejected, discarded }
    }
}

impl Encoder {
    /// Encodes the events of a batch, each with `suffix` after it, into a new one. What it fails
    /// on is taken out of both and returned.
    pub fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        suffix: &[u8],
    ) -> (Batch, Vec<Rejected>) {
        batch.encode_with(pool, |payload, out| {
            let encoded = match payload {
                Payload::Document { bytes, nodes, root } => self.document(bytes, nodes, root, out),
                Payload::Value(value) => self.value(value, out),
            };
            encoded.map_err(Error::bad_data)?;
            out.extend_from_copy_slice(suffix);
            Ok(())
        })
    }

    /// Returns whether no message of this format can contain the terminator, so that none has to be searched for it.
    fn never_writes(&self, terminator: &Terminator) -> bool {
        match self {
            Self::Null => true,
            Self::Json(_) => terminator.has_control_characters(),
            _ => terminator.is_empty(),
        }
    }

    /// Encodes a batch like [`Encoder::encode_batch`], and rejects messages that contain the terminator.
    #[inline(never)]
    fn encode_checked(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        batch.encode_with(pool, |payload, out| {
            let start = out.len();
            let encoded = match payload {
                Payload::Document { bytes, nodes, root } => self.document(bytes, nodes, root, out),
                Payload::Value(value) => self.value(value, out),
            };
            encoded.map_err(Error::bad_data)?;
            terminator.check(&out[start..])?;
            out.extend_from_copy_slice(terminator.bytes());
            Ok(())
        })
    }
}
