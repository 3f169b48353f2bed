//! Comparing the layout of every type that crosses the boundary, as the plugin was built with it and
//! as the host was.

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

/// Checks that the host can work with `plugins`, the layout of the root module of `library` and of
/// everything that it leads to.
///
/// # Errors
/// Kind [`Layout`](super::ErrorKind::Layout).
pub(super) fn check(library: &Library, plugins: &'static TypeLayout) -> Result<(), Error> {
    let hosts = PluginModuleRef::LAYOUT;
    // What was built with the very types of the host is seen to be so in a fraction of the time.
    if identical::identical(plugins, hosts) {
        return Ok(());
    }
    fits(plugins, hosts).map_err(|errors| mismatch::mismatch(library, &errors))
}

/// Compares everything.
fn fits(
    plugins: &'static TypeLayout,
    hosts: &'static TypeLayout,
) -> Result<(), AbiInstabilityErrors> {
    // The plugin's types are the interface and the host's the implementation: the host may have
    // more than the plugin asks for, never less. `abi_stable`'s own check is the other way round.
    //
    // Each plugin is compared with the host alone. With the process's own globals `abi_stable` would narrow
    // the host's types to what the first older plugin has, and refuse a second one that differs from it.
    // Nothing is lost: what a plugin has after a prefix, the host has as well, with the same types.
    check_layout_compatibility_with_globals(plugins, hosts, &CheckingGlobals::new())
}
