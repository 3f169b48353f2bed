//! Checks whether two types have exactly the same layout description, including all types that they contain.
//!
//! `abi_stable` decides whether one type is compatible with another by comparing their properties one after the other.
//! The rules of that comparison all accept equal properties. If all properties are equal, the result is therefore the
//! same as that of comparing the host with itself, and a test shows that this comparison succeeds. A check for equality
//! is much faster, because no information about differences has to be collected.
//!
//! The check covers everything that `check_inner`, `check_fields`, `check_enum` and `check_prefix_types` of
//! `abi_stable` 0.11.3 read, and accepts only equal values. If types have additional checks, as the trait objects of
//! `abi_stable` do, these are called in the same way. Types that are not identical are left to the full comparison.

use std::ptr;

use abi_stable::{
    abi_stability::extra_checks::{ExtraChecksError, TypeChecker, TypeCheckerMut},
    std_types::{ROption, RResult},
    type_layout::{TLData, TLEnum, TLField, TLFields, TLFunction, TypeLayout},
    type_level::downcasting::TD_Opaque,
};
use hashbrown::HashSet;

type Layout = &'static TypeLayout;

/// Returns whether `plugin` and `host` have the same description, including every type that they contain.
pub(crate) fn identical(plugin: Layout, host: Layout) -> bool {
    let mut pairs = Pairs::default();
    pairs.add(plugin, host);
    while let Some((plugin, host)) = pairs.open.pop() {
        if !same(plugin, host, &mut pairs) || !same_parts(plugin, host, &mut pairs) {
            return false;
        }
    }
    true
}

/// Returns a type and all types that it contains.
#[cfg(test)]
#[allow(dead_code, reason = "a benchmark takes this file without its tests")]
pub(super) fn every_type(layout: Layout) -> Vec<Layout> {
    let (mut pairs, mut every) = (Pairs::default(), Vec::new());
    pairs.add(layout, layout);
    while let Some((layout, _)) = pairs.open.pop() {
        every.push(layout);
        same_parts(layout, layout, &mut pairs);
    }
    every
}

/// Pairs of types that have to be identical. Types can contain themselves, so each pair is compared once.
#[derive(Default)]
struct Pairs {
    /// Addresses of the pairs that were added.
    seen: HashSet<(usize, usize)>,
    open: Vec<(Layout, Layout)>,
}

impl Pairs {
    fn add(&mut self, plugin: Layout, host: Layout) {
        if self.seen.insert((ptr::from_ref(plugin).addr(), ptr::from_ref(host).addr())) {
            self.open.push((plugin, host));
        }
    }
}

/// Compares the properties of the types as a whole.
fn same(plugin: Layout, host: Layout, pairs: &mut Pairs) -> bool {
    plugin.size() == host.size()
        && plugin.alignment() == host.alignment()
        && plugin.is_nonzero() == host.is_nonzero()
        && plugin.repr_attr() == host.repr_attr()
        && plugin.name() == host.name()
        && plugin.item_info().package_and_version() == host.item_info().package_and_version()
        && plugin.generics().lifetime_count() == host.generics().lifetime_count()
        && plugin.generics().const_params() == host.generics().const_params()
        && plugin.tag() == host.tag()
        && own_checks_pass(plugin, host, pairs)
}

/// Returns whether the additional checks that the types define pass, and require no comparison with other plugins.
fn own_checks_pass(plugin: Layout, host: Layout, pairs: &mut Pairs) -> bool {
    let (plugins, hosts) = match (plugin.extra_checks(), host.extra_checks()) {
        (None, None) => return true,
        (Some(plugins), Some(hosts)) => (plugins, hosts),
        _ => return false,
    };
    let mut checker = TypeCheckerMut::from_ptr(pairs, TD_Opaque);
    // An additional check may accept a type that contains more, so it is called in both directions.
    plugins.check_compatibility(plugin, host, checker.sabi_reborrow_mut()).is_ok()
        && hosts.check_compatibility(host, plugin, checker.sabi_reborrow_mut()).is_ok()
        && matches!(plugins.combine(hosts, checker), RResult::ROk(ROption::RNone))
}

/// Tells additional checks whether two types are compatible. The answer is always yes, on the condition that the types
/// are identical, which is checked later.
// SAFETY: identical types are compatible, and the result is `true` only if all pairs are identical.
unsafe impl TypeChecker for Pairs {
    fn check_compatibility(
        &mut self,
        interface: Layout,
        implementation: Layout,
    ) -> RResult<(), ExtraChecksError> {
        self.add(interface, implementation);
        RResult::ROk(())
    }

    fn local_check_compatibility(
        &mut self,
        interface: Layout,
        implementation: Layout,
    ) -> RResult<(), ExtraChecksError> {
        self.check_compatibility(interface, implementation)
    }
}

/// Compares the parts of the types. Adds the types of the parts to `pairs`.
fn same_parts(plugin: Layout, host: Layout, pairs: &mut Pairs) -> bool {
    let of_own_kind = match (plugin.data(), host.data()) {
        (TLData::Opaque, TLData::Opaque) => true,
        (TLData::Primitive(plugin), TLData::Primitive(host)) => plugin == host,
        (TLData::Struct { fields: plugin }, TLData::Struct { fields: host })
        | (TLData::Union { fields: plugin }, TLData::Union { fields: host }) => {
            same_fields(plugin, host, pairs)
        }
        (TLData::Enum(plugin), TLData::Enum(host)) => {
            same_variants(&plugin, &host) && same_fields(plugin.fields, host.fields, pairs)
        }
        (TLData::PrefixType(plugin), TLData::PrefixType(host)) => {
            plugin.first_suffix_field == host.first_suffix_field
                && plugin.conditional_prefix_fields == host.conditional_prefix_fields
                && plugin.accessible_fields == host.accessible_fields
                && same_fields(plugin.fields, host.fields, pairs)
        }
        _ => false,
    };
    of_own_kind && same_fields(plugin.phantom_fields(), host.phantom_fields(), pairs)
}

fn same_variants(plugin: &TLEnum, host: &TLEnum) -> bool {
    plugin.field_count == host.field_count
        && plugin.variant_names == host.variant_names
        && plugin.exhaustiveness == host.exhaustiveness
        && plugin.discriminants == host.discriminants
}

fn same_fields(plugin: TLFields, host: TLFields, pairs: &mut Pairs) -> bool {
    plugin.len() == host.len()
        && plugin.iter().zip(host.iter()).all(|(plugin, host)| same_field(&plugin, &host, pairs))
}

fn same_field(plugin: &TLField, host: &TLField, pairs: &mut Pairs) -> bool {
    pairs.add(plugin.layout(), host.layout());
    let (plugins, hosts) = (plugin.function_range(), host.function_range());
    plugin.name() == host.name()
        && plugin.lifetime_indices() == host.lifetime_indices()
        && plugins.len() == hosts.len()
        && plugins
            .iter()
            .zip(hosts.iter())
            .all(|(plugin, host)| same_function(&plugin, &host, pairs))
}

fn same_function(plugin: &TLFunction, host: &TLFunction, pairs: &mut Pairs) -> bool {
    let (plugins, hosts) = (&plugin.param_type_layouts, &host.param_type_layouts);
    plugins.iter().zip(hosts.iter()).for_each(|(plugin, host)| pairs.add(plugin(), host()));
    let same_result = match (plugin.return_type_layout(), host.return_type_layout()) {
        (None, None) => true,
        (Some(plugin), Some(host)) => {
            pairs.add(plugin(), host());
            true
        }
        _ => false,
    };
    same_result
        && plugins.len() == hosts.len()
        && plugin.name == host.name
        && plugin.param_names == host.param_names
        && plugin.bound_lifetimes == host.bound_lifetimes
        && plugin.paramret_lifetime_indices == host.paramret_lifetime_indices
        && plugin.fn_qualifs == host.fn_qualifs
}
