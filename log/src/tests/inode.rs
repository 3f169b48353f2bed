//! The contents of a file on a simulated disk.

/// Unit that the disk writes as a whole.
const SECTOR: usize = 512;

#[derive(Default)]
pub(super) struct Inode {
    /// Bytes that reads return.
    pub(super) cache: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<Change>,
}

pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

pub(super) fn write(contents: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[offset..end].copy_from_slice(bytes);
}

/// Fills a sector with other bytes, because the power was lost while it was written. A sector that is written with
/// equal bytes stays what it is.
fn spoil(contents: &mut [u8], offset: usize, bytes: &[u8]) {
    let is_equal = contents.get(offset..offset + bytes.len()) == Some(bytes);
    let sector = offset / SECTOR * SECTOR..offset / SECTOR * SECTOR + SECTOR;
    if let Some(sector) = contents.get_mut(sector)
        && !is_equal
    {
        sector.fill(0xA5);
    }
}

impl Inode {
    /// Makes each sector of the pending changes durable or not, by chance.
    pub(super) fn tear(&mut self, random: &mut fastrand::Rng) {
        for change in self.pending.drain(..) {
            // Whole writes are lost or kept as often as they are torn.
            let chance = [0.0, 0.5, 1.0][random.usize(..3)];
            match change {
                Change::SetLen(len) if random.bool() => self.durable.resize(len, 0),
                Change::SetLen(_) => {}
                Change::Write { offset, bytes } => {
                    let mut at = 0;
                    while at < bytes.len() {
                        let end = ((offset + at) / SECTOR + 1) * SECTOR - offset;
                        let end = end.min(bytes.len());
                        if random.f64() < chance {
                            write(&mut self.durable, offset + at, &bytes[at..end]);
                        } else if chance > 0.0 && random.u8(..8) == 0 {
                            spoil(&mut self.durable, offset + at, &bytes[at..end]);
                        }
                        at = end;
                    }
                }
            }
        }
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::SetLen(len) => self.durable.resize(len, 0),
                Change::Write { offset, bytes } => write(&mut self.durable, offset, &bytes),
            }
        }
    }
}
