//! Plugin libraries as files: what can be known of them without running any of their code.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use object::ReadCache;
use tremor_pdk::{
    abi::{
        metadata::{Metadata, json_of},
        version::AbiVersion,
    },
    linked::{LinkedComponent, LinkedPlugin},
};
use twox_hash::xxhash3_128::Hasher;

use super::{Error, ErrorKind, identity::Identity, image};

/// Where linked plugins are said to lie.
const LINKED: &str = "(linked)";

/// Larger files are not read: no library is that large. Bytes.
const LARGEST: u64 = 1 << 30;

/// How much of a file is in memory at once, while it is hashed. Bytes.
const BLOCK: usize = 64 << 10;

/// A hash of a library's contents, XXH3 with 128 bits: tells one build from another. Not proof
/// against somebody who wants two libraries to have one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(u128);

impl ContentHash {
    /// Reads the whole file, block by block: in one piece it would take fresh memory of its size.
    fn of(mut file: &File) -> io::Result<Self> {
        file.rewind()?;
        let mut blocks = BufReader::with_capacity(BLOCK, file.take(LARGEST));
        let mut hasher = Hasher::new();
        loop {
            match blocks.fill_buf() {
                Ok([]) => return Ok(Self(hasher.finish_128())),
                Ok(block) => {
                    hasher.write(block);
                    let length = block.len();
                    blocks.consume(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A file that is a plugin library, as far as its bytes tell: a whole shared library for this
/// machine with plugin metadata. Nothing of it was loaded or run.
#[derive(Clone)]
pub struct Library {
    path: PathBuf,
    canonical: PathBuf,
    hash: ContentHash,
    metadata: Metadata,
    abi: AbiVersion,
    /// The file that the hash is of; none where it cannot be told from a later one of its name.
    identity: Option<Identity>,
    /// What is linked into this program rather than being a file.
    linked: Option<Arc<LinkedPlugin>>,
}

impl Library {
    /// Plugins that are linked into this program. Their paths are made up, and their hash is that of
    /// the program.
    ///
    /// # Errors
    /// Kind [`BadMetadata`](ErrorKind::BadMetadata), and [`Unreadable`](ErrorKind::Unreadable) where
    /// the program's own file is not to be read.
    pub fn linked(plugins: impl IntoIterator<Item = LinkedPlugin>) -> Result<Vec<Self>, Error> {
        let program =
            std::env::current_exe().map_err(|error| unreadable(Path::new(LINKED), &error))?;
        let hash = open(&program)
            .and_then(|(file, _)| ContentHash::of(&file).map_err(|e| unreadable(&program, &e)))?;
        plugins.into_iter().map(|plugin| Self::linked_with(plugin, hash)).collect()
    }

    fn linked_with(plugin: LinkedPlugin, hash: ContentHash) -> Result<Self, Error> {
        let unnamed = Path::new(LINKED);
        let metadata: Metadata = serde_json::from_slice(plugin.metadata.json())
            .map_err(|error| bad_metadata(unnamed, error))?;
        let path = unnamed.join(&metadata.name);
        let canonical = path.clone();
        let abi = AbiVersion::CURRENT;
        let linked = Some(Arc::new(plugin));
        Ok(Self { path, canonical, hash, metadata, abi, identity: None, linked })
    }

    /// The component of this kind (in the words of metadata) and name, if this plugin is linked.
    pub(super) fn linked_component(&self, kind: &str, name: &str) -> Option<LinkedComponent> {
        let components = &self.linked.as_ref()?.components;
        let found = components.iter().find(|found| found.kind == kind && found.name == name);
        found.copied()
    }

    /// Whether this plugin is linked into the program.
    pub(super) fn is_linked(&self) -> bool {
        self.linked.is_some()
    }

    /// Reads the file at `path` and says what plugin it is.
    ///
    /// # Errors
    /// Kinds [`NotFound`](ErrorKind::NotFound), [`Unreadable`](ErrorKind::Unreadable),
    /// [`NotALibrary`](ErrorKind::NotALibrary), [`OtherMachine`](ErrorKind::OtherMachine),
    /// [`Damaged`](ErrorKind::Damaged), [`NotAPlugin`](ErrorKind::NotAPlugin) and
    /// [`BadMetadata`](ErrorKind::BadMetadata).
    pub fn inspect(path: &Path) -> Result<Self, Error> {
        let now = SystemTime::now();
        let canonical = path.canonicalize().map_err(|error| unreadable(path, &error))?;
        let (file, about) = open(path)?;
        let metadata = metadata(path, image::metadata_section(path, &ReadCache::new(&file))?)?;
        let abi = parse_version(&metadata.abi)
            .ok_or_else(|| bad_metadata(path, format!("`{}` is no ABI version", metadata.abi)))?;
        let hash = ContentHash::of(&file).map_err(|error| unreadable(path, &error))?;
        // What was read is one file's only where that was not written to meanwhile.
        let after = file.metadata().map_err(|error| unreadable(path, &error))?;
        let identity =
            Identity::settled(&about, now).filter(|it| Some(*it) == Identity::of(&after));
        Ok(Self { path: path.to_owned(), canonical, hash, metadata, abi, identity, linked: None })
    }

    /// Whether the path still stands for the file that was read, as far as the file system tells:
    /// then it need not be read again to know what is in it.
    pub(super) fn is_unchanged(&self) -> bool {
        self.identity.is_some()
            && self.path.canonicalize().is_ok_and(|canonical| canonical == self.canonical)
            && Identity::of_file_at(&self.canonical) == self.identity
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path without links: two of the same file are equal.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// The hash of the file's contents.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// What the library says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The ABI that it was built for.
    pub fn abi_version(&self) -> AbiVersion {
        self.abi
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Library");
        shown.field("path", &self.path).field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// Opens a file that may be a library, and says what the system says about it.
fn open(path: &Path) -> Result<(File, fs::Metadata), Error> {
    let open = || {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if about.len() > LARGEST {
            return Err(io::Error::other("larger than 1 GiB, too large for a plugin"));
        }
        Ok((file, about))
    };
    open().map_err(|error| unreadable(path, &error))
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return Error::new(ErrorKind::NotFound, path, "there is no such file or folder")
            .help("build the plugin, or correct the path");
    }
    Error::new(ErrorKind::Unreadable, path, format!("cannot be read: {error}"))
}

fn metadata(path: &Path, section: &[u8]) -> Result<Metadata, Error> {
    let json = json_of(section).map_err(|error| bad_metadata(path, error))?;
    serde_json::from_slice(json).map_err(|error| bad_metadata(path, error))
}

fn bad_metadata(path: &Path, why: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::BadMetadata,
        path,
        format!("the plugin's metadata cannot be understood: {why}"),
    )
    .help(format!("rebuild the plugin with a `tremor-pdk` that speaks ABI {}", AbiVersion::CURRENT))
}

fn parse_version(text: &str) -> Option<AbiVersion> {
    let (major, minor) = text.split_once('.')?;
    Some(AbiVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tremor_pdk::abi::metadata::{MAGIC, VERSION};

    use super::{ErrorKind, Library, metadata};

    fn kind(path: &Path) -> ErrorKind {
        Library::inspect(path).unwrap_err().kind()
    }

    #[test]
    fn what_is_no_library_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.so");
        assert_eq!(kind(&file), ErrorKind::NotFound);
        assert_eq!(kind(folder.path()), ErrorKind::Unreadable);
        for (contents, expected) in [
            (&b""[..], ErrorKind::NotALibrary),
            (b"connectors:\n  input:\n    type: file\n", ErrorKind::NotALibrary),
            (b"\x7fELF", ErrorKind::Damaged),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0", ErrorKind::Damaged),
            (b"!<arch>\n/               0           ", ErrorKind::NotALibrary),
        ] {
            std::fs::write(&file, contents).unwrap();
            assert_eq!(kind(&file), expected, "{contents:?}");
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_says_why() {
        let section = |json: &[u8]| {
            let length = u32::try_from(json.len()).unwrap();
            [&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes(), json].concat()
        };
        let message = |section: &[u8]| {
            let error = metadata(Path::new("x.so"), section).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadMetadata);
            error.to_string()
        };
        assert!(message(b"short").contains("cut short"));
        assert!(message(&section(b"{\"name\":\"x\"}")).contains("missing field"));
        assert!(message(&section(b"\xff")).contains("line 1"));
        // What a reader of this version does not know, it ignores.
        let json = br#"{"name":"x","version":"1","abi":"1.1","pdk":"1","panic":"unwind",
            "artefacts":[],"colour":"red"}"#;
        assert_eq!(metadata(Path::new("x.so"), &section(json)).unwrap().name, "x");
    }
}
