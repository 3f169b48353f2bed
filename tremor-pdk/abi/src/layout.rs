//! The layouts that this version of the ABI fixes for values and documents.

use std::mem::{align_of, size_of};

use abi_stable::{StableAbi, abi_stability::abi_checking::check_layout_compatibility};

use crate::{
    document::{Document, Node, NodeKind, ValueRef},
    value::{Array, Bytes, Object, Str, Value},
};

macro_rules! assert_layouts {
    ($($type:ty => $size:literal, $align:literal;)*) => {$(
        assert_eq!(size_of::<$type>(), $size, "the size of {}", stringify!($type));
        assert_eq!(align_of::<$type>(), $align, "the alignment of {}", stringify!($type));
    )*};
}

#[test]
fn sizes_and_alignments_are_fixed() {
    assert_layouts! {
        NodeKind => 1, 1;
        Node => 16, 8;
        Str<'_> => 24, 8;
        Bytes<'_> => 24, 8;
        Array<'_> => 16, 8;
        Object<'_> => 16, 8;
        Value<'_> => 32, 8;
    }
}

#[test]
fn views_stay_small() {
    assert_eq!(size_of::<Document<'_>>(), 40);
    assert_eq!(size_of::<ValueRef<'_>>(), 40);
}

#[test]
fn a_value_is_compatible_with_itself() {
    let layout = <Value<'_> as StableAbi>::LAYOUT;
    assert!(check_layout_compatibility(layout, layout).is_ok());
}

/// Only compiles as long as a longer-lived value can stand for a shorter-lived one.
#[allow(dead_code)]
fn values_are_covariant<'short>(value: Value<'static>) -> Value<'short> {
    value
}

#[test]
fn values_cross_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Value<'_>>();
    is_send_and_sync::<ValueRef<'_>>();
}
