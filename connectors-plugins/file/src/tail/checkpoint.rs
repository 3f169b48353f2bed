//! The file that keeps how far files were read and acknowledged.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tremor_pdk::{
    Error, ErrorKind, Result,
    serde::{Deserialize, Serialize},
};

use super::identity::Identity;
use crate::folder;

/// Of the contents of the file.
const VERSION: u64 = 1;

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
    files: Vec<Entry>,
}

/// A later version has other keys, and this one all the same.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Version {
    version: u64,
}

/// The file. What is in it is whole at any time: the next is written beside it and renamed.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    /// What is in it now.
    saved: Option<Vec<Entry>>,
}

impl Checkpoint {
    /// Reads what is there. No file is a first run; anything else that is no checkpoint is an error,
    /// since to begin from the start would bring everything once more.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>)> {
        let mut checkpoint = Self { path: path.to_owned(), saved: None };
        // Where it cannot be written, that is told now and not in a second.
        let entries = match fs::read(path) {
            Ok(bytes) => {
                let entries = parse(&bytes).map_err(|error| {
                    error.context(format!("cannot go on after `{}`", path.display()))
                })?;
                let writable = File::create(checkpoint.new_path()).map(drop);
                writable.map_err(|error| failed("write", path, &error))?;
                checkpoint.saved = Some(entries.clone());
                entries
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                checkpoint.save(Vec::new())?;
                Vec::new()
            }
            Err(error) => return Err(failed("read", path, &error)),
        };
        Ok((checkpoint, entries))
    }

    /// Keeps these entries: on the disk once this returns.
    pub(super) fn save(&mut self, files: Vec<Entry>) -> Result<()> {
        if self.saved.as_ref() == Some(&files) {
            return Ok(());
        }
        let content = Content { version: VERSION, files };
        let text = serde_json::to_string_pretty(&content).map_err(Error::internal)?;
        self.replace(&text).map_err(|error| failed("write", &self.path, &error))?;
        self.saved = Some(content.files);
        Ok(())
    }

    /// What is written before it takes the checkpoint's place.
    fn new_path(&self) -> PathBuf {
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        new.into()
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let new = self.new_path();
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        folder::sync_parent(&self.path)
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>> {
    let damaged = |error: serde_json::Error| {
        Error::configuration(format!(
            "it is no checkpoint, or is damaged ({error}). Put a good copy in its place; or delete it: \
             all files are then read from their starts"
        ))
    };
    let Version { version } = serde_json::from_slice(bytes).map_err(damaged)?;
    if version != VERSION {
        return Err(Error::configuration(format!(
            "it has version {version}, and this plugin knows version {VERSION}: run the plugin that \
             wrote it; or delete it: all files are then read from their starts"
        )));
    }
    let Content { files, .. } = serde_json::from_slice(bytes).map_err(damaged)?;
    Ok(files)
}

/// A full disk may have room again; what is wrong with a path may not.
fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("cannot {doing} the checkpoint `{}`", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::new(ErrorKind::FULL, error).context(message)
        }
        kind => Error::from(io::Error::new(kind, error.to_string())).context(message),
    }
}

#[cfg(test)]
mod tests;
