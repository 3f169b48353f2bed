//! Errors of plugin libraries. Each stage of loading has kinds of errors of its own.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Kind of an [`Error`]. Each stage from finding a library to calling it has kinds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file or folder does not exist.
    NotFound,
    /// The file or folder exists but cannot be read, or is too large to be a library.
    Unreadable,
    /// Users other than root and the user of this process could change the library.
    Access,
    /// The library was replaced or written to while it was being loaded, or this process has loaded it before with
    /// other contents.
    Changed,
    /// The file is not a shared library.
    NotALibrary,
    /// The file is a library for another machine or operating system.
    OtherMachine,
    /// The file begins like a shared library but is truncated or damaged.
    Damaged,
    /// The library contains no plugin metadata.
    NotAPlugin,
    /// The metadata of the library is invalid.
    BadMetadata,
    /// The plugin was built for a version of the ABI that this host does not load.
    AbiVersion,
    /// The plugin was built with `panic = "abort"`, so that a panic ends the process.
    PanicAbort,
    /// The loader of the system rejected the library.
    Open,
    /// The library does not export the header of a plugin of this ABI.
    Header,
    /// A type of the plugin ABI has another layout in the plugin than in the host.
    Layout,
    /// The plugin failed to create its root module.
    Module,
    /// The loaded plugin differs from its metadata.
    MetadataMismatch,
    /// No library in the search path provides the artefact.
    UnknownArtefact,
    /// Two libraries in the search path provide the artefact.
    NameTaken,
    /// The process that asked a plugin about its configuration crashed, hung or returned an invalid answer.
    Describe,
    /// The plugin rejected a configuration.
    Configuration,
}

/// Error of a plugin library: the file, the fault, the expected state, and advice.
///
/// `Display` writes a few lines that are meant for users.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    path: Option<PathBuf>,
    message: String,
    expected: Option<String>,
    help: Option<String>,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, path: &Path, message: impl fmt::Display) -> Self {
        Self { path: Some(path.to_owned()), ..Self::without_file(kind, message) }
    }

    pub(super) fn without_file(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, path: None, message: message.to_string(), expected: None, help: None }
    }

    pub(super) fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    pub(super) fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = Some(help.to_string());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the path of the file or folder. Returns `None` if the error is that no library provides an artefact.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the description of the fault. The path, the expected state and the advice are not included.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        f.write_str(&self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "\n  expected: {expected}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<Error> for tremor_pdk::Error {
    /// Converts the error of a rejected configuration to kind configuration, and every other error to kind
    /// internal.
    fn from(error: Error) -> Self {
        match error.kind {
            ErrorKind::Configuration => Self::configuration(error.message),
            _ => Self::internal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, ErrorKind};
    use std::path::Path;

    #[test]
    fn display_has_file_fault_expectation_and_help() {
        let error = Error::new(ErrorKind::AbiVersion, Path::new("a.so"), "built for ABI 2.0")
            .expected("ABI 1.0 to 1.1")
            .help("rebuild it");
        let text = "a.so: built for ABI 2.0\n  expected: ABI 1.0 to 1.1\n  help: rebuild it";
        assert_eq!(error.to_string(), text);
    }
}
