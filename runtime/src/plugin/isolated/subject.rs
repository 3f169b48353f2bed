//! The connector that a process runs, and the beginning of the conversation with the process.

use std::{
    ffi::OsString,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use tremor_pdk::{Error, ErrorPolicy, Result, Sides};

use super::{
    body::{Created, Hello},
    kept::kept,
    message::{Kind, Message, VERSION},
};
use crate::{
    dynamic::CodecRequirement,
    plugin::{self, ErrorKind, Library, Policy, executable::Executable, log_lines},
};

/// A connector of a plugin, and the program of its processes.
#[derive(Clone)]
pub(super) struct Subject {
    /// The `tremor` binary, which starts all processes.
    pub(super) tremor: PathBuf,
    /// The program, if the plugin is an executable.
    executable: Option<Arc<Executable>>,
    library: PathBuf,
    hash: Option<String>,
    pub(super) connector: String,
    pub(super) codec: CodecRequirement,
    policy: Policy,
    /// Maximum number of bytes of memory of a process.
    memory: u64,
}

impl Subject {
    /// Creates the description of a connector of a library. Runs no code of the library.
    ///
    /// # Errors
    /// Errors of [`Library::check`]. Kind [`UnknownArtefact`](ErrorKind::UnknownArtefact) if the library has no such
    /// connector.
    pub(super) fn new(
        tremor: &Path,
        library: &Library,
        connector: &str,
        policy: Policy,
        memory: u64,
    ) -> std::result::Result<Self, plugin::Error> {
        library.check(policy)?;
        let artefact = library.artefact("connector", connector).ok_or_else(|| {
            let message = format!("the plugin has no connector `{connector}`");
            plugin::Error::new(ErrorKind::UnknownArtefact, library.path(), message)
        })?;
        let codec = match artefact.codec.as_deref() {
            Some("required") => CodecRequirement::Required,
            Some("optional") => {
                CodecRequirement::Optional(kept(artefact.default_codec.as_deref().unwrap_or("")))
            }
            _ => CodecRequirement::Structured,
        };
        let executable = library.executable().cloned();
        // An executable runs in another folder, where a relative path would lead elsewhere.
        let path = if executable.is_some() { library.canonical() } else { library.path() };
        Ok(Self {
            tremor: tremor.to_owned(),
            executable,
            library: path.to_owned(),
            hash: library.hash().map(|hash| hash.to_string()),
            connector: connector.to_owned(),
            codec,
            policy,
            memory,
        })
    }

    /// Returns the arguments that make the `tremor` binary run an executable, and the folder to run it in. Returns
    /// `None` for a library.
    ///
    /// # Errors
    /// The program does not exist, or this process may not run it.
    pub(super) fn executable(
        &self,
    ) -> std::result::Result<Option<(Vec<OsString>, &Path)>, plugin::Error> {
        let Some(executable) = &self.executable else { return Ok(None) };
        let program = executable.program(&self.library)?;
        let mut arguments = vec!["--memory".into(), self.memory.to_string().into(), "--".into()];
        arguments.push(program.into());
        arguments.extend(executable.command()[1..].iter().map(OsString::from));
        Ok(Some((arguments, executable.folder())))
    }

    /// Returns the command that is run, for messages.
    pub(super) fn command(&self) -> String {
        match &self.executable {
            Some(executable) => executable.to_string(),
            None => self.tremor.display().to_string(),
        }
    }

    /// Returns the first message to a process. Relative paths of the component are relative to `folder`.
    pub(super) fn hello(&self, component: &str, folder: &str) -> Message {
        let absolute = || {
            // An empty path has no absolute form.
            let folder = Path::new(".").join(folder);
            Some(path::absolute(folder).ok()?.to_string_lossy().into_owned())
        };
        let absolute = self.executable.as_ref().and_then(|_| absolute());
        let hello = Hello {
            component: component.to_owned(),
            folder: absolute.unwrap_or_else(|| folder.to_owned()),
            memory: self.memory,
            library: self.library.to_string_lossy().into_owned(),
            hash: self.hash.clone(),
            connector: self.connector.clone(),
            policy: self.policy,
        };
        Message {
            a: VERSION,
            b: u64::from(log_lines::max_level()),
            ..Message::new(Kind::HELLO).json(&hello)
        }
    }

    /// Checks the answer to the first message.
    ///
    /// # Errors
    /// The error in the answer. Kind configuration, if the process speaks another version of the protocol.
    pub(super) fn check_welcome(&self, welcome: &Message) -> Result<()> {
        welcome.check()?;
        if welcome.a == VERSION {
            return Ok(());
        }
        let help = match &self.executable {
            Some(_) => "update the plugin or tremor",
            None => "restart tremor, whose program was replaced",
        };
        Err(Error::configuration(format_args!(
            "its process speaks version {} of the protocol, and this program version {VERSION}; {help}",
            welcome.a
        )))
    }

    /// Returns the sides of an instance from the answer to NEW or CHECK. The manifest of an executable may limit them.
    ///
    /// # Errors
    /// The error in the answer. Kind configuration, if no side is left.
    pub(super) fn sides(&self, created: &Message) -> Result<Sides> {
        created.check()?;
        let Created { has_source, has_sink } = created.read()?;
        let Some(executable) = &self.executable else {
            return Ok(Sides::new(has_source, has_sink));
        };
        let most = executable.sides(&self.connector);
        let sides = Sides::new(has_source && most.has_source(), has_sink && most.has_sink());
        if sides == Sides::NONE {
            return Err(Error::configuration(
                "the connector has no source and no sink that its manifest allows; correct `source` and `sink` in \
                 the manifest, or the program",
            ));
        }
        Ok(sides)
    }
}

/// Returns the error that a program could not be started. The flow must not fail because an operator replaces the
/// program.
pub(super) fn not_started(error: plugin::Error) -> Error {
    Error::configuration(error).with_policy(ErrorPolicy::RECONNECT)
}
