//! Support for formats whose libraries read whole blocks: lz4 and snappy. The libraries receive only whole blocks, so
//! that they never see a premature end.

use std::io::{BufRead, Read};

use tremor_pdk::Error;

use super::{
    Decode,
    buffer::{LimitedBuffer, corrupt, cut_off},
};

/// The next unit of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Unknown until the given number of bytes is available.
    Unknown(usize),
    /// A block of the given number of bytes.
    Block(usize),
    /// The given number of bytes without data.
    Skipped(u64),
}

/// Finds the ends of the blocks of a format.
pub(super) trait Units: Default + Send {
    /// Name of the format for users.
    const NAME: &'static str;

    /// `true` if a stream has an end mark, after which the decompressor accepts another stream.
    const HAS_END: bool;

    /// Returns the unit that begins at `start`, the beginning of the remaining input. If `start` is too short to
    /// determine the unit, returns [`Unit::Unknown`].
    fn next(&self, start: &[u8]) -> Result<Unit, Error>;

    /// Records that the decompressor receives `block`. Returns whether the stream may end after this block.
    fn done(&mut self, block: &[u8]) -> bool;

    /// Creates the library's decompressor for a stream.
    fn reader(&self) -> Box<dyn BufReadFrom>;

    /// Returns the memory of the library's decompressor in bytes, after it produced `produced` bytes.
    fn memory(&self, produced: usize) -> usize;
}

/// A decompressor that reads blocks from a queue.
pub(super) trait BufReadFrom: BufRead + Send {
    /// Returns the queue that the decompressor reads from.
    fn queue(&mut self) -> &mut Queue;
}

/// The block that a decompressor reads from.
#[derive(Default)]
pub(super) struct Queue {
    bytes: Vec<u8>,
    read: usize,
}

impl Queue {
    fn put(&mut self, block: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(block);
        self.read = 0;
    }
}

impl Read for Queue {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = (&self.bytes[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

/// A decompressor that processes a stream block by block.
#[derive(Default)]
pub(super) struct Blocks<U> {
    units: U,
    reader: Option<Box<dyn BufReadFrom>>,
    /// Beginning of a block whose end has not arrived.
    partial: Vec<u8>,
    skip: u64,
    /// `true` if the stream must continue after the last block.
    expects_more: bool,
    /// `true` if the output of the last block may be incomplete.
    is_open: bool,
    /// Bytes produced so far.
    produced: usize,
}

impl<U: Units> Blocks<U> {
    /// Decompresses a block, as far as `out` has capacity.
    fn block(&mut self, block: &[u8], out: &mut LimitedBuffer) -> Result<(), Error> {
        let reader = self.reader.get_or_insert_with(|| self.units.reader());
        reader.queue().put(block);
        self.expects_more = !self.units.done(block);
        self.is_open = true;
        self.resume(out)
    }

    /// Continues with the last block, as far as `out` has capacity.
    fn resume(&mut self, out: &mut LimitedBuffer) -> Result<(), Error> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        while self.is_open && !out.is_full() {
            let bytes = reader.fill_buf().map_err(|error| corrupt(U::NAME, error))?;
            self.is_open = !bytes.is_empty();
            let count = out.take(bytes);
            reader.consume(count);
            self.produced = self.produced.saturating_add(count);
        }
        Ok(())
    }
}

impl<U: Units> Decode for Blocks<U> {
    fn push(&mut self, mut input: &[u8], out: &mut LimitedBuffer) -> Result<usize, Error> {
        let length = input.len();
        self.resume(out)?;
        let mut partial = std::mem::take(&mut self.partial);
        while !out.is_full() {
            let skipped = input.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.skip -= skipped as u64;
            input = &input[skipped..];
            let start = if partial.is_empty() { input } else { &partial };
            if start.is_empty() {
                break;
            }
            let wanted = match self.units.next(start)? {
                Unit::Skipped(count) => {
                    self.skip = count.saturating_sub(partial.len() as u64);
                    partial.clear();
                    continue;
                }
                Unit::Block(count) if count == partial.len() => {
                    self.block(&partial, out)?;
                    partial.clear();
                    continue;
                }
                Unit::Block(count) if partial.is_empty() && count <= input.len() => {
                    self.block(&input[..count], out)?;
                    input = &input[count..];
                    continue;
                }
                Unit::Block(count) | Unit::Unknown(count) => count,
            };
            if input.is_empty() {
                break;
            }
            let missing = wanted.saturating_sub(partial.len()).min(input.len());
            partial.extend_from_slice(&input[..missing]);
            input = &input[missing..];
        }
        self.partial = partial;
        Ok(length - input.len())
    }

    fn memory(&self) -> usize {
        let reader = self.reader.as_ref().map_or(0, |_| self.units.memory(self.produced));
        reader + self.partial.capacity()
    }

    fn may_end(&self) -> bool {
        self.partial.is_empty() && self.skip == 0 && !self.expects_more && !self.is_open
    }

    fn end(&mut self, _out: &mut LimitedBuffer) -> Result<(), Error> {
        let whole = self.may_end();
        self.partial.clear();
        if whole {
            if !U::HAS_END {
                (self.units, self.reader) = (U::default(), None);
            }
            return Ok(());
        }
        Err(cut_off(U::NAME))
    }
}
