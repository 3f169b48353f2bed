//! Cache of configuration schemas, by the contents of the library.
//!
//! An error in the cache is treated as a missing entry, so it only costs time.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Schemas;
use crate::plugin::ContentHash;

/// Version of the format of the entries. It is increased if entries of an earlier version would be wrong.
const VERSION: u32 = 2;

/// Folder with one file for each library.
#[derive(Clone, Debug)]
pub(super) struct Cache(PathBuf);

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    version: u32,
    /// Hash of the library, so that a file with a wrong name is not used.
    hash: String,
    schemas: Schemas,
}

impl Cache {
    /// Returns a cache in `folder`, which need not exist.
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.join("schemas"))
    }

    /// Returns the cache in the user's cache folder, `$XDG_CACHE_HOME/tremor` or `~/.cache/tremor`.
    pub(super) fn of_user() -> Option<Self> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let folder = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
        let folder = folder.or_else(|| Some(env::home_dir()?.join(".cache")).filter(absolute))?;
        Some(Self::new(&folder.join("tremor")))
    }

    pub(super) fn get(&self, hash: ContentHash) -> Option<Schemas> {
        let bytes = fs::read(self.file(hash)).ok()?;
        let entry: Entry = serde_json::from_slice(&bytes).ok()?;
        (entry.version == VERSION && entry.hash == hash.to_string()).then_some(entry.schemas)
    }

    pub(super) fn put(&self, hash: ContentHash, schemas: &Schemas) {
        if let Err(error) = self.write(hash, schemas) {
            let folder = self.0.display();
            tracing::debug!(%error, "cannot cache the schemas of a plugin in {folder}");
        }
    }

    fn write(&self, hash: ContentHash, schemas: &Schemas) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let entry = Entry { version: VERSION, hash: hash.to_string(), schemas: schemas.clone() };
        // The entry is written to a temporary file that is then renamed, because another process may read or write the
        // entry at the same time.
        let draft = self.0.join(format!(".{hash}.{}", std::process::id()));
        let written = fs::write(&draft, serde_json::to_vec(&entry)?)
            .and_then(|()| fs::rename(&draft, self.file(hash)));
        if written.is_err() {
            // The file may not have been created.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn file(&self, hash: ContentHash) -> PathBuf {
        self.0.join(format!("{hash}.json"))
    }
}
