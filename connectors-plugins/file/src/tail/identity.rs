//! Identity of a file across renames, truncation and reuse of its inode.

use std::{
    fs::{File, Metadata},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    time::{Duration, SystemTime},
};

use tremor_pdk::serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::clock::nanoseconds;

/// Maximum number of first bytes that are hashed. They distinguish a file from a later file with
/// the same inode; a few log lines are enough.
pub(super) const FIRST_BYTES: u64 = 1 << 10;

/// Maximum number of bytes before a position that are hashed: one or two log lines, which usually
/// contain a time.
const LAST_BYTES: usize = 256;

/// Device, inode, and a hash of the first bytes. The hash is needed because the system reuses the
/// inode of a deleted file, and because a file that is truncated and rewritten keeps its inode.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Number of bytes that are hashed: less than [`FIRST_BYTES`] if the file was shorter.
    first_bytes: u64,
    /// 128-bit XXH3 in hexadecimal.
    hash: String,
}

/// Hash of the last bytes before a position. Together with the first bytes of a file it shows
/// whether another file has the same contents up to that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
pub(super) struct Ending {
    pub(super) position: u64,
    /// Number of bytes that are hashed.
    bytes: u64,
    /// Half of the 128-bit XXH3.
    hash: u64,
}

impl Ending {
    /// Returns the hash of the end of `bytes`, which end at `position` of the file.
    pub(super) fn of(bytes: &[u8], position: u64) -> Self {
        let last = &bytes[bytes.len().saturating_sub(LAST_BYTES)..];
        Self { position, bytes: last.len() as u64, hash: short_hash(last) }
    }

    /// Returns the hash of the end of `bytes`, which end at `position` of the file. `before` are the last bytes
    /// before `bytes`, and then those before `position`.
    pub(super) fn after(before: &mut Vec<u8>, bytes: &[u8], position: u64) -> Self {
        before.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_BYTES)..]);
        before.drain(..before.len().saturating_sub(LAST_BYTES));
        Self::of(before, position)
    }

    /// Returns the range of the file that is hashed.
    pub(super) fn range(&self) -> Range<u64> {
        self.position.saturating_sub(self.bytes)..self.position
    }

    /// Returns whether `last` are the bytes of [`Ending::range`].
    pub(super) fn is_hash_of(&self, last: &[u8]) -> bool {
        last.len() as u64 == self.bytes && short_hash(last) == self.hash
    }

    /// Returns whether `file` has these bytes before the position.
    pub(super) fn is_of(&self, file: &File) -> io::Result<bool> {
        let mut last = vec![0; usize::try_from(self.bytes).unwrap_or_default().min(LAST_BYTES)];
        let count = read_at(file, &mut last, self.range().start)?;
        Ok(self.is_hash_of(&last[..count]))
    }
}

/// Maximum number of hashes before earlier positions.
const EARLIER: usize = 6;

/// Removes a hash if there are more than [`EARLIER`]. The positions of the others are the closer
/// together, the closer they are to `end`.
pub(super) fn thin_out(endings: &mut Vec<Ending>, end: u64) {
    if endings.len() <= EARLIER {
        return;
    }
    let gap = |at: usize| endings[at + 1].position.saturating_sub(endings[at - 1].position);
    let age = |at: usize| end.saturating_sub(endings[at].position);
    // Compare gap / age without a division.
    let weight = |at: usize, other: usize| u128::from(gap(at)) * u128::from(age(other));
    let least = (1..EARLIER).min_by(|one, other| weight(*one, *other).cmp(&weight(*other, *one)));
    if let Some(at) = least {
        endings.remove(at);
    }
}

/// Device and inode of a file. After the file is deleted, a new file may get the same pair.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl Identity {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let (device, inode) = file_id(&metadata);
        let first = first(file, FIRST_BYTES)?;
        Ok(Self { device, inode, first_bytes: first.len() as u64, hash: hash(&first) })
    }

    pub(super) fn file_id(&self) -> FileId {
        (self.device, self.inode)
    }

    /// Returns whether `file` has this identity. The file may have grown since the identity was
    /// created.
    pub(super) fn is_of(&self, file: &File) -> io::Result<bool> {
        if self.file_id() != file_id(&file.metadata()?) {
            return Ok(false);
        }
        let first = first(file, self.first_bytes)?;
        Ok(first.len() as u64 == self.first_bytes && hash(&first) == self.hash)
    }

    /// Returns whether contents that begin with `first` can be a copy of this file. The answer is
    /// `false` if the file was empty, or if `first` is too short to decide.
    pub(super) fn is_start(&self, first: &[u8]) -> bool {
        let start = usize::try_from(self.first_bytes).ok().and_then(|count| first.get(..count));
        self.is_known() && start.is_some_and(|start| hash(start) == self.hash)
    }

    /// Returns the number of first bytes that are hashed.
    pub(super) fn first_bytes(&self) -> u64 {
        self.first_bytes
    }

    /// Returns whether the identity distinguishes files: an empty file has no first bytes.
    pub(super) fn is_known(&self) -> bool {
        self.first_bytes > 0
    }

    /// Includes more of the first bytes if the file has grown and still begins with the hashed
    /// bytes.
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

/// Time of the last change of a file's contents or metadata, in seconds and nanoseconds. Programs
/// cannot set this time, unlike the time of modification.
pub(super) type Changed = (i64, i64);

pub(super) fn changed(metadata: &Metadata) -> Changed {
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Returns whether a change from now on will have a later time than this one. File systems record
/// times with a resolution of some milliseconds.
pub(super) fn is_settled(changed: Changed) -> bool {
    age_ns(changed) > nanoseconds(Duration::from_secs(2))
}

/// Returns the time from `changed` to now, in ns; 0 if `changed` is in the future.
#[expect(clippy::disallowed_methods, reason = "the time is compared with times of the file system")]
fn age_ns((seconds, fraction): Changed) -> u64 {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    let changed = Duration::new(seconds, u32::try_from(fraction).unwrap_or_default());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    nanoseconds(now.saturating_sub(changed))
}

/// Returns the first bytes of `file`, at most `most`.
pub(super) fn first(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut first = vec![0; usize::try_from(most.min(FIRST_BYTES)).unwrap_or_default()];
    let count = read_at(file, &mut first, 0)?;
    first.truncate(count);
    Ok(first)
}

#[expect(clippy::cast_possible_truncation, reason = "half of the bits of the hash suffice")]
fn short_hash(bytes: &[u8]) -> u64 {
    XxHash3_128::oneshot(bytes) as u64
}

pub(super) fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

/// Reads from `position` on until `buffer` is full, and returns the number of bytes. If the number
/// is less than the buffer's length, the file ends there.
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
    fn grown_or_moved_file_has_same_identity() {
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
    fn file_with_other_first_bytes_has_another_identity() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "the first day").unwrap();
        fs::write(&other, "the first day").unwrap();
        let identity = Identity::of(&File::open(&path).unwrap()).unwrap();
        assert!(
            !identity.is_of(&File::open(&other).unwrap()).unwrap(),
            "the file has another inode"
        );
        for text in ["", "the first", "the second day", "The first day"] {
            fs::write(&path, text).unwrap();
            let file = File::open(&path).unwrap();
            assert!(!identity.is_of(&file).unwrap(), "{text}");
            let mut grown = identity.clone();
            grown.grow(&file).unwrap();
            assert_eq!(grown, identity, "{text}: the identity stays unchanged");
        }
    }
}
