//! The root module.

use abi_stable::{
    library::{CheckTypeLayout, LibHeader, RootModuleError, RootModuleResult},
    prefix_type::{PrefixRefTrait, PrefixTypeTrait},
    std_types::{RResult, RVec},
};
use tremor_abi::{
    module::{ArtefactRef, PluginModule, PluginModuleRef},
    version::AbiVersion,
};

use super::guard::{guard, install_hook};

/// The contents of a plugin library.
pub trait Library {
    /// Returns the artefacts of the library.
    extern "C" fn artefacts() -> RVec<ArtefactRef>;
}

/// Returns the root module of a library. Called once when the library is loaded; the module lives until the process
/// ends, because libraries are never unloaded.
extern "C" fn root_module<L: Library>() -> RootModuleResult {
    let module = guard("the root module", || {
        install_hook();
        let artefacts = L::artefacts;
        PluginModule { abi_version: AbiVersion::CURRENT, artefacts }.leak_into_prefix()
    });
    match module {
        // SAFETY: the host casts the erased reference back to `PluginModuleRef`, the type that `header` declares.
        Ok(module) => RResult::ROk(unsafe { module.to_prefix_ref().cast() }),
        Err(_) => RResult::RErr(RootModuleError::Unwound),
    }
}

/// Returns the header that a library exports under the name that `abi_stable` looks for, so that the root module is
/// found.
pub const fn header<L: Library>() -> LibHeader {
    // SAFETY: `root_module` returns a `PluginModuleRef`.
    unsafe {
        LibHeader::from_constructor::<PluginModuleRef>(root_module::<L>, CheckTypeLayout::Yes)
    }
}
