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

/// What a library offers.
pub trait Library {
    /// All of it, made anew.
    extern "C" fn artefacts() -> RVec<ArtefactRef>;
}

/// The root module of a library. Called once a load; what it makes lives as long as the process, as
/// libraries do.
extern "C" fn root_module<L: Library>() -> RootModuleResult {
    let module = guard("the root module", || {
        install_hook();
        let artefacts = L::artefacts;
        PluginModule { abi_version: AbiVersion::CURRENT, artefacts }.leak_into_prefix()
    });
    match module {
        // SAFETY: the host takes the erased reference for one to `PluginModule` again, which
        // `header` promises.
        Ok(module) => RResult::ROk(unsafe { module.to_prefix_ref().cast() }),
        Err(_) => RResult::RErr(RootModuleError::Unwound),
    }
}

/// What a library exports, under the name that `abi_stable` looks for, so that its root module is
/// found.
pub const fn header<L: Library>() -> LibHeader {
    // SAFETY: what `root_module` returns is a `PluginModuleRef`.
    unsafe {
        LibHeader::from_constructor::<PluginModuleRef>(root_module::<L>, CheckTypeLayout::Yes)
    }
}
