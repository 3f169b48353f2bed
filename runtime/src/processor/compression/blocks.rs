//! Formats whose libraries read whole blocks: lz4 and snappy. What they are given are whole blocks,
//! so that they never see an end that is none.

use std::io::{BufRead, Read};

use tremor_pdk::Error;

use super::{
    Decode,
    room::{Room, corrupt, cut_off},
};

/// What a stream goes on with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// So many bytes have to be there before more can be said.
    Unknown(usize),
    /// A block of so many bytes.
    Block(usize),
    /// So many bytes that say nothing.
    Skipped(u64),
}

/// Where the blocks of a format end.
pub(super) trait Units: Default + Send {
    /// What its users call it.
    const NAME: &'static str;

    /// Whether a stream has a mark at its end, after which its reader takes another one.
    const HAS_END: bool;

    /// What comes next, as far as `start` tells.
    fn next(&self, start: &[u8]) -> Result<Unit, Error>;

    /// The block has been decompressed; whether the stream may end after it.
    fn done(&mut self, block: &[u8]) -> bool;

    /// A library's decompressor for a stream.
    fn reader(&self) -> Box<dyn BufReadFrom>;

    /// How much that takes, in bytes, after so many have come out of the stream.
    fn memory(&self, produced: usize) -> usize;
}

/// A decompressor that blocks are put into.
pub(super) trait BufReadFrom: BufRead + Send {
    /// What it reads from.
    fn queue(&mut self) -> &mut Queue;
}

/// The blocks that a decompressor reads from.
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

/// Decompresses block by block.
#[derive(Default)]
pub(super) struct Blocks<U> {
    units: U,
    reader: Option<Box<dyn BufReadFrom>>,
    /// The beginning of a block whose end has not come yet.
    partial: Vec<u8>,
    skip: u64,
    /// More has to follow the last block.
    expects_more: bool,
    /// The last block may not be out in whole.
    is_open: bool,
    /// Bytes that have come out.
    produced: usize,
}

impl<U: Units> Blocks<U> {
    /// Decompresses a block, as far as there is room.
    fn block(&mut self, block: &[u8], out: &mut Room) -> Result<(), Error> {
        let reader = self.reader.get_or_insert_with(|| self.units.reader());
        reader.queue().put(block);
        self.expects_more = !self.units.done(block);
        self.is_open = true;
        self.go_on(out)
    }

    /// Goes on with the last block.
    fn go_on(&mut self, out: &mut Room) -> Result<(), Error> {
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
    fn push(&mut self, mut input: &[u8], out: &mut Room) -> Result<usize, Error> {
        let length = input.len();
        self.go_on(out)?;
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

    fn end(&mut self, _out: &mut Room) -> Result<(), Error> {
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
