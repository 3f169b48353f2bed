//! Schemas by the contents of their library. A cache that does not work is slow and nothing worse:
//! whatever goes wrong here is a miss.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Schemas;
use crate::plugin::ContentHash;

/// Changes when an entry of an earlier version would mislead.
const VERSION: u32 = 2;

/// A folder with one file for each library.
#[derive(Clone, Debug)]
pub(super) struct Cache(PathBuf);

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    version: u32,
    /// The library's hash: a file under a wrong name is no entry.
    hash: String,
    schemas: Schemas,
}

impl Cache {
    /// A cache in `folder`, which need not exist.
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.join("schemas"))
    }

    /// The cache in the user's folder for caches: `$XDG_CACHE_HOME/tremor` or `~/.cache/tremor`.
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
        // Whole or not at all: another process may read it at any moment, or write it as well.
        let draft = self.0.join(format!(".{hash}.{}", std::process::id()));
        let written = fs::write(&draft, serde_json::to_vec(&entry)?)
            .and_then(|()| fs::rename(&draft, self.file(hash)));
        if written.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn file(&self, hash: ContentHash) -> PathBuf {
        self.0.join(format!("{hash}.json"))
    }
}
