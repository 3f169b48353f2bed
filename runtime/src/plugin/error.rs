//! What can be wrong with a plugin library, one kind for each stage.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// What is wrong. Each stage between finding a library and calling it has its own kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no file or folder at this path.
    NotFound,
    /// The file or folder is there and cannot be read, or is too large to be a library.
    Unreadable,
    /// Others than root and the user of this process could change the library.
    Access,
    /// The library was replaced or written to while it was loaded, or is loaded with other contents.
    Changed,
    /// The file is not a shared library.
    NotALibrary,
    /// The file is a library for another machine or operating system.
    OtherMachine,
    /// The file starts as a shared library and is cut short or damaged.
    Damaged,
    /// The library carries no plugin metadata.
    NotAPlugin,
    /// The library's metadata cannot be understood.
    BadMetadata,
    /// The plugin was built for a version of the ABI that this host does not load.
    AbiVersion,
    /// The plugin was built so that a panic ends the process.
    PanicAbort,
    /// The system's loader refused the library.
    Open,
    /// What the library exports is not the header of a plugin of this ABI.
    Header,
    /// A type that crosses the boundary has another layout in the plugin than in the host.
    Layout,
    /// The plugin could not make its root module.
    Module,
    /// The loaded plugin is not what its metadata says.
    Lie,
    /// No library in the search path offers this artefact.
    UnknownArtefact,
    /// Two libraries in the search path offer this artefact.
    NameTaken,
    /// The process that asks a plugin about its configuration crashed, hung or answered nonsense.
    Describe,
    /// The plugin does not accept a configuration.
    Configuration,
}

/// Something is wrong with a plugin: which file, what, what was expected and what to do about it.
///
/// Its text is a few lines, made to be shown as it is.
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

    /// What is wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file or folder that it is about; none where no library offers an artefact.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What is wrong, in words, without the path, what was expected and the remedy.
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
    /// What a plugin does not accept is an error of its configuration, and not of its file.
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
    fn an_error_names_the_file_what_is_wrong_what_was_expected_and_the_remedy() {
        let error = Error::new(ErrorKind::AbiVersion, Path::new("a.so"), "built for ABI 2.0")
            .expected("ABI 1.0 to 1.1")
            .help("rebuild it");
        let text = "a.so: built for ABI 2.0\n  expected: ABI 1.0 to 1.1\n  help: rebuild it";
        assert_eq!(error.to_string(), text);
    }
}
