//! Loading a library, from its file to its root module.
//!
//! `abi_stable`'s own loader (`RootModule::load_from_file`) keeps the first library that it ever
//! loaded for each type of root module and gives that, whatever path it is asked for. So the
//! stages that it is made of are taken here one by one, each with an error of its own, and the
//! layouts are compared in the direction that lets an older minor of the ABI pass.

use std::{path::Path, sync::Mutex};

use abi_stable::library::{LibHeader, LibraryError, RawLibrary, lib_header_from_raw_library};
use tremor_abi::{
    module::{ArtefactRef, PluginModuleRef},
    version::AbiVersion,
};

use super::{
    Error, ErrorKind, Library, Policy, layout,
    library::Read,
    open::{Opened, first_line, open},
};
use crate::lock::lock;

/// A loaded plugin library. It stays loaded until the process ends: nothing of it is ever unloaded,
/// so what it hands out is `'static`.
#[derive(Clone)]
pub struct Plugin {
    library: Library,
    artefacts: Vec<ArtefactRef>,
}

impl Plugin {
    /// The file that it was loaded from, as it was then.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The artefact of this kind and name.
    pub(super) fn artefact(&self, kind: &str, name: &str) -> Result<ArtefactRef, Error> {
        let mut all = self.artefacts.iter();
        let found = all
            .find(|artefact| artefact.kind().as_str() == kind && artefact.name().as_str() == name);
        found.copied().ok_or_else(|| {
            Error::new(
                ErrorKind::UnknownArtefact,
                self.library.path(),
                format!("this plugin offers no {kind} `{name}`"),
            )
        })
    }

    pub(super) fn artefacts(&self) -> &[ArtefactRef] {
        &self.artefacts
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("library", &self.library).finish_non_exhaustive()
    }
}

/// What this process has loaded. Loading is a matter of the process: the system's loader keeps
/// such a list as well.
static LOADED: Mutex<Loaded> = Mutex::new(Loaded { plugins: Vec::new(), opened: Vec::new() });

struct Loaded {
    plugins: Vec<Plugin>,
    opened: Vec<Opened>,
}

/// Checks and loads the library at `path`. Loading the same contents from the same path again
/// gives the same plugin; other contents at that path, or another path, give another one.
///
/// File, rights, metadata and ABI version are checked before any code of the library runs, and the
/// layout of every type that crosses the boundary before any function that its author wrote. To open
/// a library runs its initialisers, which cannot be checked. What was opened stays open, whatever
/// came of it.
///
/// The file that was checked is the one that is opened. The system's loader maps it: it may be
/// replaced while it is loaded, by renaming another one to its name or by removing it first, but
/// not written to.
///
/// # Errors
/// Those of [`Library::inspect`] and [`Library::check`], and the kinds [`Open`](ErrorKind::Open),
/// [`Changed`](ErrorKind::Changed), [`Header`](ErrorKind::Header), [`Layout`](ErrorKind::Layout),
/// [`Module`](ErrorKind::Module) and [`Lie`](ErrorKind::Lie).
pub fn load(path: &Path, policy: Policy) -> Result<Plugin, Error> {
    load_library(Library::read(path)?, policy)
}

/// As [`load`] of the path of `found`, which is read once more only where it may have changed since
/// it was found.
pub(super) fn load_found(found: &Library, policy: Policy) -> Result<Plugin, Error> {
    load_library(found.current()?, policy)
}

fn load_library(read: Read, policy: Policy) -> Result<Plugin, Error> {
    let library = &read.library;
    library.check(policy)?;
    let hash = read.hash()?;
    let mut loaded = lock(&LOADED);
    let same = |plugin: &&Plugin| {
        let known = &plugin.library;
        hash.is_some() && known.canonical() == library.canonical() && known.hash() == hash
    };
    if let Some(plugin) = loaded.plugins.iter().find(same) {
        return Ok(plugin.clone());
    }
    let library = library.clone();
    let raw = open(read, &mut loaded.opened)?;
    let artefacts = root_module(&library, header(&library, raw)?)?;
    let plugin = Plugin { library, artefacts };
    loaded.plugins.push(plugin.clone());
    Ok(plugin)
}

/// The header of a library. `abi_stable` calls functions of its copy in the library: they tell
/// whether both sides pass arguments alike, and give the library its globals.
fn header(library: &Library, raw: &'static RawLibrary) -> Result<&'static LibHeader, Error> {
    // SAFETY: the library stays open for good. What its symbol points to begins with a text that says
    // what it is, which abi_stable looks at before anything else.
    let header = unsafe { lib_header_from_raw_library(raw) };
    header.map_err(|error| {
        let error_of = |message: String| Error::new(ErrorKind::Header, library.path(), message);
        let rebuild =
            format!("rebuild the plugin with a `tremor-pdk` for ABI {}", AbiVersion::CURRENT);
        match error {
            LibraryError::GetSymbolError { .. } => error_of("it exports no root module".to_owned()),
            LibraryError::InvalidAbiHeader(found) => error_of(format!(
                "it was built with abi_stable {}.{}",
                found.abi_major, found.abi_minor
            ))
            .expected("abi_stable 0.11"),
            other => error_of(first_line(&other)),
        }
        .help(rebuild)
    })
}

/// Checks what the header says, and only then makes the root module. To compare layouts calls
/// functions as well: code that `abi_stable` derived, which answers with a constant each.
fn root_module(library: &Library, header: &'static LibHeader) -> Result<Vec<ArtefactRef>, Error> {
    let path = library.path();
    let version = header.version_strings();
    let agrees = version.parsed().is_ok_and(|version| {
        let says = library.abi_version();
        version.major == u32::from(says.major) && version.minor == u32::from(says.minor)
    });
    if !agrees {
        let message = format!(
            "its metadata says that it was built for ABI {}, its header for {version}",
            library.abi_version()
        );
        return Err(lie(path, message));
    }
    let Some(plugins) = header.layout() else {
        return Err(Error::new(
            ErrorKind::Layout,
            path,
            "it does not say how its types are laid out",
        )
        .help("export it with `tremor_pdk::export!`"));
    };
    layout::check(library, plugins)?;
    // SAFETY: the layouts were compared just now. The plugin's root module may lack fields that the
    // host has: all of those are after the last prefix field, and read through accessors that look
    // whether they are there.
    let module = unsafe { header.init_root_module_with_unchecked_layout::<PluginModuleRef>() };
    let module = module.map_err(|error| {
        let message = format!("it cannot make its root module: {}", first_line(&error));
        Error::new(ErrorKind::Module, path, message)
    })?;
    if module.abi_version() != library.abi_version() {
        let says = library.abi_version();
        let message = format!(
            "its metadata says that it was built for ABI {says}, its module for {}",
            module.abi_version()
        );
        return Err(lie(path, message));
    }
    let artefacts: Vec<ArtefactRef> = module.artefacts()().into_iter().collect();
    same_artefacts(library, &artefacts)?;
    Ok(artefacts)
}

fn same_artefacts(library: &Library, artefacts: &[ArtefactRef]) -> Result<(), Error> {
    let mut found: Vec<_> = artefacts
        .iter()
        .map(|artefact| (artefact.kind().as_str(), artefact.name().as_str()))
        .collect();
    let mut said: Vec<_> = library
        .metadata()
        .artefacts
        .iter()
        .map(|artefact| (artefact.kind.as_str(), artefact.name.as_str()))
        .collect();
    found.sort_unstable();
    said.sort_unstable();
    if found == said {
        return Ok(());
    }
    let list = |artefacts: &[(&str, &str)]| {
        let names: Vec<_> =
            artefacts.iter().map(|(kind, name)| format!("{kind} `{name}`")).collect();
        names.join(", ")
    };
    let message = format!("it offers {}; its metadata says {}", list(&found), list(&said));
    Err(lie(library.path(), message))
}

fn lie(path: &Path, message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Lie, path, message)
        .help("export everything with one `tremor_pdk::export!`, and rebuild the plugin")
}
