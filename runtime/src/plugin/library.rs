//! Plugin libraries as files, with all information that is available without running their code.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read as _, Seek},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use object::ReadCache;
use rustix::fs::{Mode, OFlags};
use tremor_abi::{
    metadata::{ArtefactMetadata, Metadata, json_of},
    version::AbiVersion,
};
use twox_hash::{XxHash3_128, xxhash3_128::Hasher};

use super::{
    Error, ErrorKind,
    access::{self, Objection},
    executable::{self, Executable},
    identity::Identity,
    image,
};
use crate::linked::{LinkedComponent, LinkedPlugin};

/// Beginning of the paths of linked plugins in messages.
const LINKED: &str = "(linked)";

/// Maximum size of a file that is read, in bytes. Plugin libraries are far smaller.
const LARGEST: u64 = 1 << 30;

/// Flags for opening a file. Opening does not block, even if the file was replaced by a pipe.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Number of bytes of a file that are in memory at the same time while the file is hashed.
const BLOCK: usize = 64 << 10;

/// Hash of the contents of a library: XXH3 with 128 bits.
///
/// The hash distinguishes builds. It does not protect against somebody who constructs two libraries with the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(u128);

impl ContentHash {
    /// Reads the whole file and returns its hash.
    fn of(mut file: &File) -> io::Result<Self> {
        file.rewind()?;
        let contents = file.take(LARGEST);
        // The streaming hasher is generic, so it is compiled in this crate. Without optimisation it takes a second for
        // the plugins of a test.
        let hash = if cfg!(debug_assertions) { in_one_piece } else { in_blocks };
        hash(contents).map(Self)
    }
}

/// Returns the hash of the contents, which are all read into memory first.
fn in_one_piece(mut contents: impl io::Read) -> io::Result<u128> {
    let mut bytes = Vec::new();
    contents.read_to_end(&mut bytes)?;
    Ok(XxHash3_128::oneshot(&bytes))
}

/// Returns the hash of the contents, which are read block by block.
fn in_blocks(contents: impl io::Read) -> io::Result<u128> {
    let mut blocks = BufReader::with_capacity(BLOCK, contents);
    let mut hasher = Hasher::new();
    loop {
        match blocks.fill_buf() {
            Ok([]) => return Ok(hasher.finish_128()),
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

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A library, and the file from which it was read.
pub(super) struct Read {
    pub(super) library: Library,
    pub(super) file: File,
    /// Identity of the file before it was read.
    pub(super) identity: Identity,
}

impl Read {
    /// Returns the hash of the contents of the file. Returns `None` if the contents have changed since they were read.
    ///
    /// # Errors
    /// Kind [`Unreadable`](ErrorKind::Unreadable).
    pub(super) fn hash(&self) -> Result<Option<ContentHash>, Error> {
        let hash = self.library.hash_of(|| self.file.try_clone());
        hash.map_err(|error| unreadable(self.library.path(), &error))
    }
}

/// A file that is a plugin library according to its bytes: a complete shared library for this machine, with plugin
/// metadata. Or the manifest of a plugin that is an executable.
///
/// The code of the library was not loaded or run.
#[derive(Clone)]
pub struct Library {
    path: PathBuf,
    canonical: PathBuf,
    /// Hash of the contents. It is computed when it is first needed. For most libraries of a folder it is not needed,
    /// and reading all files would take longer than everything else at startup.
    hash: Arc<OnceLock<ContentHash>>,
    metadata: Metadata,
    abi: AbiVersion,
    /// Identity of the file that was read. `None` if a later change could not be detected.
    identity: Option<Identity>,
    /// `true` if the library refers to other libraries relative to its own folder.
    finds_others: bool,
    /// The plugin, if it is linked into this program and is not a file.
    linked: Option<Arc<LinkedPlugin>>,
    /// The program, if the file is a manifest.
    executable: Option<Arc<Executable>>,
}

impl Library {
    /// Returns plugins that are linked into this program.
    ///
    /// The path of a linked plugin is only a name for messages, and its hash is that of the program.
    ///
    /// # Errors
    /// Kind [`BadMetadata`](ErrorKind::BadMetadata), and [`Unreadable`](ErrorKind::Unreadable) if the file of the
    /// program cannot be read.
    pub fn linked(plugins: impl IntoIterator<Item = LinkedPlugin>) -> Result<Vec<Self>, Error> {
        let program =
            std::env::current_exe().map_err(|error| unreadable(Path::new(LINKED), &error))?;
        let hash = open(&program)
            .and_then(|(file, _)| ContentHash::of(&file))
            .map_err(|error| unreadable(&program, &error))?;
        plugins.into_iter().map(|plugin| Self::linked_with(plugin, hash)).collect()
    }

    fn linked_with(plugin: LinkedPlugin, hash: ContentHash) -> Result<Self, Error> {
        let unnamed = Path::new(LINKED);
        let metadata: Metadata = serde_json::from_slice(plugin.metadata.json())
            .map_err(|error| bad_metadata(unnamed, error))?;
        let path = unnamed.join(&metadata.name);
        let canonical = path.clone();
        let hash = Arc::new(hash.into());
        let abi = AbiVersion::CURRENT;
        let linked = Some(Arc::new(plugin));
        let (identity, finds_others, executable) = (None, false, None);
        Ok(Self {
            path,
            canonical,
            hash,
            metadata,
            abi,
            identity,
            finds_others,
            linked,
            executable,
        })
    }

    /// Returns the component with this kind (as in metadata) and name, if this plugin is linked.
    pub(super) fn linked_component(&self, kind: &str, name: &str) -> Option<LinkedComponent> {
        let components = &self.linked.as_ref()?.components;
        let found = components.iter().find(|found| found.kind == kind && found.name == name);
        found.copied()
    }

    /// Returns whether this plugin is linked into the program.
    pub(crate) fn is_linked(&self) -> bool {
        self.linked.is_some()
    }

    /// Returns the program of this plugin, if it is an executable. Its connectors always run in processes of their own.
    pub(crate) fn executable(&self) -> Option<&Arc<Executable>> {
        self.executable.as_ref()
    }

    /// Returns the program of this plugin and its arguments, if it is an executable.
    pub fn command(&self) -> Option<&[String]> {
        self.executable.as_deref().map(Executable::command)
    }

    /// Reads the file at `path` and checks that it is a plugin library, or the manifest of an executable.
    ///
    /// # Errors
    /// Kinds [`NotFound`](ErrorKind::NotFound), [`Unreadable`](ErrorKind::Unreadable),
    /// [`NotALibrary`](ErrorKind::NotALibrary), [`OtherMachine`](ErrorKind::OtherMachine),
    /// [`Damaged`](ErrorKind::Damaged), [`NotAPlugin`](ErrorKind::NotAPlugin),
    /// [`BadMetadata`](ErrorKind::BadMetadata) and [`AbiVersion`](ErrorKind::AbiVersion).
    pub fn inspect(path: &Path) -> Result<Self, Error> {
        Self::read(path).map(|read| read.library)
    }

    /// Reads a library as [`Library::inspect`] does, and also returns its file.
    pub(super) fn read(path: &Path) -> Result<Read, Error> {
        let failed = |error: io::Error| unreadable(path, &error);
        #[expect(clippy::disallowed_methods, reason = "it is compared with a time stamp of a file")]
        let now = SystemTime::now();
        let canonical = path.canonicalize().map_err(failed)?;
        let (file, about) = open(&canonical).map_err(failed)?;
        let (metadata, finds_others, executable, abi) = if executable::is_manifest(path) {
            let (metadata, executable) = Executable::read(path, &canonical, &file)?;
            (metadata, false, Some(Arc::new(executable)), AbiVersion::CURRENT)
        } else {
            let cache = ReadCache::new(&file);
            let image = image::read(path, &cache)?;
            let metadata = metadata(path, image.metadata)?;
            let abi = parse_version(path, &metadata.abi)?;
            (metadata, image.finds_others, None, abi)
        };
        // The data is consistent only if the file was not written to while it was being read.
        let (before, after) = (Identity::of(&about), file.metadata().map_err(failed)?);
        let is_settled = before.is_older_than(now) && before == Identity::of(&after);
        let identity = is_settled.then_some(before);
        let hash = Arc::new(OnceLock::new());
        if !is_settled {
            let _ = hash.set(ContentHash::of(&file).map_err(failed)?);
        }
        let library = Self {
            path: path.to_owned(),
            canonical,
            hash,
            metadata,
            abi,
            identity,
            finds_others,
            linked: None,
            executable,
        };
        Ok(Read { library, file, identity: before })
    }

    /// Returns the library that is at the path now.
    ///
    /// The file is read again only if its identity shows that it may have changed.
    ///
    /// # Errors
    /// Errors of [`Library::inspect`].
    pub(super) fn current(&self) -> Result<Read, Error> {
        let is_there = || self.path.canonicalize().is_ok_and(|it| it == self.canonical);
        if let Some(identity) = self.identity
            && is_there()
            && let Ok((file, about)) = open(&self.canonical)
            && Identity::of(&about) == identity
        {
            return Ok(Read { library: self.clone(), file, identity });
        }
        Self::read(&self.path)
    }

    /// Returns whether the library refers to other libraries relative to its own folder. Such a library has to be
    /// opened from its folder.
    pub(super) fn finds_others(&self) -> bool {
        self.finds_others
    }

    /// Returns the most serious objection to running this library. There is an objection if users other than root and
    /// the user of this process could change the library.
    ///
    /// A library with a grave objection is never loaded. Other objections prevent loading only on a
    /// [strict](super::Policy::strict) host.
    pub fn objection(&self) -> Option<Objection> {
        if self.is_linked() {
            return None;
        }
        let of_program = || self.executable.as_deref().and_then(Executable::objection);
        let own = access::objection(&self.path, &self.canonical);
        if own.as_ref().is_some_and(|it| it.is_grave) { own } else { of_program().or(own) }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path without symbolic links. If two paths lead to the same file, the results are equal.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// Returns the hash of the contents that were read. Returns `None` if the file was replaced before the hash was
    /// first requested, or if the file can no longer be read.
    pub fn hash(&self) -> Option<ContentHash> {
        self.hash_of(|| Ok(open(&self.canonical)?.0)).ok().flatten()
    }

    /// Returns whether the library at a path, which was read at two times, has the same contents both times. Reads the
    /// file again only if its identity does not tell.
    pub(crate) fn is_same_as(&self, earlier: &Self) -> bool {
        self.path == earlier.path
            && match (&self.identity, &earlier.identity) {
                (Some(identity), Some(earlier)) => identity.has_contents_of(earlier),
                _ => self.hash().is_some_and(|hash| earlier.hash() == Some(hash)),
            }
    }

    /// Returns whether two libraries have the same contents. Hashes are computed and compared only if the metadata is
    /// equal. Equal manifests are not copies, because their programs may differ.
    pub(super) fn is_copy_of(&self, other: &Self) -> bool {
        self.executable.is_none()
            && self.metadata == other.metadata
            && self.hash().is_some_and(|hash| other.hash() == Some(hash))
    }

    /// Returns the hash as [`Library::hash`] does. If it is not known yet, reads it from `file`.
    ///
    /// # Errors
    /// The file cannot be read.
    fn hash_of(&self, file: impl FnOnce() -> io::Result<File>) -> io::Result<Option<ContentHash>> {
        if let Some(hash) = self.hash.get() {
            return Ok(Some(*hash));
        }
        let file = file()?;
        let hash = ContentHash::of(&file)?;
        // The identity is checked after the last byte was read, so that writes during the reading are detected.
        let is_unchanged = self.identity == Some(Identity::of(&file.metadata()?));
        Ok(is_unchanged.then(|| *self.hash.get_or_init(|| hash)))
    }

    /// Returns the metadata of the component with this kind (as in metadata) and name.
    pub(crate) fn artefact(&self, kind: &str, name: &str) -> Option<&ArtefactMetadata> {
        let mut artefacts = self.metadata.artefacts.iter();
        artefacts.find(|artefact| artefact.kind == kind && artefact.name == name)
    }

    /// Returns the metadata of the library.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the version of the ABI that the library was built for.
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

/// Opens a file that may be a library, and returns its attributes as well.
fn open(path: &Path) -> io::Result<(File, fs::Metadata)> {
    // Only regular files are opened. Opening a pipe blocks until its other end is opened, and opening a device may have
    // any effect.
    is_file(&fs::metadata(path)?)?;
    let file = File::from(rustix::fs::open(path, FLAGS, Mode::empty())?);
    let about = file.metadata()?;
    // The file may have been replaced after the first check.
    is_file(&about)?;
    if about.len() > LARGEST {
        return Err(io::Error::other("larger than 1 GiB, too large for a plugin"));
    }
    Ok((file, about))
}

fn is_file(about: &fs::Metadata) -> io::Result<()> {
    if about.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) }
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
    Error::new(ErrorKind::BadMetadata, path, format!("invalid metadata of the plugin: {why}")).help(
        format!("rebuild the plugin with a `tremor-pdk` that supports ABI {}", AbiVersion::CURRENT),
    )
}

fn parse_version(path: &Path, text: &str) -> Result<AbiVersion, Error> {
    let parts = text.split_once('.');
    let numbers = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = numbers.ok_or_else(|| {
        bad_metadata(path, format!("invalid ABI version `{text}`: expected MAJOR.MINOR"))
    })?;
    Ok(AbiVersion { major, minor })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use tremor_abi::metadata::{MAGIC, VERSION};

    use super::{
        AbiVersion, BLOCK, ErrorKind, Identity, Library, XxHash3_128, in_blocks, in_one_piece,
        metadata,
    };

    fn kind(path: &Path) -> ErrorKind {
        Library::inspect(path).unwrap_err().kind()
    }

    #[test]
    fn hash_is_equal_in_blocks_and_in_one_piece() {
        for length in [0, 1, 240, BLOCK - 1, BLOCK, 2 * BLOCK + 1] {
            let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
            let hashes = [in_blocks, in_one_piece].map(|hash| hash(&bytes[..]).unwrap());
            assert_eq!(hashes[0], hashes[1], "{length}");
        }
    }

    /// Returns a library as if it had been found in the current contents of the file, long after they were written.
    fn found(path: &Path) -> Library {
        let json =
            br#"{"name":"x","version":"1","abi":"2.0","pdk":"1","panic":"unwind","artefacts":[]}"#;
        Library {
            path: path.to_owned(),
            canonical: path.canonicalize().unwrap(),
            hash: Arc::default(),
            metadata: serde_json::from_slice(json).unwrap(),
            abi: AbiVersion::CURRENT,
            identity: Some(Identity::of(&fs::metadata(path).unwrap())),
            finds_others: false,
            linked: None,
            executable: None,
        }
    }

    #[test]
    fn hash_is_that_of_the_file_that_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.so");
        fs::write(&path, "as it was").unwrap();
        let [asked, copy, not_asked] = [(); 3].map(|()| found(&path));
        let hash = asked.hash();
        assert_eq!(hash.unwrap().0, XxHash3_128::oneshot(b"as it was"));
        assert!(asked.is_copy_of(&copy));

        fs::write(&path, "as it is now").unwrap();
        assert_eq!((asked.hash(), asked.clone().hash()), (hash, hash));
        assert_eq!(not_asked.hash(), None);
        assert!(!not_asked.is_copy_of(&not_asked.clone()), "nobody knows");

        fs::remove_file(&path).unwrap();
        assert_eq!((asked.hash(), not_asked.hash()), (hash, None));
    }

    #[test]
    fn invalid_libraries_are_distinguished() {
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
            fs::write(&file, contents).unwrap();
            assert_eq!(kind(&file), expected, "{contents:?}");
        }
    }

    #[test]
    fn invalid_metadata_is_reported_with_its_reason() {
        let section = |json: &[u8]| {
            let length = u32::try_from(json.len()).unwrap();
            [&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes(), json].concat()
        };
        let message = |section: &[u8]| {
            let error = metadata(Path::new("x.so"), section).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadMetadata);
            error.to_string()
        };
        assert!(message(b"short").contains("truncated"));
        assert!(message(&section(b"{\"name\":\"x\"}")).contains("missing field"));
        assert!(message(&section(b"\xff")).contains("line 1"));
        // Unknown fields are ignored.
        let json = br#"{"name":"x","version":"1","abi":"1.1","pdk":"1","panic":"unwind",
            "artefacts":[],"colour":"red"}"#;
        assert_eq!(metadata(Path::new("x.so"), &section(json)).unwrap().name, "x");
    }
}
