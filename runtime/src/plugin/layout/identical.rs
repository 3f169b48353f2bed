//! Whether two types are described in exactly the same words, down to everything in them.
//!
//! `abi_stable` decides whether one type may stand for another by looking at one property after the
//! other, and each of its rules lets equal properties pass. Where all of them are equal, it would do
//! what it does when it compares the host with itself, which a test shows to succeed. To find equal
//! properties equal takes a fraction of the time: nothing is kept to tell a difference by.
//!
//! What is looked at here is everything that `check_inner`, `check_fields`, `check_enum` and
//! `check_prefix_types` of `abi_stable` 0.11.3 look at, and for equality alone. Where types bring
//! checks of their own, as `abi_stable`'s trait objects do, those are asked as it asks them. Whatever
//! is not identical is left to the full comparison to judge.

use std::ptr;

use abi_stable::{
    abi_stability::extra_checks::{ExtraChecksError, TypeChecker, TypeCheckerMut},
    std_types::{ROption, RResult},
    type_layout::{TLData, TLEnum, TLField, TLFields, TLFunction, TypeLayout},
    type_level::downcasting::TD_Opaque,
};
use hashbrown::HashSet;

type Layout = &'static TypeLayout;

/// Whether `plugin` and `host` are described alike, with every type that they contain.
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

/// A type, and every type that it contains.
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

/// The types that have to be alike. Types contain themselves, so each pair is looked at once.
#[derive(Default)]
struct Pairs {
    /// By their addresses.
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

/// What is said of a type as a whole.
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

/// Whether the checks that the types bring with them pass, and leave nothing to be compared with
/// what other plugins bring.
fn own_checks_pass(plugin: Layout, host: Layout, pairs: &mut Pairs) -> bool {
    let (plugins, hosts) = match (plugin.extra_checks(), host.extra_checks()) {
        (None, None) => return true,
        (Some(plugins), Some(hosts)) => (plugins, hosts),
        _ => return false,
    };
    let mut checker = TypeCheckerMut::from_ptr(pairs, TD_Opaque);
    // Such a check may let more stand for less, so it is made both ways.
    plugins.check_compatibility(plugin, host, checker.sabi_reborrow_mut()).is_ok()
        && hosts.check_compatibility(host, plugin, checker.sabi_reborrow_mut()).is_ok()
        && matches!(plugins.combine(hosts, checker), RResult::ROk(ROption::RNone))
}

/// Tells such checks of which types they may take one for the other: of all, on the condition that
/// they are identical, too.
// SAFETY: identical types are compatible, and nothing is taken for identical before all pairs are.
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

/// What a type consists of. The types of its parts are left to `pairs`.
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
