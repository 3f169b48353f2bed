//! Snappy: the framing format, <https://github.com/google/snappy/blob/main/framing_format.txt>, and raw blocks.

use std::io::{BufReader, Write};

use snap::{raw, read::FrameDecoder, write::FrameEncoder};
use tremor_pdk::Error;

use super::{
    Decode, Encode,
    blocks::{Blocks, BufReadFrom, Queue, Unit, Units},
    buffer::{LimitedBuffer, corrupt, too_large},
};

/// Header of a chunk in bytes: its kind in one byte, its length in three.
const HEADER: usize = 4;
/// Kinds of unknown chunks that must not be skipped.
const RESERVED: std::ops::Range<u8> = 0x02..0x80;
/// Kinds of chunks that may be skipped. The kind 0xff after them starts a stream.
const SKIPPED: std::ops::Range<u8> = 0x80..0xff;

/// The chunk at the start of a stream.
const START: &[u8] = b"\xff\x06\0\0sNaPpY";
/// Maximum length of a data chunk in bytes: a checksum, and 64 KiB of incompressible data.
const LONGEST: usize = 4 + 76_490;

/// Memory of a decompressor in bytes: a chunk in compressed and decompressed form.
const MEMORY: usize = 256 << 10;

/// Finds the ends of chunks.
#[derive(Default)]
pub(super) struct Chunks {
    begun: bool,
}

pub(super) fn decoder() -> Blocks<Chunks> {
    Blocks::default()
}

impl Units for Chunks {
    const NAME: &'static str = "snappy";
    const HAS_END: bool = false;

    fn next(&self, start: &[u8]) -> Result<Unit, Error> {
        if !self.begun {
            let count = START.len().min(start.len());
            if start[..count] != START[..count] {
                return Err(Error::bad_data(
                    "expected a snappy stream, found data without its identifier",
                ));
            }
            let is_whole = count == START.len();
            return Ok(if is_whole { Unit::Block(count) } else { Unit::Unknown(START.len()) });
        }
        let Some([kind, length @ ..]) = start.first_chunk::<HEADER>() else {
            return Ok(Unit::Unknown(HEADER));
        };
        let [a, b, c] = *length;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if SKIPPED.contains(kind) {
            return Ok(Unit::Skipped((HEADER + length) as u64));
        }
        if RESERVED.contains(kind) || length > LONGEST {
            let what = format_args!("a chunk of kind {kind} has {length} bytes");
            return Err(corrupt(Self::NAME, what));
        }
        Ok(Unit::Block(HEADER + length))
    }

    fn done(&mut self, _block: &[u8]) -> bool {
        self.begun = true;
        true
    }

    fn reader(&self) -> Box<dyn BufReadFrom> {
        Box::new(BufReader::with_capacity(64 << 10, FrameDecoder::new(Queue::default())))
    }

    fn memory(&self, _produced: usize) -> usize {
        MEMORY
    }
}

impl BufReadFrom for BufReader<FrameDecoder<Queue>> {
    fn queue(&mut self) -> &mut Queue {
        self.get_mut().get_mut()
    }
}

/// A raw block, which is buffered completely before it is decompressed.
pub(super) struct Raw {
    block: Vec<u8>,
    decoder: raw::Decoder,
    /// Maximum length of the block in bytes, both compressed and decompressed.
    most: usize,
}

impl Raw {
    pub(super) fn new(most: usize) -> Self {
        Self { block: Vec::new(), decoder: raw::Decoder::new(), most }
    }
}

impl Decode for Raw {
    fn push(&mut self, input: &[u8], _out: &mut LimitedBuffer) -> Result<usize, Error> {
        if self.block.len() + input.len() > self.most {
            return Err(Error::bad_data(format_args!(
                "the raw snappy block has more than {} bytes: raise `max_bytes` to allow more",
                self.most
            )));
        }
        self.block.extend_from_slice(input);
        Ok(input.len())
    }

    fn memory(&self) -> usize {
        self.block.capacity()
    }

    fn may_end(&self) -> bool {
        self.block.is_empty()
    }

    fn end(&mut self, out: &mut LimitedBuffer) -> Result<(), Error> {
        let block = std::mem::take(&mut self.block);
        if block.is_empty() {
            return Ok(());
        }
        let corrupt = |error| corrupt(Chunks::NAME, error);
        // The block contains its decompressed length, which is checked before memory is allocated.
        if raw::decompress_len(&block).map_err(corrupt)? > self.most {
            return Err(too_large(self.most));
        }
        out.append(&self.decoder.decompress_vec(&block).map_err(corrupt)?);
        Ok(())
    }
}

pub(super) struct CompressFramed;

impl Encode for CompressFramed {
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut encoder = FrameEncoder::new(out);
        let written = encoder.write_all(message).and_then(|()| encoder.flush());
        written.map_err(|error| Error::internal(format_args!("snappy: {error}")))
    }
}

pub(super) struct CompressRaw(pub(super) raw::Encoder);

impl Encode for CompressRaw {
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        out.resize(start + raw::max_compress_len(message.len()), 0);
        match self.0.compress(message, &mut out[start..]) {
            Ok(count) => {
                out.truncate(start + count);
                Ok(())
            }
            Err(error) => Err(Error::bad_data(format_args!("snappy: {error}"))),
        }
    }
}
