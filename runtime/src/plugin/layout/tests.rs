//! Tests that identical types are recognised, and that the full comparison accepts them.

use std::collections::BTreeSet;

use abi_stable::{
    StableAbi, abi_stability::abi_checking::check_layout_compatibility, type_layout::TypeLayout,
};
use tremor_abi::module::PluginModuleRef;

use super::{
    fits,
    identical::{every_type, identical},
};

#[test]
fn host_is_identical_to_itself() {
    let host = PluginModuleRef::LAYOUT;
    assert!(identical(host, host));
    check_layout_compatibility(host, host).unwrap();
}

#[test]
fn layouts_contain_own_types_and_those_of_pinned_crates() {
    let packages: BTreeSet<_> = every_type(PluginModuleRef::LAYOUT)
        .into_iter()
        .map(|layout| {
            let package = layout.item_info().package_and_version().0;
            assert!(!package.is_empty(), "{layout:?}");
            package
        })
        .collect();
    // The primitive types have the package name `std`.
    assert_eq!(
        packages.into_iter().collect::<Vec<_>>(),
        ["abi_stable", "async-ffi", "std", "tremor-abi"]
    );
}

/// Creates a module for each type, and a table of the names and layouts. All types can have the same name, as in
/// different builds of a crate.
///
/// Each type is nested in two other types, so that comparing only the outermost type does not find the difference.
macro_rules! types {
    ($($version:ident { $type:ident $($item:tt)* })*) => {
        $(#[allow(
            dead_code, non_local_definitions, unused_imports,
            clippy::cast_ptr_alignment, clippy::expl_impl_clone_on_copy, clippy::used_underscore_binding
        )]
        mod $version {
            use abi_stable::{StableAbi, sabi_trait, std_types::{RBox, RString, RVec}};
            $($item)*
            #[repr(C)]
            #[derive(StableAbi)]
            pub(super) struct Root { list: RVec<&'static $type> }
        })*
        const TYPES: &[(&str, &TypeLayout)] = &[
            $((stringify!($version), <$version::Root as StableAbi>::LAYOUT),)*
        ];
    };
}

types! {
    fields { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, b: u32 } }
    alike { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, b: u32 } }
    other_name { U #[repr(C)] #[derive(StableAbi)] struct U { a: u32, b: u32 } }
    other_field { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, c: u32 } }
    other_order { T #[repr(C)] #[derive(StableAbi)] struct T { b: u32, a: u32 } }
    other_type { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, b: i32 } }
    other_size { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, b: u64 } }
    other_pointer { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, b: &'static u32 } }
    mutable_pointer { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, b: &'static mut u32 } }
    fewer_fields { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32 } }
    a_union { T #[repr(C)] #[derive(StableAbi)] union T { a: u32, b: u32 } }
    transparent { T #[repr(transparent)] #[derive(StableAbi)] struct T { a: u32 } }
    opaque { T #[repr(C)] #[derive(StableAbi)] struct T { a: u32, #[sabi(unsafe_opaque_field)] b: u32 } }
    array { T #[repr(C)] #[derive(StableAbi)] struct T { a: [u32; 4] } }
    longer_array { T #[repr(C)] #[derive(StableAbi)] struct T { a: [u32; 5] } }
    phantom { T #[repr(C)] #[derive(StableAbi)] #[sabi(phantom_field(p: u8))] struct T { a: u32, b: u32 } }
    tag { T #[repr(C)] #[derive(StableAbi)] #[sabi(tag = abi_stable::tag!("one"))] struct T { a: u32, b: u32 } }
    other_tag { T #[repr(C)] #[derive(StableAbi)] #[sabi(tag = abi_stable::tag!("two"))] struct T { a: u32, b: u32 } }

    function { T #[repr(C)] #[derive(StableAbi)] struct T { f: extern "C" fn(u8, &RString) -> u16 } }
    unsafe_function { T #[repr(C)] #[derive(StableAbi)] struct T { f: unsafe extern "C" fn(u8, &RString) -> u16 } }
    other_parameter { T #[repr(C)] #[derive(StableAbi)] struct T { f: extern "C" fn(i8, &RString) -> u16 } }
    owned_parameter { T #[repr(C)] #[derive(StableAbi)] struct T { f: extern "C" fn(u8, RString) -> u16 } }
    one_more_parameter { T #[repr(C)] #[derive(StableAbi)] struct T { f: extern "C" fn(u8, &RString, u8) -> u16 } }
    other_result { T #[repr(C)] #[derive(StableAbi)] struct T { f: extern "C" fn(u8, &RString) -> i16 } }
    no_result { T #[repr(C)] #[derive(StableAbi)] struct T { f: extern "C" fn(u8, &RString) } }
    other_lifetime { T #[repr(C)] #[derive(StableAbi)] struct T { f: extern "C" fn(u8, &'static RString) -> u16 } }
    maybe_a_function { T #[repr(C)] #[derive(StableAbi)] struct T { f: Option<extern "C" fn(u8, &RString) -> u16> } }

    variants { T #[repr(u8)] #[derive(StableAbi)] enum T { A, B(u8) } }
    other_variant { T #[repr(u8)] #[derive(StableAbi)] enum T { A, C(u8) } }
    other_discriminant { T #[repr(u8)] #[derive(StableAbi)] enum T { A = 2, B(u8) } }
    other_width { T #[repr(u16)] #[derive(StableAbi)] enum T { A, B(u8) } }
    one_more_variant { T #[repr(u8)] #[derive(StableAbi)] enum T { A, B(u8), C } }
    field_of_another_variant { T #[repr(u8)] #[derive(StableAbi)] enum T { A(u8), B } }

    prefix { TRef #[repr(C)] #[derive(StableAbi)] #[sabi(kind(Prefix(prefix_ref = TRef, prefix_fields = TPrefix)))]
        struct T { a: u32, #[sabi(last_prefix_field)] b: u32, c: u32 } }
    older_prefix { TRef #[repr(C)] #[derive(StableAbi)] #[sabi(kind(Prefix(prefix_ref = TRef, prefix_fields = TPrefix)))]
        struct T { a: u32, #[sabi(last_prefix_field)] b: u32 } }
    longer_prefix { TRef #[repr(C)] #[derive(StableAbi)] #[sabi(kind(Prefix(prefix_ref = TRef, prefix_fields = TPrefix)))]
        struct T { a: u32, b: u32, #[sabi(last_prefix_field)] c: u32 } }
    more_behind_the_prefix { TRef #[repr(C)] #[derive(StableAbi)] #[sabi(kind(Prefix(prefix_ref = TRef, prefix_fields = TPrefix)))]
        struct T { a: u32, #[sabi(last_prefix_field)] b: u32, c: u32, d: u32 } }
    other_type_behind_the_prefix { TRef #[repr(C)] #[derive(StableAbi)] #[sabi(kind(Prefix(prefix_ref = TRef, prefix_fields = TPrefix)))]
        struct T { a: u32, #[sabi(last_prefix_field)] b: u32, c: i32 } }

    object { T #[sabi_trait] pub(super) trait O { fn f(&self) -> u8; } type T = O_TO<'static, RBox<()>>; }
    other_method { T #[sabi_trait] pub(super) trait O { fn f(&self) -> i8; } type T = O_TO<'static, RBox<()>>; }
    object_to_send { T #[sabi_trait] pub(super) trait O: Send { fn f(&self) -> u8; } type T = O_TO<'static, RBox<()>>; }
    printed_object { T #[sabi_trait] pub(super) trait O: Debug { fn f(&self) -> u8; } type T = O_TO<'static, RBox<()>>; }
}

#[test]
fn plugin_may_have_fewer_fields_after_prefix_than_host() {
    let named = |wanted: &str| TYPES.iter().find(|(name, _)| *name == wanted).unwrap().1;
    let host = named("more_behind_the_prefix");
    for older in ["older_prefix", "prefix", "more_behind_the_prefix"] {
        assert!(fits(named(older), host).is_ok(), "{older}");
    }
    assert!(fits(named("other_type_behind_the_prefix"), host).is_err());
    assert!(fits(host, named("prefix")).is_err(), "the plugin has more fields than the host");
}

#[test]
fn only_equal_types_are_identical() {
    for (name, layout) in TYPES {
        for (other_name, other) in TYPES {
            let alike = |name: &str| ["fields", "alike"].contains(&name);
            let same = name == other_name || (alike(name) && alike(other_name));
            assert_eq!(identical(layout, other), same, "{name} and {other_name}");
            if same {
                let compared = check_layout_compatibility(layout, other);
                assert!(compared.is_ok(), "{name} and {other_name}");
            }
        }
    }
}
