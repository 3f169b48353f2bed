//! Formats whose libraries read whole blocks: lz4 and snappy. What they are given are whole blocks,
//! so that they never see an end that is none.

use std::io::{BufRead, Read};

use tremor_pdk::Error;

use super::{
    Decode,
    room::{Room, corrupt},
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

    /// Whether a stream has a mark at its end, behind which its reader takes another one.
    const HAS_END: bool;

    /// What comes next, as far as `start` tells.
    fn next(&self, start: &[u8]) -> Result<Unit, Error>;

    /// The block has been decompressed; whether the stream may end behind it.
    fn done(&mut self, block: &[u8]) -> bool;

    /// A library's decompressor for a stream.
    fn reader(&self) -> Box<dyn BufReadFrom>;
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
pub(super) struct Blocks<U> {
    units: U,
    reader: Option<Box<dyn BufReadFrom>>,
    /// The beginning of a block whose end has not come yet.
    partial: Vec<u8>,
    skip: u64,
    may_end: bool,
}

impl<U: Units> Default for Blocks<U> {
    fn default() -> Self {
        Self { units: U::default(), reader: None, partial: Vec::new(), skip: 0, may_end: true }
    }
}

impl<U: Units> Blocks<U> {
    fn block(&mut self, block: &[u8], out: &mut Room) -> Result<(), Error> {
        let reader = self.reader.get_or_insert_with(|| self.units.reader());
        reader.queue().put(block);
        loop {
            let bytes = reader.fill_buf().map_err(|error| corrupt(U::NAME, &error))?;
            let count = bytes.len();
            if count == 0 {
                break;
            }
            out.extend(bytes)?;
            reader.consume(count);
        }
        self.may_end = self.units.done(block);
        Ok(())
    }
}

impl<U: Units> Decode for Blocks<U> {
    fn push(&mut self, mut input: &[u8], out: &mut Room) -> Result<(), Error> {
        let mut partial = std::mem::take(&mut self.partial);
        loop {
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
        Ok(())
    }

    fn may_end(&self) -> bool {
        self.partial.is_empty() && self.skip == 0 && self.may_end
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
        Err(Error::bad_data(format_args!(
            "it ends in the middle of its {} data: it was cut",
            U::NAME
        )))
    }
}
