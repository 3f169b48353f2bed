//! Opening a library: the only place that does. Its initialisers run then.
//!
//! The system's loader is given a name and not a file, and what has a name may be replaced. So the
//! library is opened by a name that stands for the descriptor it was read through. The loader knows
//! libraries by their names as well, and gives what it has under one: the descriptor is kept for as
//! long as the process lives, so that no other file ever gets its number.
//!
//! A library that names others by where they lie beside it is opened by its path, from which the loader
//! starts, and refused afterwards where that no longer led to the file that was read. So is every
//! library where the system has no names for descriptors.

use std::{fs::File, os::fd::AsRawFd, path::PathBuf};

use abi_stable::library::{LibraryError, RawLibrary};

use super::{Error, ErrorKind, Library, identity::Identity, library::Read};

/// A library that was opened, or was tried to.
pub(super) struct Opened {
    /// Never closed.
    file: File,
    /// What it was opened by.
    name: PathBuf,
    /// The file as it was read.
    identity: Identity,
    /// What came of it; none where the loader refused it, which may end.
    outcome: Option<Result<&'static RawLibrary, Error>>,
}

/// Opens a library by the file that was read. It is never closed: its initialisers may have started
/// threads that run its code. `all` is what this process has opened.
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
        // The loader would give what it has.
        if all.iter().any(|other| other.identity.is_of(&identity) || other.name == name) {
            let message = "this process has opened it with other contents";
            return Err(changed(&library, message));
        }
        all.push(Opened { file, name, identity, outcome: None });
    }
    let opened = &mut all[position];
    if let Some(outcome) = &opened.outcome {
        return outcome.clone();
    }
    let raw =
        RawLibrary::load_at(&opened.name).map_err(|error| refused(&library, opened, error))?;
    let raw: &'static RawLibrary = Box::leak(Box::new(raw));
    let now = [opened.file.metadata(), std::fs::metadata(&opened.name)];
    let is_same = |now: &std::fs::Metadata| Identity::of(now).has_contents_of(&identity);
    let outcome = if now.iter().all(|now| now.as_ref().is_ok_and(is_same)) {
        Ok(raw)
    } else {
        Err(changed(&library, "it was replaced or written to while it was opened"))
    };
    opened.outcome.insert(outcome).clone()
}

/// What stands for a descriptor of this process in the file system, where there is such a thing.
fn name_of(file: &File) -> Option<PathBuf> {
    // With the number of the process, debuggers find it as well.
    let name = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    let (by_name, known) = (std::fs::metadata(&name).ok()?, file.metadata().ok()?);
    (Identity::of(&by_name) == Identity::of(&known)).then_some(name)
}

fn refused(library: &Library, opened: &Opened, error: LibraryError) -> Error {
    let why = match error {
        LibraryError::OpenError { err, .. } => err.to_string(),
        other => first_line(&other),
    };
    let (name, path) = (opened.name.to_string_lossy(), library.canonical().to_string_lossy());
    let message = format!("the system cannot load it: {}", why.replace(&*name, &path));
    Error::new(ErrorKind::Open, library.path(), message)
        .help("a missing library or symbol has to be installed where plugins run")
}

fn changed(library: &Library, message: &str) -> Error {
    Error::new(ErrorKind::Changed, library.path(), message).help(
        "start the process anew; what is in use is replaced by renaming another file to its name",
    )
}

/// `abi_stable`'s messages begin with empty lines and go on for pages.
pub(super) fn first_line(error: &LibraryError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().unwrap_or("no reason given").to_owned()
}
