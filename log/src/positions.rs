//! The file with the settled numbers: two blocks that are written in turns.

use std::io::IoSlice;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::error::{DeviceError, at};
use crate::faults::fault;
use crate::files::Files;
use crate::settled::{Positions, Settled, decode, encode, positions_len};

/// The file with the settled numbers. A block is valid as a whole or not at all, and the valid one with the higher
/// counter is in force.
pub(crate) struct PositionsFile {
    file: Arc<dyn DiskFile>,
    path: std::path::PathBuf,
    /// Bytes of one block.
    block: u64,
    counter: u64,
    /// Durable contents of each block.
    durable: [Settled; 2],
}

/// Contents of the file when the log is opened.
pub(crate) struct Found {
    pub(crate) settled: Settled,
    /// `true` if the log was closed with nothing waiting, and not used since.
    pub(crate) is_closed: bool,
    /// Number of blocks that are unreadable. One may be the result of a crash.
    pub(crate) unreadable: usize,
    winner: Option<(u64, u64)>,
    file: Option<Arc<dyn DiskFile>>,
    block: u64,
}

impl Found {
    /// Returns whether there is no file.
    pub(crate) fn is_missing(&self) -> bool {
        self.file.is_none()
    }
}

/// The version of a block that a newer program wrote.
pub(crate) struct Newer(pub(crate) u16);

/// Reads both blocks, and changes nothing.
pub(crate) fn find(
    files: &Files,
    file: Option<Arc<dyn DiskFile>>,
) -> Result<Result<Found, Newer>, DeviceError> {
    let path = files.positions();
    let mut found = Found {
        settled: Settled::default(),
        is_closed: false,
        unreadable: 0,
        winner: None,
        file: None,
        block: 0,
    };
    let Some(file) = file else { return Ok(Ok(found)) };
    found.block = file.size().map_err(at("read", &path))? / 2;
    for index in 0..2 {
        let mut bytes = vec![0; found.block as usize];
        let read = file.read_at(&mut bytes, index * found.block).map_err(at("read", &path))?;
        match decode(&bytes[..read]) {
            Positions::Valid { counter, settled, is_closed } => {
                if found.winner.is_none_or(|(it, _)| it < counter) {
                    found.winner = Some((counter, index));
                    found.settled = settled;
                    found.is_closed = is_closed;
                }
            }
            Positions::Newer(version) => return Ok(Err(Newer(version))),
            Positions::Invalid => found.unreadable += 1,
        }
    }
    found.file = Some(file);
    Ok(Ok(found))
}

impl PositionsFile {
    /// Makes `settled` durable in both blocks. `ranges` is the number of ranges that a new file has space for.
    pub(crate) fn open(
        files: &Files,
        found: Found,
        settled: &Settled,
        ranges: usize,
    ) -> Result<Self, DeviceError> {
        let path = files.positions();
        let block = positions_len(ranges) as u64;
        let (Some(file), true) = (found.file, found.block >= positions_len(1) as u64) else {
            let mut bytes = Vec::new();
            for counter in 1..3 {
                bytes.extend(encode(&settled.lowest(ranges), counter, false));
                bytes.resize((block * counter) as usize, 0);
            }
            let file = files.create(&path, &bytes)?;
            let durable = [settled.lowest(ranges), settled.lowest(ranges)];
            return Ok(Self { file, path, block, counter: 2, durable });
        };
        let durable = [found.settled.clone(), found.settled.clone()];
        let mut this = Self { file, path, block: found.block, counter: 0, durable };
        if let Some((counter, index)) = found.winner {
            this.counter = counter;
            // The valid block may be in the page cache only. If it is, the other block is the durable one, so this one
            // is made durable first. It is written again with equal bytes, because an earlier sync of these bytes may
            // have failed, and then a sync alone would not write them.
            let bytes = encode(&found.settled, counter, found.is_closed);
            this.write_block(index, &bytes)?;
        }
        // The slot after the winner is the other one, because counters and slots alternate.
        let other = found.winner.map_or(0, |(_, index)| 1 - index);
        this.counter += 1 + u64::from((this.counter + 1) % 2 != other);
        this.write_counted(other, settled, false)?;
        this.write(settled, false)?;
        Ok(this)
    }

    /// Maximum number of ranges that a block has space for.
    pub(crate) fn max_ranges(&self) -> usize {
        (self.block as usize - crate::layout::SHEET_HEADER) / 16
    }

    /// Returns whether the numbers are settled in both blocks, so that either may be lost.
    pub(crate) fn covers(&self, first: u64, last: u64) -> bool {
        if fault("one block of positions believed") {
            return self.durable.iter().any(|it| it.covers(first, last));
        }
        self.durable.iter().all(|it| it.covers(first, last))
    }

    /// Returns the durable contents of the newer block.
    pub(crate) fn newest(&self) -> &Settled {
        &self.durable[(self.counter % 2) as usize]
    }

    /// Returns whether both blocks contain these numbers.
    pub(crate) fn is_durable(&self, settled: &Settled) -> bool {
        let settled = settled.lowest(self.max_ranges());
        self.durable.iter().all(|it| *it == settled)
    }

    /// Writes the older block and makes it durable. After an error the block may have any contents, so the next call
    /// writes the same one.
    pub(crate) fn write(&mut self, settled: &Settled, is_closed: bool) -> Result<(), DeviceError> {
        self.counter += 1;
        let written = self.write_counted(self.counter % 2, settled, is_closed);
        self.counter -= u64::from(written.is_err());
        written
    }

    fn write_counted(
        &mut self,
        index: u64,
        settled: &Settled,
        is_closed: bool,
    ) -> Result<(), DeviceError> {
        let settled = settled.lowest(self.max_ranges());
        let bytes = encode(&settled, self.counter, is_closed);
        self.write_block(index, &bytes)?;
        self.durable[index as usize] = settled;
        Ok(())
    }

    fn write_block(&self, index: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let offset = if fault("one block of positions written") { 0 } else { index * self.block };
        let written = self.file.write_at(&[IoSlice::new(bytes)], offset);
        written.map_err(at("write to", &self.path))?;
        self.file.sync().map_err(at("sync", &self.path))
    }
}
