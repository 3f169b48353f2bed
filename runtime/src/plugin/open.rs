//! Opening of libraries, which runs their initialisers. No other module opens libraries.
//!
//! The loader of the system gets a name, and the file with that name may be replaced after it was checked. Therefore a
//! library is opened by a name that refers to the descriptor through which the library was read. The loader identifies
//! open libraries by their names, and returns the existing library for a known name. The descriptor therefore stays
//! open until the process ends, so that no other file gets its number.
//!
//! A library that refers to other libraries relative to its own folder is opened by its path, because the loader
//! searches from there. After that, it is rejected if the path no longer leads to the file that was read. The same
//! applies to every library if the system has no names for descriptors.

use std::{fs::File, os::fd::AsRawFd, path::PathBuf};

use abi_stable::library::{LibraryError, RawLibrary};

use super::{Error, ErrorKind, Library, identity::Identity, library::Read};

/// A library that this process has opened or tried to open.
pub(super) struct Opened {
    /// File of the library. It is never closed.
    file: File,
    /// Name by which the library was opened.
    name: PathBuf,
    /// Identity of the file when it was read.
    identity: Identity,
    /// Result of opening the library. `None` if the loader rejected the library: the reason may be temporary, so the
    /// next call tries again.
    outcome: Option<Result<&'static RawLibrary, Error>>,
}

/// Opens a library through the file that was read.
///
/// The library is never closed, because its initialisers may have started threads that run its code. `all` contains the
/// libraries that this process has opened.
///
/// # Errors
/// Kinds [`Open`](ErrorKind::Open) and [`Changed`](ErrorKind::Changed).
pub(super) fn open(read: Read, all: &mut Vec<Opened>) -> Result<&'static RawLibrary, Error> {
    let Read { library, file, identity } = read;
    let known = all.iter().position(|known| known.identity.has_contents_of(&identity));
    let position = known.unwrap_or(all.len());
    if known.is_none() {
        let name = name_of(&file).filter(|_| !library.finds_others());
        let name = name.unwrap_or_else(|| library.canonical().to_owned());
        // The loader would return the library that is already open.
        if all.iter().any(|other| other.identity.is_same_file(&identity) || other.name == name) {
            let message = "this process has already opened it with other contents";
            return Err(changed(&library, message));
        }
        all.push(Opened { file, name, identity, outcome: None });
    }
    let opened = &mut all[position];
    if let Some(outcome) = &opened.outcome {
        return outcome.clone();
    }
    let raw =
        RawLibrary::load_at(&opened.name).map_err(|error| rejected(&library, opened, error))?;
    let raw: &'static RawLibrary = Box::leak(Box::new(raw));
    let now = [opened.file.metadata(), std::fs::metadata(&opened.name)];
    let is_same = |now: &std::fs::Metadata| Identity::of(now).has_contents_of(&identity);
    let outcome = if now.iter().all(|now| now.as_ref().is_ok_and(is_same)) {
        Ok(raw)
    } else {
        Err(changed(&library, "it was replaced or written to while it was being opened"))
    };
    opened.outcome.insert(outcome).clone()
}

/// Returns the path of a descriptor of this process in the file system, if the system has such paths.
fn name_of(file: &File) -> Option<PathBuf> {
    // The path contains the process ID and not `self`, so that debuggers can use it as well.
    let name = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    let (by_name, known) = (std::fs::metadata(&name).ok()?, file.metadata().ok()?);
    (Identity::of(&by_name) == Identity::of(&known)).then_some(name)
}

fn rejected(library: &Library, opened: &Opened, error: LibraryError) -> Error {
    let why = match error {
        LibraryError::OpenError { err, .. } => err.to_string(),
        other => first_line(&other),
    };
    let (name, path) = (opened.name.to_string_lossy(), library.canonical().to_string_lossy());
    let message = format!("the system cannot load it: {}", why.replace(&*name, &path));
    Error::new(ErrorKind::Open, library.path(), message)
        .help("install missing libraries on the machine that runs the plugin")
}

fn changed(library: &Library, message: &str) -> Error {
    Error::new(ErrorKind::Changed, library.path(), message).help(
        "restart the process; to replace a library that is in use, rename another file to its name",
    )
}

/// Returns the first line of an error. The messages of `abi_stable` begin with empty lines and continue for pages.
pub(super) fn first_line(error: &LibraryError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().unwrap_or("no reason given").to_owned()
}
