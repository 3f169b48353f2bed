//! What is checked of a library before it is opened: who could change it, and its metadata.

use serde::{Deserialize, Serialize};
use tremor_abi::{metadata, module::ArtefactKind, version::AbiVersion};

use super::{Error, ErrorKind, Library};

/// What a host puts up with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Load plugins that were built with `panic = "abort"`: a panic in one ends the process.
    pub allow_panic_abort: bool,
    /// Refuse libraries to which there is any [objection](Library::objection), and not only a grave
    /// one: those that a group may write to, or that belong to another user.
    pub strict: bool,
}

/// The kinds of artefacts that this ABI knows.
const KINDS: [ArtefactKind; 6] = [
    ArtefactKind::CONNECTOR,
    ArtefactKind::CODEC,
    ArtefactKind::PREPROCESSOR,
    ArtefactKind::POSTPROCESSOR,
    ArtefactKind::OPERATOR,
    ArtefactKind::FUNCTION,
];

impl Library {
    /// Whether this host loads the library, as far as its metadata and the rights to it tell.
    ///
    /// # Errors
    /// Kinds [`Access`](ErrorKind::Access), [`AbiVersion`](ErrorKind::AbiVersion),
    /// [`PanicAbort`](ErrorKind::PanicAbort) and [`BadMetadata`](ErrorKind::BadMetadata).
    pub fn check(&self, policy: Policy) -> Result<(), Error> {
        if let Some(objection) = self.objection().filter(|it| it.is_grave || policy.strict) {
            let error = Error::new(ErrorKind::Access, self.path(), &objection);
            return Err(error.help(objection.help));
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
                     allow such plugins with `allow_panic_abort`",
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

    fn other_abi(&self, plugin: AbiVersion, host: AbiVersion) -> Error {
        let remedy = if plugin.major == host.major {
            format!(
                "update tremor to a version that speaks ABI {plugin}, or rebuild the plugin with \
                 a `tremor-pdk` that speaks ABI {host}"
            )
        } else {
            format!("rebuild the plugin with a `tremor-pdk` that speaks ABI {host}")
        };
        Error::new(
            ErrorKind::AbiVersion,
            self.path(),
            format!(
                "built for ABI {plugin}{}; this tremor speaks ABI {host}",
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
