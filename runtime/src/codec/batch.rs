//! Codecs for whole batches. The engine uses codecs through this interface.

use tremor_abi::batch::{Format, HostBatch, Payload, Pool, Rejected};
use tremor_pdk::{Batch, Error};

use super::copied::without_signature;
use super::{Bytes, Codec, Decoder, Encoder, Terminator};
use crate::dynamic::discard_empty;

/// Decodes the raw events of batches to values.
pub(crate) trait BatchDecoder: Send {
    /// Decodes a batch in place until the batch is heavy. The remaining events stay raw, after the decoded ones
    /// ([`Batch::take_undecoded`]). Messages that cannot be decoded are removed and returned.
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded;
}

/// The events that a decoder removed from a batch.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Messages that could not be decoded.
    pub rejected: Vec<Rejected>,
    /// Number of messages that contain no event, such as blank lines and comments.
    pub discarded: usize,
}

/// Encodes the values of batches to messages.
pub(crate) trait BatchEncoder: Send {
    /// Encodes the events of a batch into a new batch, each followed by `terminator`. Events that cannot be encoded are
    /// removed from both batches and returned, and so are events whose message contains the terminator.
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>);
}

/// Creates decoders and encoders for a connector.
pub(crate) trait MakeCodec {
    /// Creates a decoder, which reuses its buffers for every batch.
    ///
    /// # Errors
    /// Returns the error of a plugin's constructor.
    fn decoder(&self) -> Result<Box<dyn BatchDecoder>, Error>;

    /// Creates an encoder, which reuses its buffers for every batch.
    ///
    /// # Errors
    /// Returns the error of a plugin's constructor.
    fn encoder(&self) -> Result<Box<dyn BatchEncoder>, Error>;

    /// Returns whether a batch is best decoded and encoded on one core, which is the case if values are larger than
    /// their bytes and the codec keeps no state between batches. If several cores work, each of them uses an instance
    /// of its own.
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
        // Codecs of the runtime keep only buffers between batches. The values of these three codecs are not larger
        // than their bytes.
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
        if let Some(encoded) = self.encode_in_place(batch, terminator) {
            return (encoded, Vec::new());
        }
        if self.never_writes(terminator) {
            return self.encode_unchecked(batch, pool, terminator);
        }
        self.encode_checked(batch, pool, terminator)
    }
}

impl Decoder {
    /// Decodes the raw events of a batch until the batch is heavy. The remaining events stay raw. Messages that cannot
    /// be decoded are removed and returned.
    pub fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        let mut rejected = match self {
            Self::Json(_) | Self::Msgpack(_) => batch.decode_as(|bytes, nodes, span| {
                let root = self.decode(bytes, span, nodes).map_err(Error::bad_data)?;
                Ok((root, self.exact_format()))
            }),
            _ => batch.decode_with(|bytes, nodes, span| {
                self.decode(bytes, span, nodes).map_err(Error::bad_data)
            }),
        };
        // Blank lines are rare and cannot be decoded, so only messages that failed are checked for being blank.
        let discarded = discard_empty(batch, &mut rejected, |it| self.holds_no_event(it));
        Decoded { rejected, discarded }
    }
}

impl Encoder {
    /// Returns the messages of a batch without copying them, if no event was edited, and each message is already followed
    /// by the terminator.
    ///
    /// A sink of a byte stream writes each run of adjacent messages as one slice. If the runs are shorter than
    /// [`LEAST_RUN`] on average, the messages are copied, because that takes less time.
    fn encode_in_place(&self, batch: &Batch, terminator: &Terminator) -> Option<Batch> {
        let copied = self.copied_format().filter(|_| terminator.is_last())?;
        let (mut runs, mut total, mut last) = (0, 0, None);
        let shared = batch.share_messages(|payload| {
            let Payload::Document { bytes, .. } = payload else { return None };
            let message = unedited(&payload, copied, terminator)?;
            let start = message.as_ptr().addr() - bytes.as_ptr().addr();
            let end = start + message.len();
            // The comparison of an empty terminator would be slow, because its pointer is not the address of memory.
            let is_followed = terminator.is_empty() || bytes[end..].starts_with(terminator.bytes());
            let end = end + terminator.bytes().len();
            runs += usize::from(last != Some(start));
            total += end - start;
            last = Some(end);
            is_followed.then_some(start..end)
        });
        shared.filter(|_| total >= runs * LEAST_RUN)
    }

    /// Encodes the events of a batch into a new batch. Events that cannot be encoded are removed from both batches and
    /// returned.
    pub fn encode_batch(&mut self, batch: &mut Batch, pool: &Pool) -> (Batch, Vec<Rejected>) {
        self.encode_unchecked(batch, pool, &Terminator::default())
    }

    /// Encodes a batch in the same way as [`BatchEncoder::encode_batch`], without a check whether messages contain the
    /// terminator.
    #[inline]
    fn encode_unchecked(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        let Some(copied) = self.copied_format() else {
            return batch.encode_with(pool, |payload, out| {
                self.payload(payload, out)?;
                terminator.append_to(out);
                Ok(())
            });
        };
        batch.encode_with(pool, |payload, out| {
            match unedited(&payload, copied, terminator) {
                Some(message) => out.extend_from_copy_slice(message),
                None => self.payload(payload, out)?,
            }
            terminator.append_to(out);
            Ok(())
        })
    }

    #[inline]
    fn payload(&mut self, payload: Payload<'_>, out: &mut Bytes) -> Result<(), Error> {
        let encoded = match payload {
            Payload::Document { bytes, nodes, root, .. } => self.document(bytes, nodes, root, out),
            Payload::Value(value) => self.value(value, out),
        };
        encoded.map_err(Error::bad_data)
    }

    /// Returns whether no message of this format can contain the terminator. If so, messages need not be searched for
    /// the terminator.
    fn never_writes(&self, terminator: &Terminator) -> bool {
        match self {
            Self::Null => true,
            // These formats escape control characters.
            Self::Json(_) | Self::Gelf(_) | Self::Logfmt(_) => terminator.has_control_characters(),
            _ => terminator.is_empty(),
        }
    }

    /// Encodes a batch in the same way as [`Encoder::encode_batch`], and rejects messages that contain the terminator.
    #[inline(never)]
    fn encode_checked(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        let copied = self.copied_format();
        batch.encode_with(pool, |payload, out| {
            let copy = copied.and_then(|copied| unedited(&payload, copied, terminator));
            if let Some(message) = copy {
                out.extend_from_copy_slice(message);
            } else {
                let start = out.len();
                self.payload(payload, out)?;
                terminator.check(&out[start..])?;
            }
            terminator.append_to(out);
            Ok(())
        })
    }
}

/// Minimum mean length of the runs of adjacent messages that are not copied, in bytes. One more slice of a vectored write
/// takes about as long as copying 512 to 768 bytes (`bench/runs/2026-11-27-slices`), and a sink that does not write
/// vectored saves the copy.
const LEAST_RUN: usize = 512;

/// Returns the message that a payload was decoded from, if its format is `copied`, it was not edited, and a receiver
/// finds its end at the terminator.
#[inline]
fn unedited<'b>(
    payload: &Payload<'b>,
    copied: Format,
    terminator: &Terminator,
) -> Option<&'b [u8]> {
    let Payload::Document { bytes, unedited: Some((format, span)), .. } = *payload else {
        return None;
    };
    if copied != format {
        return None;
    }
    let mut message = bytes.get(span.range())?;
    if format == Format::Json {
        // Only blanks around the value may contain line breaks: see `Decoder::exact_format`.
        message = without_signature(message).trim_ascii();
        if terminator.is_of_line_breaks() {
            return Some(message);
        }
    }
    terminator.fits(message).then_some(message)
}

#[cfg(test)]
mod tests;
