//! What makes a file the same one under another name, and another one under the same name.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
};

use tremor_pdk::serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

/// How many of the first bytes tell a file from another one that got its inode: a log line or two.
const FIRST_BYTES: u64 = 1 << 10;

/// Device, inode, and a hash of the first bytes. An inode is used again once its file is deleted, and
/// stays the same where a file is truncated and written anew.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// How many bytes are hashed: fewer than [`FIRST_BYTES`] where the file had no more.
    first_bytes: u64,
    /// XXH3, 128 bits, in hexadecimal.
    hash: String,
}

/// The place of a file: what another file may get once this one is deleted.
pub(super) type Place = (u64, u64);

pub(super) fn place(metadata: &Metadata) -> Place {
    (metadata.dev(), metadata.ino())
}

impl Identity {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let (device, inode) = place(&metadata);
        let first = first(file, FIRST_BYTES)?;
        Ok(Self { device, inode, first_bytes: first.len() as u64, hash: hash(&first) })
    }

    pub(super) fn place(&self) -> Place {
        (self.device, self.inode)
    }

    /// Whether this is the file. It may have grown.
    pub(super) fn is_of(&self, file: &File) -> io::Result<bool> {
        if self.place() != place(&file.metadata()?) {
            return Ok(false);
        }
        let first = first(file, self.first_bytes)?;
        Ok(first.len() as u64 == self.first_bytes && hash(&first) == self.hash)
    }

    /// Returns the number of first bytes that are hashed.
    pub(super) fn first_bytes(&self) -> u64 {
        self.first_bytes
    }

    /// Whether it tells files apart at all: an empty file has no first bytes.
    pub(super) fn is_known(&self) -> bool {
        self.first_bytes > 0
    }

    /// The same with more of the first bytes, if there are more now and they begin as before.
    pub(super) fn grow(&mut self, file: &File) -> io::Result<()> {
        if self.first_bytes >= FIRST_BYTES {
            return Ok(());
        }
        let now = first(file, FIRST_BYTES)?;
        let before = now.get(..usize::try_from(self.first_bytes).unwrap_or(usize::MAX));
        if before.is_some_and(|before| hash(before) == self.hash) {
            (self.first_bytes, self.hash) = (now.len() as u64, hash(&now));
        }
        Ok(())
    }
}

/// The first bytes, so many at most.
fn first(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut first = vec![0; usize::try_from(most.min(FIRST_BYTES)).unwrap_or_default()];
    let count = read_at(file, &mut first, 0)?;
    first.truncate(count);
    Ok(first)
}

pub(super) fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

/// Fills the buffer from this position on. Fewer bytes than that are the last of the file.
pub(super) fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], position + count as u64) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::Write,
    };

    use super::{FIRST_BYTES, Identity};

    #[test]
    fn a_file_that_grows_or_moves_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (before, more) in [("", "x"), ("short", "er"), (&"x".repeat(2_000), "y")] {
            fs::write(&path, before).unwrap();
            let mut identity = Identity::of(&File::open(&path).unwrap()).unwrap();
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(more.as_bytes()).unwrap();
            let moved = folder.path().join("b");
            fs::rename(&path, &moved).unwrap();
            let file = File::open(&moved).unwrap();
            assert!(identity.is_of(&file).unwrap(), "{before}");
            identity.grow(&file).unwrap();
            assert_eq!(
                identity.first_bytes,
                FIRST_BYTES.min((before.len() + more.len()) as u64),
                "{before}"
            );
            fs::remove_file(moved).unwrap();
        }
    }

    #[test]
    fn a_file_that_begins_otherwise_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "the first day").unwrap();
        fs::write(&other, "the first day").unwrap();
        let identity = Identity::of(&File::open(&path).unwrap()).unwrap();
        assert!(!identity.is_of(&File::open(&other).unwrap()).unwrap(), "another inode");
        for text in ["", "the first", "the second day", "The first day"] {
            fs::write(&path, text).unwrap();
            let file = File::open(&path).unwrap();
            assert!(!identity.is_of(&file).unwrap(), "{text}");
            let mut grown = identity.clone();
            grown.grow(&file).unwrap();
            assert_eq!(grown, identity, "{text}: it is not taken for the same");
        }
    }
}
