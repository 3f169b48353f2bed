//! The file that keeps how far files were read and acknowledged.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use tremor_pdk::{
    Error, Result,
    serde::{Deserialize, Serialize},
};

use super::identity::{Identity, hash};
use crate::{folder, open::transient};

/// Of the contents of the file.
const VERSION: u64 = 2;
/// The first one had no checksum.
const WITHOUT_CHECKSUM: u64 = 1;

/// How far one file was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
pub(super) struct Entry {
    /// Its name when it was last seen, for people and for the search.
    pub(super) path: String,
    pub(super) identity: Identity,
    /// The position after the last byte that was acknowledged.
    pub(super) position: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
struct Content {
    version: u64,
    /// XXH3 of the files as JSON, 128 bits, in hexadecimal.
    #[serde(default)]
    checksum: String,
    files: Vec<Entry>,
}

/// A later version has other keys, and this one all the same.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Version {
    version: u64,
}

/// The file. What is in it is whole at any time: the next is written beside it and renamed.
///
/// The file that has the name is locked by the source that keeps its positions there, and so is the next
/// one before it takes the name. A lock ends with its process.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    /// The file that is locked.
    locked: Option<File>,
    /// What is in it now.
    saved: Option<Vec<Entry>>,
    /// Whether the disk has that.
    is_durable: bool,
    /// Length of the checkpoint in bytes.
    length: u64,
    /// Reason why the entries are those of the copy.
    pub(super) damage: Option<Error>,
    /// Has the name of the file put on the disk.
    sync_folder: fn(&Path) -> io::Result<()>,
}

impl Checkpoint {
    /// Reads what is there. No file is a first run; anything else that is no checkpoint is an error,
    /// since to begin from the start would bring everything once more.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>)> {
        let mut checkpoint = Self::new(path);
        let mut bytes = Vec::new();
        let file = loop {
            // Also to write: without that, NFS has no lock.
            match File::options().read(true).write(true).open(path) {
                Ok(file) => {
                    lock(&file, path)?;
                    // Another process may have put the next one in its place just now.
                    if folder::has(path, &file) {
                        break file;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let new = checkpoint.begin_new()?;
                    // Another source may have put its first one there just now.
                    if path.exists() {
                        continue;
                    }
                    checkpoint.save_as(new, Vec::new(), true)?;
                    return Ok((checkpoint, Vec::new()));
                }
                Err(error) => return Err(failed("read", path, &error)),
            }
        };
        (&file).read_to_end(&mut bytes).map_err(|error| failed("read", path, &error))?;
        let entries = parse(&bytes).or_else(|error| {
            let error = error.context(format!("cannot go on after `{}`", path.display()));
            let version = serde_json::from_slice(&bytes).map(|Version { version }| version);
            if version.is_ok_and(|version| version > VERSION) {
                return Err(error);
            }
            // A machine that lost power may have lost what was written last.
            let copy = fs::read(checkpoint.copy_path()).ok().and_then(|copy| parse(&copy).ok());
            let copy = copy.ok_or_else(|| error.clone())?;
            checkpoint.damage = Some(error);
            Ok(copy)
        })?;
        // Where it cannot be written, that is told now and not in a second.
        checkpoint.begin_new()?;
        (checkpoint.locked, checkpoint.saved) = (Some(file), Some(entries.clone()));
        checkpoint.length = bytes.len() as u64;
        Ok((checkpoint, entries))
    }

    fn new(path: &Path) -> Self {
        let sync_folder = folder::sync_parent;
        Self {
            path: path.to_owned(),
            locked: None,
            saved: None,
            is_durable: false,
            length: 0,
            damage: None,
            sync_folder,
        }
    }

    /// Returns the length of the file in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Writes these entries. If `is_durable` is set, the disk has them when this returns; otherwise they survive
    /// the end of the process, and not that of the machine.
    pub(super) fn save(&mut self, files: Vec<Entry>, is_durable: bool) -> Result<()> {
        if self.saved.as_ref() == Some(&files) && (self.is_durable || !is_durable) {
            return Ok(());
        }
        let new = self.begin_new()?;
        // Without a copy on the disk the only one there has to stay whole.
        let is_durable = is_durable || (self.is_durable && self.copy().is_err());
        self.save_as(new, files, is_durable)
    }

    /// Gives the file that is on the disk a second name, before another one takes its name that may not get there.
    fn copy(&self) -> io::Result<()> {
        let copy = self.copy_path();
        if let Err(error) = fs::remove_file(&copy)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        fs::hard_link(&self.path, copy)
    }

    fn save_as(&mut self, mut new: File, files: Vec<Entry>, is_durable: bool) -> Result<()> {
        let content = Content { version: VERSION, checksum: checksum(&files)?, files };
        let text = serde_json::to_string_pretty(&content).map_err(Error::internal)?;
        let failed = |error| failed("write", &self.path, &error);
        new.write_all(text.as_bytes()).map_err(failed)?;
        new.write_all(b"\n").map_err(failed)?;
        if is_durable {
            new.sync_all().map_err(failed)?;
        }
        fs::rename(self.new_path(), &self.path).map_err(failed)?;
        // It is the one with the name from here on, whatever becomes of the folder.
        self.locked = Some(new);
        (self.is_durable, self.length) = (false, text.len() as u64);
        if is_durable {
            (self.sync_folder)(&self.path).map_err(failed)?;
        }
        (self.saved, self.is_durable) = (Some(content.files), is_durable);
        Ok(())
    }

    /// The empty file that takes the checkpoint's place.
    fn begin_new(&self) -> Result<File> {
        let new = File::options().write(true).create(true).truncate(false).open(self.new_path());
        let new = new.map_err(|error| failed("write", &self.path, &error))?;
        lock(&new, &self.path)?;
        // What a killed process has left.
        if new.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            new.set_len(0).map_err(|error| failed("write", &self.path, &error))?;
        }
        Ok(new)
    }

    /// What is written before it takes the checkpoint's place.
    fn new_path(&self) -> PathBuf {
        self.beside(".new")
    }

    /// Second name of the last checkpoint that is on the disk.
    pub(super) fn copy_path(&self) -> PathBuf {
        self.beside(".synced")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// Keeps other sources from the checkpoint, in this process and in others.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        // An instance that has just ended may still hold it.
        Err(TryLockError::WouldBlock) => Err(Error::connection_refused(format!(
            "the checkpoint `{}` is locked: another source, of this process or of another one, keeps its \
             positions there; give each source a `checkpoint` of its own, or end that one",
            path.display()
        ))),
        // Not every file system has locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

fn checksum(files: &[Entry]) -> Result<String> {
    Ok(hash(&serde_json::to_vec(files).map_err(Error::internal)?))
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>> {
    let damaged = |why: &dyn std::fmt::Display| {
        Error::configuration(format!(
            "it is no checkpoint, or is damaged ({why}). Put a good copy in its place; or delete it: \
             all files are then read from their starts"
        ))
    };
    let read = |error: serde_json::Error| damaged(&error);
    let Version { version } = serde_json::from_slice(bytes).map_err(read)?;
    if !(WITHOUT_CHECKSUM..=VERSION).contains(&version) {
        return Err(Error::configuration(format!(
            "it has version {version}, and this plugin knows versions up to {VERSION}: run the plugin \
             that wrote it; or delete it: all files are then read from their starts"
        )));
    }
    let Content { checksum: told, files, .. } = serde_json::from_slice(bytes).map_err(read)?;
    let found = checksum(&files)?;
    if told != found && (version, &*told) != (WITHOUT_CHECKSUM, "") {
        return Err(damaged(&format_args!("its checksum is {found}, and it says {told:?}")));
    }
    Ok(files)
}

/// A full disk may have room again; what is wrong with a path may not.
fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("cannot {doing} the checkpoint `{}`", path.display());
    transient(error).context(message)
}

#[cfg(test)]
mod tests;
