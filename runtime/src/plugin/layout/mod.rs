//! Compares the layout of every type of the plugin ABI: the layout with which the plugin was built, and the layout with
//! which the host was built.

mod identical;
mod mismatch;
#[cfg(test)]
mod tests;

use abi_stable::{
    StableAbi,
    abi_stability::abi_checking::{
        AbiInstabilityErrors, CheckingGlobals, check_layout_compatibility_with_globals,
    },
    type_layout::TypeLayout,
};
use tremor_abi::module::PluginModuleRef;

use super::{Error, Library};

/// Checks that the host is compatible with `plugins`, which is the layout of the root module of `library` and includes
/// all types that the module refers to.
///
/// # Errors
/// Kind [`Layout`](super::ErrorKind::Layout).
pub(super) fn check(library: &Library, plugins: &'static TypeLayout) -> Result<(), Error> {
    let hosts = PluginModuleRef::LAYOUT;
    // If a plugin was built with exactly the types of the host, this fast check is enough.
    if identical::identical(plugins, hosts) {
        return Ok(());
    }
    fits(plugins, hosts).map_err(|errors| mismatch::mismatch(library, &errors))
}

/// Makes the full comparison of `abi_stable`.
fn fits(
    plugins: &'static TypeLayout,
    hosts: &'static TypeLayout,
) -> Result<(), AbiInstabilityErrors> {
    // The plugin's types are the interface and the host's types the implementation, because the host may have more
    // than the plugin, but never less. `abi_stable`'s own check has the opposite direction.
    //
    // Each plugin is compared only with the host. If the global state of the process were used, `abi_stable` would
    // reduce the host's types to those of the first older plugin, and reject a second plugin that differs from it. The
    // comparison is still complete: everything that a plugin has after a prefix exists in the host with the same types.
    check_layout_compatibility_with_globals(plugins, hosts, &CheckingGlobals::new())
}
