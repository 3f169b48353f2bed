//! Checks of a library before it is opened: which users could change it, and whether its metadata fits this host.

use serde::{Deserialize, Serialize};
use tremor_abi::{
    metadata::{self, ArtefactMetadata},
    module::ArtefactKind,
    version::AbiVersion,
};

use super::{Error, ErrorKind, Library};
use crate::is_name;

/// Libraries that a host accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Accepts plugins that were built with `panic = "abort"`. A panic in such a plugin ends the process.
    pub allow_panic_abort: bool,
    /// Rejects libraries with any [objection](Library::objection), including libraries that a group may write to or
    /// that belong to another user. By default, only grave objections lead to a rejection.
    pub strict: bool,
}

/// Kinds of artefacts that this version of the ABI defines.
const KINDS: [ArtefactKind; 6] = [
    ArtefactKind::CONNECTOR,
    ArtefactKind::CODEC,
    ArtefactKind::PREPROCESSOR,
    ArtefactKind::POSTPROCESSOR,
    ArtefactKind::OPERATOR,
    ArtefactKind::FUNCTION,
];

impl Library {
    /// Checks whether this host loads the library, based on its metadata and its access rights.
    ///
    /// # Errors
    /// Kinds [`Access`](ErrorKind::Access), [`AbiVersion`](ErrorKind::AbiVersion),
    /// [`PanicAbort`](ErrorKind::PanicAbort) and [`BadMetadata`](ErrorKind::BadMetadata).
    pub fn check(&self, policy: Policy) -> Result<(), Error> {
        if let Some(objection) = self.objection().filter(|it| it.is_grave || policy.strict) {
            let error = Error::new(ErrorKind::Access, self.path(), &objection);
            return Err(error.help(objection.help));
        }
        if self.executable().is_some() {
            return Ok(());
        }
        let (plugin, host) = (self.abi_version(), AbiVersion::CURRENT);
        if !host.loads(plugin) {
            return Err(self.other_abi(plugin, host));
        }
        let interface = &self.metadata().interface;
        if interface != metadata::RUST {
            let message = format!("its interface `{interface}` is unknown to this tremor");
            return Err(Error::new(ErrorKind::BadMetadata, self.path(), message)
                .expected(format!("`{}`", metadata::RUST))
                .help("update tremor to a version that supports this interface"));
        }
        match self.metadata().panic.as_deref() {
            None | Some("unwind") => {}
            Some("abort") if policy.allow_panic_abort => {}
            Some("abort") => {
                return Err(Error::new(
                    ErrorKind::PanicAbort,
                    self.path(),
                    "built with `panic = \"abort\"`: a panic in it would end the whole process",
                )
                .expected("`panic = \"unwind\"`, the default")
                .help(
                    "remove `panic = \"abort\"` from the plugin's profile and rebuild it, or \
                     allow such plugins with `--allow-panic-abort`",
                ));
            }
            Some(other) => {
                let message = format!("its metadata names an unknown panic strategy `{other}`");
                return Err(Error::new(ErrorKind::BadMetadata, self.path(), message)
                    .expected("`unwind` or `abort`"));
            }
        }
        let known = |kind: &str| KINDS.iter().any(|known| known.as_str() == kind);
        match self.metadata().artefacts.iter().find(|artefact| !known(&artefact.kind)) {
            None => Ok(()),
            Some(artefact) => Err(Error::new(
                ErrorKind::BadMetadata,
                self.path(),
                format!("its artefact `{}` is of unknown kind `{}`", artefact.name, artefact.kind),
            )
            .expected(KINDS.map(ArtefactKind::as_str).join(", "))),
        }
    }

    /// Checks that flow files can name all components of the library. `is_built_in` returns whether there is a built-in
    /// component with a kind and a name.
    ///
    /// # Errors
    /// Kinds [`BadMetadata`](ErrorKind::BadMetadata) and [`NameTaken`](ErrorKind::NameTaken).
    pub(super) fn check_names(
        &self,
        is_built_in: impl Fn(&str, &str) -> bool,
    ) -> Result<(), Error> {
        for artefact in &self.metadata().artefacts {
            let ArtefactMetadata { kind, name, .. } = artefact;
            if !is_name(name) {
                let message = format!("its {kind} has the invalid name `{name}`");
                return Err(Error::new(ErrorKind::BadMetadata, self.path(), message).expected(
                    "ASCII letters, digits, `_`, `-` and `.`, not beginning with `-` or `.`",
                ));
            }
            if is_built_in(kind, name) {
                return Err(self.shadowed(artefact));
            }
        }
        Ok(())
    }

    /// Returns the error of a component that flows cannot use, because a built-in one has its name.
    pub(crate) fn shadowed(&self, artefact: &ArtefactMetadata) -> Error {
        let ArtefactMetadata { kind, name, .. } = artefact;
        let message = format!(
            "its {kind} `{name}` is never used, because tremor has a built-in {kind} `{name}`"
        );
        Error::new(ErrorKind::NameTaken, self.path(), message).help("give it another `NAME`")
    }

    fn other_abi(&self, plugin: AbiVersion, host: AbiVersion) -> Error {
        let remedy = if plugin.major == host.major {
            format!(
                "update tremor to a version that supports ABI {plugin}, or rebuild the plugin with \
                 a `tremor-pdk` that supports ABI {host}"
            )
        } else {
            format!("rebuild the plugin with a `tremor-pdk` that supports ABI {host}")
        };
        Error::new(
            ErrorKind::AbiVersion,
            self.path(),
            format!(
                "built for ABI {plugin}{}; this tremor supports ABI {host}",
                self.metadata()
                    .pdk
                    .as_ref()
                    .map(|pdk| format!(" (tremor-pdk {pdk})"))
                    .unwrap_or_default()
            ),
        )
        .expected(format!("ABI {}.0 to {host}", host.major))
        .help(remedy)
    }
}
