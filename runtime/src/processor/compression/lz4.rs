//! LZ4 frames, <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>.

use lz4_flex::frame::{FrameDecoder, FrameEncoder, FrameInfo};
use tremor_pdk::Error;

use super::{
    Encode,
    blocks::{Blocks, BufReadFrom, Queue, Unit, Units},
    buffer::corrupt,
};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Shortest header in bytes: magic number, flags, block size and a checksum.
const HEADER: usize = 7;
/// Largest block of the format, in bytes.
const LARGEST: usize = 4 << 20;

/// Memory of a decompressor in addition to its blocks, in bytes.
const BESIDE: usize = 64 << 10;

/// Finds the ends of the blocks of frames.
#[derive(Default)]
pub(super) struct Frames {
    /// Flags of the current frame, if one has begun.
    within: Option<Flags>,
}

/// The flags of a frame, the byte after the magic number.
#[derive(Clone, Copy)]
struct Flags(u8);

impl Flags {
    fn bytes_if(self, bit: u8, bytes: usize) -> usize {
        if self.0 & (1 << bit) == 0 { 0 } else { bytes }
    }

    fn header(self) -> usize {
        HEADER + self.bytes_if(3, 8) + self.bytes_if(0, 4)
    }

    fn block_checksum(self) -> usize {
        self.bytes_if(4, 4)
    }

    fn content_checksum(self) -> usize {
        self.bytes_if(2, 4)
    }
}

pub(super) fn decoder() -> Blocks<Frames> {
    Blocks::default()
}

/// Returns the little-endian number at the start of `bytes`, or `None` if `bytes` is too short.
fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

impl Units for Frames {
    const NAME: &'static str = "lz4";
    const HAS_END: bool = true;

    fn next(&self, start: &[u8]) -> Result<Unit, Error> {
        let Some(first) = number(start) else { return Ok(Unit::Unknown(4)) };
        if let Some(flags) = self.within {
            let size = (first & 0x7fff_ffff) as usize;
            if size > LARGEST {
                let what = format_args!("a block has {size} bytes, at most {LARGEST} are allowed");
                return Err(corrupt(Self::NAME, what));
            }
            let checksum =
                if first == 0 { flags.content_checksum() } else { flags.block_checksum() };
            return Ok(Unit::Block(4 + size + checksum));
        }
        // Skippable frames have any of 16 magic numbers.
        if first & 0xffff_fff0 == 0x184d_2a50 {
            let size = start.get(4..).and_then(number);
            return Ok(size.map_or(Unit::Unknown(8), |size| Unit::Skipped(8 + u64::from(size))));
        }
        if start[..4] != MAGIC {
            let message = "expected an lz4 frame, found data without its magic number";
            return Err(Error::bad_data(message));
        }
        Ok(match start.get(4) {
            Some(flags) => Unit::Block(Flags(*flags).header()),
            None => Unit::Unknown(5),
        })
    }

    fn done(&mut self, block: &[u8]) -> bool {
        let is_end = match self.within {
            Some(_) => number(block) == Some(0),
            None => false,
        };
        self.within = match self.within {
            Some(_) if is_end => None,
            None => block.get(4).map(|flags| Flags(*flags)),
            within => within,
        };
        is_end
    }

    fn reader(&self) -> Box<dyn BufReadFrom> {
        Box::new(FrameDecoder::new(Queue::default()))
    }

    fn memory(&self, produced: usize) -> usize {
        // A compressed block and two decompressed blocks, whose size the frame determines.
        BESIDE + produced.min(3 * LARGEST)
    }
}

impl BufReadFrom for FrameDecoder<Queue> {
    fn queue(&mut self) -> &mut Queue {
        self.get_mut()
    }
}

pub(super) struct Compress(FrameEncoder<Vec<u8>>);

impl Compress {
    pub(super) fn new() -> Self {
        Self(encoder())
    }
}

fn encoder() -> FrameEncoder<Vec<u8>> {
    FrameEncoder::with_frame_info(FrameInfo::new().content_checksum(true), Vec::new())
}

impl Encode for Compress {
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        use std::io::Write;
        if message.is_empty() {
            // An encoder that has ended a frame begins no frame for an empty message.
            self.0 = encoder();
        }
        std::mem::swap(self.0.get_mut(), out);
        let written = self.0.write_all(message).map_err(|error| error.to_string());
        let written = written.and_then(|()| self.0.try_finish().map_err(|error| error.to_string()));
        std::mem::swap(self.0.get_mut(), out);
        written.map_err(|error| Error::internal(format_args!("lz4: {error}")))
    }
}
