//! The checkpoint file: the acknowledged position of each file.

use std::{
    borrow::Cow,
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use tremor_pdk::{
    Error, Result, lock_file,
    serde::{Deserialize, Serialize, de::Error as _},
};

use super::identity::{Ending, Identity, hash};
use crate::{folder, open::transient};

/// Format version of a checkpoint that may be followed by changes, or has files with unread bytes.
const WITH_CHANGES: u64 = 4;
/// Format version of a checkpoint of few files without unread bytes, which is replaced as a whole.
const WITHOUT_CHANGES: u64 = 3;
/// Format version 1 had no checksum.
const WITHOUT_CHECKSUM: u64 = 1;

/// Number of files from which changes are appended to the checkpoint. Fewer entries are written in
/// less than a millisecond.
const MANY: usize = 64;

/// The acknowledged position of one file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
pub(super) struct Entry {
    /// Path of the file when the source last found it. Messages show this path, and the search for
    /// a renamed file starts there.
    pub(super) path: String,
    pub(super) identity: Identity,
    /// Position after the last acknowledged byte.
    pub(super) position: u64,
    /// Number of bytes after `position` that the file had when the source last checked its length.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) unread: u64,
    /// Number of decompressed bytes at the start of a compressed file that were delivered before
    /// the file was compressed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) skip: u64,
    /// Hash of the bytes before `position`, or before `skip` in a compressed file. A copy of the
    /// file is recognised by this hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ending: Option<Ending>,
    /// Hashes of the bytes before some earlier positions, if the file no longer has its contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) earlier: Vec<Ending>,
}

impl Entry {
    /// Returns whether `file` is the file of this entry, and still has the contents before the position.
    /// Compares the first bytes, and the last bytes before the position.
    pub(super) fn is_of(&self, file: &File) -> io::Result<bool> {
        // In a compressed file the hash is that of decompressed bytes, which are compared later.
        let ending = self.ending.filter(|_| self.skip == 0);
        Ok(self.identity.is_of(file)? && ending.map_or(Ok(true), |ending| ending.is_of(file))?)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls this function with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
struct Content {
    version: u64,
    /// 128-bit XXH3 of the JSON of `files`, in hexadecimal.
    #[serde(default)]
    checksum: String,
    files: Vec<Entry>,
}

/// The index of an entry, and its new contents.
pub(super) type Change = (usize, Entry);

/// A line after the entries of a checkpoint.
#[derive(Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
struct Record<'a> {
    /// 128-bit XXH3 of the JSON of `changes`, in hexadecimal.
    checksum: String,
    changes: Cow<'a, [Change]>,
}

/// The version of a checkpoint. Other fields are ignored, so that the version of a later format can
/// be read too.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Version {
    version: u64,
}

/// The checkpoint file. The entries in it are always complete on disk, because they are written to a
/// second file, which is then renamed. If there are many entries, lines with changed entries follow
/// them, so that the cost of a write does not grow with the number of files. A crash may leave an
/// incomplete line, which is ignored: the positions before that change count.
///
/// A source locks its checkpoint, so that no other source uses it. The source locks each new file
/// before the rename. The system releases a lock when its process ends.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    /// The current checkpoint file, which is locked; `None` before the first write.
    locked: Option<File>,
    /// Entries in the current checkpoint.
    saved: Option<Vec<Entry>>,
    /// Length of the current checkpoint in bytes. If the file has another length, somebody has
    /// changed it.
    length: u64,
    /// `true` if the current checkpoint is durable on disk.
    is_durable: bool,
    /// `true` if the current checkpoint was durable on disk before changes were appended to it.
    was_durable: bool,
    /// Number of bytes that may be appended to the current checkpoint; `None` if it has to be
    /// replaced.
    capacity: Option<usize>,
    /// Number of bytes at the end of the checkpoint that were ignored when it was opened, because
    /// they are not a complete change.
    pub(super) torn: usize,
    /// Reason why the checkpoint could not be read; `None` unless the entries come from the durable
    /// copy.
    pub(super) damage: Option<Error>,
    /// `true` if there was no checkpoint when it was opened.
    pub(super) is_new: bool,
    /// Function that syncs the folder, so that the name of the checkpoint is durable. Tests replace
    /// it by a function that fails.
    sync_folder: fn(&Path) -> io::Result<()>,
}

impl Checkpoint {
    /// Opens and locks the checkpoint, and returns its entries. A missing file means a first run.
    /// Any other file that is not a valid checkpoint is an error, because reading from the start
    /// would deliver all events again.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>)> {
        let mut checkpoint = Self::new(path);
        let mut bytes = Vec::new();
        let file = loop {
            // Open for writing as well, because NFS permits an exclusive lock only on a file that
            // is open for writing.
            match File::options().read(true).write(true).open(path) {
                Ok(file) => {
                    lock(&file, path)?;
                    // A second process may have renamed a new checkpoint to this path since the file was opened.
                    if folder::has(path, &file) {
                        break file;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let new = checkpoint.begin_new()?;
                    // A second source may have created its first checkpoint since the path was looked up.
                    if path.exists() {
                        continue;
                    }
                    checkpoint.save_as(new, Vec::new(), true)?;
                    checkpoint.is_new = true;
                    return Ok((checkpoint, Vec::new()));
                }
                Err(error) => return Err(failed("read", path, &error)),
            }
        };
        (&file).read_to_end(&mut bytes).map_err(|error| failed("read", path, &error))?;
        let Parsed { entries, torn } = parse(&bytes).or_else(|error| {
            let error = error.context(format!("cannot read the checkpoint `{}`", path.display()));
            if version(&bytes).is_ok_and(|version| version > WITH_CHANGES) {
                return Err(error);
            }
            // After a power failure, the contents that were written last may be lost.
            let copy = fs::read(checkpoint.copy_path()).ok().and_then(|copy| parse(&copy).ok());
            let copy = copy.ok_or_else(|| error.clone())?;
            checkpoint.damage = Some(error);
            Ok(copy)
        })?;
        // Create the second file now, so that a checkpoint that cannot be written is reported at
        // the start instead of after the first interval.
        checkpoint.begin_new()?;
        (checkpoint.locked, checkpoint.saved) = (Some(file), Some(entries.clone()));
        checkpoint.length = bytes.len() as u64;
        checkpoint.torn = torn;
        Ok((checkpoint, entries))
    }

    fn new(path: &Path) -> Self {
        let sync_folder = folder::sync_parent;
        Self {
            path: path.to_owned(),
            locked: None,
            saved: None,
            length: 0,
            is_durable: false,
            was_durable: false,
            capacity: None,
            torn: 0,
            damage: None,
            is_new: false,
            sync_folder,
        }
    }

    /// Returns the length of the current checkpoint in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Writes the entries, unless they are the current ones. If `is_durable` is set, the entries
    /// are durable on disk when this function returns. Otherwise they survive the end of the
    /// process, but not necessarily a power failure.
    pub(super) fn save(&mut self, files: Vec<Entry>, is_durable: bool) -> Result<()> {
        let is_intact = self.is_intact();
        let is_saved = is_intact && self.saved.as_ref() == Some(&files);
        if is_saved && (self.is_durable || !is_durable) {
            return Ok(());
        }
        let new = self.begin_new()?;
        // If no copy can be made, the new checkpoint has to be durable, because it replaces the
        // only durable checkpoint.
        let has_copy = || is_intact && self.copy().is_ok();
        let is_durable = is_durable || (self.was_durable && !has_copy());
        self.save_as(new, files, is_durable)
    }

    /// Writes the entries with these indices, like [`Checkpoint::save`]; the other entries stay
    /// unchanged. If there are many files, the changes are appended to the checkpoint.
    pub(super) fn save_changes(
        &mut self,
        mut changes: Vec<Change>,
        is_durable: bool,
    ) -> Result<()> {
        let saved = self.saved.get_or_insert_default();
        changes.retain(|(at, entry)| saved.get(*at) != Some(entry));
        let record = record(&changes)?;
        let is_appended = self.append(&record, is_durable).unwrap_or(false);
        let saved = self.saved.get_or_insert_default();
        let mut files = if is_appended { std::mem::take(saved) } else { saved.clone() };
        for (at, entry) in changes {
            files.get_mut(at).into_iter().for_each(|file| file.clone_from(&entry));
        }
        if is_appended {
            self.saved = Some(files);
            return Ok(());
        }
        self.save(files, is_durable)
    }

    /// Appends a line with changes to the current checkpoint. Returns `false` if the checkpoint has
    /// to be replaced instead. After an error the line may be incomplete, and nothing more is
    /// appended.
    fn append(&mut self, record: &[u8], is_durable: bool) -> io::Result<bool> {
        let capacity = self.capacity.take().and_then(|it| it.checked_sub(record.len()));
        let is_intact = self.is_intact();
        let file = self.locked.as_ref().filter(|_| is_intact);
        let Some((capacity, mut file)) = capacity.zip(file) else { return Ok(false) };
        self.is_durable &= record.is_empty();
        file.write_all(record)?;
        self.length += record.len() as u64;
        if is_durable && !self.is_durable {
            file.sync_data()?;
            if !self.was_durable {
                (self.sync_folder)(&self.path)?;
            }
            (self.is_durable, self.was_durable) = (true, true);
            self.remove_copy();
        }
        self.capacity = Some(capacity);
        Ok(true)
    }

    /// Returns `false` if somebody has deleted, replaced, truncated or extended the current
    /// checkpoint, or if an append to it has failed.
    fn is_intact(&self) -> bool {
        self.locked.as_ref().is_some_and(|file| {
            let has_length = file.metadata().is_ok_and(|metadata| metadata.len() == self.length);
            has_length && folder::has(&self.path, file)
        })
    }

    /// Links the durable checkpoint to a second name, before a checkpoint that is not durable
    /// replaces it.
    fn copy(&self) -> io::Result<()> {
        self.remove_copy();
        fs::hard_link(&self.path, self.copy_path())
    }

    /// Removes the copy of an earlier checkpoint. Call this once the checkpoint is durable: then
    /// the older positions in the copy would only repeat events.
    fn remove_copy(&self) {
        // If the copy cannot be removed, another link to its name fails as well, so the error is
        // not lost.
        let _ = fs::remove_file(self.copy_path());
    }

    fn save_as(&mut self, mut new: File, files: Vec<Entry>, is_durable: bool) -> Result<()> {
        let has_changes = files.len() >= MANY;
        let is_later = has_changes || files.iter().any(|entry| entry.unread > 0);
        let version = if is_later { WITH_CHANGES } else { WITHOUT_CHANGES };
        let content = Content { version, checksum: checksum(&files)?, files };
        let text = serde_json::to_string_pretty(&content).map_err(Error::internal)?;
        let failed = |error| failed("write", &self.path, &error);
        new.write_all(text.as_bytes()).map_err(failed)?;
        new.write_all(b"\n").map_err(failed)?;
        if is_durable {
            new.sync_all().map_err(failed)?;
        }
        fs::rename(self.new_path(), &self.path).map_err(failed)?;
        // The rename has succeeded, so the new file is the current one even if the sync of the
        // folder fails.
        self.locked = Some(new);
        self.length = text.len() as u64 + 1;
        (self.is_durable, self.was_durable, self.capacity) = (false, false, None);
        if is_durable {
            (self.sync_folder)(&self.path).map_err(failed)?;
            self.remove_copy();
        }
        (self.is_durable, self.was_durable) = (is_durable, is_durable);
        self.saved = Some(content.files);
        self.capacity = has_changes.then_some(text.len());
        Ok(())
    }

    /// Creates and locks the empty file that will replace the checkpoint.
    fn begin_new(&self) -> Result<File> {
        let new = File::options().write(true).create(true).truncate(false).open(self.new_path());
        let new = new.map_err(|error| failed("write", &self.path, &error))?;
        lock(&new, &self.path)?;
        // A process that was killed may have left data in this file.
        if new.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            new.set_len(0).map_err(|error| failed("write", &self.path, &error))?;
        }
        Ok(new)
    }

    /// Returns the path of the file with new contents, before it replaces the checkpoint.
    fn new_path(&self) -> PathBuf {
        self.beside(".new")
    }

    /// Returns the path of the copy of the last durable checkpoint.
    pub(super) fn copy_path(&self) -> PathBuf {
        self.beside(".synced")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// Locks the checkpoint, so that no other source uses it, in this process or in another one.
fn lock(file: &File, path: &Path) -> Result<()> {
    match lock_file(file) {
        // An instance that has just ended may still have the lock, so the error is not final.
        Err(TryLockError::WouldBlock) => Err(Error::connection_refused(format!(
            "cannot lock the checkpoint `{}`: another source, in this process or in another one, uses it; \
             give each source a `checkpoint` of its own, or stop the other source",
            path.display()
        ))),
        // Some file systems do not support locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

fn checksum(content: &impl Serialize) -> Result<String> {
    Ok(hash(&serde_json::to_vec(content).map_err(Error::internal)?))
}

/// Returns the line that is appended for `changes`; empty if there are none.
fn record(changes: &[Change]) -> Result<Vec<u8>> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let record = Record { checksum: checksum(&changes)?, changes: changes.into() };
    let mut line = serde_json::to_vec(&record).map_err(Error::internal)?;
    line.push(b'\n');
    Ok(line)
}

fn version(bytes: &[u8]) -> serde_json::Result<u64> {
    let mut documents = serde_json::Deserializer::from_slice(bytes).into_iter();
    let missing = || serde_json::Error::custom("it is empty");
    documents.next().unwrap_or_else(|| Err(missing())).map(|Version { version }| version)
}

/// Contents of a checkpoint file.
struct Parsed {
    entries: Vec<Entry>,
    /// Number of bytes at the end that are not a complete change.
    torn: usize,
}

fn parse(bytes: &[u8]) -> Result<Parsed> {
    let damaged = |why: &dyn std::fmt::Display| {
        Error::configuration(format!(
            "it is damaged, or is not a checkpoint ({why}); replace it with a good copy, or delete it to read all \
             files from their starts"
        ))
    };
    let read = |error: serde_json::Error| damaged(&error);
    let version = version(bytes).map_err(read)?;
    if !(WITHOUT_CHECKSUM..=WITH_CHANGES).contains(&version) {
        return Err(Error::configuration(format!(
            "it has version {version}, but this plugin supports versions up to {WITH_CHANGES}; run the plugin that \
             wrote it, or delete it to read all files from their starts"
        )));
    }
    let (content, changes) = if version == WITH_CHANGES {
        let mut contents = serde_json::Deserializer::from_slice(bytes).into_iter();
        let content = contents.next().ok_or_else(|| damaged(&"it is empty"))?;
        (content, &bytes[contents.byte_offset()..])
    } else {
        (serde_json::from_slice(bytes), &bytes[bytes.len()..])
    };
    let Content { checksum: expected, mut files, .. } = content.map_err(read)?;
    let found = checksum(&files)?;
    if expected != found && (version, &*expected) != (WITHOUT_CHECKSUM, "") {
        return Err(damaged(&format_args!("its checksum is {found}, but it states {expected:?}")));
    }
    let torn = apply(changes.trim_ascii_start(), &mut files);
    Ok(Parsed { entries: files, torn })
}

/// Applies the lines of changes up to the first one that is incomplete, which a crash may have left.
/// Returns the number of remaining bytes.
fn apply(mut lines: &[u8], files: &mut [Entry]) -> usize {
    while let Some(end) = memchr::memchr(b'\n', lines) {
        let Ok(Record { checksum: expected, changes }) = serde_json::from_slice(&lines[..end])
        else {
            break;
        };
        let is_valid = checksum(&changes).is_ok_and(|found| found == expected)
            && changes.iter().all(|(at, _)| *at < files.len());
        if !is_valid {
            break;
        }
        for (at, entry) in changes.into_owned() {
            files[at] = entry;
        }
        lines = &lines[end + 1..];
    }
    lines.len()
}

/// Returns the error of an operation on the checkpoint. The error is final unless the cause may be
/// temporary, such as a full disk.
fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("cannot {doing} the checkpoint `{}`", path.display());
    transient(error).context(message)
}

#[cfg(test)]
mod tests;
