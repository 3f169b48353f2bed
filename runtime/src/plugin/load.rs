//! Loading of a library, from its file to its root module.
//!
//! The loader of `abi_stable` (`RootModule::load_from_file`) stores the first library that it loads for each type of
//! root module, and returns that library for every later path. Therefore the stages of that loader are executed here
//! one by one. Each stage has an error of its own, and layouts are compared in the direction that accepts an older
//! minor version of the ABI.

use std::{path::Path, sync::Mutex};

use abi_stable::library::{LibHeader, LibraryError, RawLibrary, lib_header_from_raw_library};
use tremor_abi::{
    module::{ArtefactRef, PluginModuleRef},
    version::AbiVersion,
};
use tremor_pdk::lock;

use super::{
    Error, ErrorKind, Library, Policy, layout,
    library::Read,
    open::{Opened, first_line, open},
};

/// Loaded plugin library. It is never unloaded, so everything that it returns is `'static`.
#[derive(Clone)]
pub struct Plugin {
    library: Library,
    artefacts: Vec<ArtefactRef>,
}

impl Plugin {
    /// Returns the library as it was when it was loaded.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns the artefact with this kind and name.
    pub(super) fn artefact(&self, kind: &str, name: &str) -> Result<ArtefactRef, Error> {
        let mut all = self.artefacts.iter();
        let found = all
            .find(|artefact| artefact.kind().as_str() == kind && artefact.name().as_str() == name);
        found.copied().ok_or_else(|| {
            Error::new(
                ErrorKind::UnknownArtefact,
                self.library.path(),
                format!("the plugin has no {kind} `{name}`"),
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

/// The libraries that this process has loaded. The list is global to the process, as the list of the system's loader
/// is.
static LOADED: Mutex<Loaded> = Mutex::new(Loaded { plugins: Vec::new(), opened: Vec::new() });

struct Loaded {
    plugins: Vec<Plugin>,
    opened: Vec<Opened>,
}

/// Checks and loads the library at `path`.
///
/// If the same contents are loaded from the same path again, the same plugin is returned. Other contents at this path,
/// or another path, result in another plugin.
///
/// File, access rights, metadata and ABI version are checked before any code of the library runs. The layout of every
/// type of the ABI is checked before a function runs that the plugin's author wrote. Opening a library runs its
/// initialisers, which cannot be checked. A library that was opened stays open, even if a later check fails.
///
/// The file that was checked is the file that is opened. The loader of the system maps the file. While it is loaded,
/// the file may be replaced by renaming another file to its name, or removed, but it must not be written to.
///
/// # Errors
/// Errors of [`Library::inspect`] and [`Library::check`], and the kinds [`Open`](ErrorKind::Open),
/// [`Changed`](ErrorKind::Changed), [`Header`](ErrorKind::Header), [`Layout`](ErrorKind::Layout),
/// [`Module`](ErrorKind::Module) and [`MetadataMismatch`](ErrorKind::MetadataMismatch).
pub fn load(path: &Path, policy: Policy) -> Result<Plugin, Error> {
    load_library(Library::read(path)?, policy)
}

/// Loads a library that was found before, in the same way as [`load`]. The file is read again only if it may have
/// changed since then.
pub(super) fn load_found(found: &Library, policy: Policy) -> Result<Plugin, Error> {
    load_library(found.current()?, policy)
}

fn load_library(read: Read, policy: Policy) -> Result<Plugin, Error> {
    let library = &read.library;
    library.check(policy)?;
    if library.executable().is_some() {
        let message = "it is the manifest of an executable, which runs in a process of its own";
        return Err(Error::new(ErrorKind::NotALibrary, library.path(), message));
    }
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

/// Returns the header of a library.
///
/// `abi_stable` calls functions of the copy of `abi_stable` in the library. These functions report whether both sides
/// pass arguments in the same way, and initialise the globals of the library.
fn header(library: &Library, raw: &'static RawLibrary) -> Result<&'static LibHeader, Error> {
    // SAFETY: the library stays open until the process ends. Its symbol points to data that begins with a text that
    // identifies the header, and abi_stable checks this text before anything else.
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

/// Checks the header, and then creates the root module.
///
/// Comparing layouts calls functions of the library too, but these were derived by `abi_stable` and only return
/// constants.
fn root_module(library: &Library, header: &'static LibHeader) -> Result<Vec<ArtefactRef>, Error> {
    let path = library.path();
    let version = header.version_strings();
    let agrees = version.parsed().is_ok_and(|version| {
        let stated = library.abi_version();
        version.major == u32::from(stated.major) && version.minor == u32::from(stated.minor)
    });
    if !agrees {
        let message = format!(
            "its metadata states ABI {}, but its header ABI {version}",
            library.abi_version()
        );
        return Err(mismatch(path, message));
    }
    let Some(plugins) = header.layout() else {
        return Err(Error::new(
            ErrorKind::Layout,
            path,
            "it does not describe the layout of its types",
        )
        .help("export it with `tremor_pdk::export!`"));
    };
    layout::check(library, plugins)?;
    // SAFETY: the layouts were compared above. The plugin's root module may lack fields that the host has. All of these
    // are after the last prefix field, and are read through accessors that check whether they exist.
    let module = unsafe { header.init_root_module_with_unchecked_layout::<PluginModuleRef>() };
    let module = module.map_err(|error| {
        let message = format!("it cannot create its root module: {}", first_line(&error));
        Error::new(ErrorKind::Module, path, message)
    })?;
    if module.abi_version() != library.abi_version() {
        let stated = library.abi_version();
        let message = format!(
            "its metadata states ABI {stated}, but its module ABI {}",
            module.abi_version()
        );
        return Err(mismatch(path, message));
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
    let mut listed: Vec<_> = library
        .metadata()
        .artefacts
        .iter()
        .map(|artefact| (artefact.kind.as_str(), artefact.name.as_str()))
        .collect();
    found.sort_unstable();
    listed.sort_unstable();
    if found == listed {
        return Ok(());
    }
    let list = |artefacts: &[(&str, &str)]| {
        let names: Vec<_> =
            artefacts.iter().map(|(kind, name)| format!("{kind} `{name}`")).collect();
        names.join(", ")
    };
    let message = format!("it provides {}, but its metadata lists {}", list(&found), list(&listed));
    Err(mismatch(library.path(), message))
}

fn mismatch(path: &Path, message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::MetadataMismatch, path, message)
        .help("export everything with one `tremor_pdk::export!`, and rebuild the plugin")
}
