//! The representations an object could have, behind one trait.

#![allow(non_local_definitions, clippy::cast_ptr_alignment, clippy::used_underscore_binding)] // in what sabi_trait writes

use std::hash::{BuildHasher, RandomState};

use abi_stable::{
    sabi_trait,
    std_types::{RBox, RHashMap, ROption, RStr, RString, RVec, Tuple2},
};
use tremor_abi::value::{Object, Str, Value};

type V = Value<'static>;
type Halfbrown = halfbrown::HashMap<String, V>;

/// What is measured of each candidate.
pub(crate) trait Candidate: Sized {
    fn empty() -> Self;
    fn put(&mut self, key: &str, value: V);
    fn find(&self, key: &str) -> Option<&V>;
    /// Visits every entry; returns something that depends on each.
    fn visit(&self) -> usize;
    fn copy(&self) -> Self;

    fn of(keys: &[String]) -> Self {
        let mut object = Self::empty();
        for (n, key) in (0_i64..).zip(keys) {
            object.put(key, Value::from(n));
        }
        object
    }
}

/// What an entry adds to the result of a visit.
fn weigh(key: &str, value: &V) -> usize {
    key.len() + usize::from(value.is_null())
}

/// What was chosen.
impl Candidate for Object<'static> {
    fn empty() -> Self {
        Object::new()
    }

    fn put(&mut self, key: &str, value: V) {
        self.insert(key.to_owned(), value);
    }

    fn find(&self, key: &str) -> Option<&V> {
        self.get(key)
    }

    fn visit(&self) -> usize {
        self.iter().map(|(key, value)| weigh(key, value)).sum()
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}

/// Pairs without an index at any size.
impl Candidate for RVec<Tuple2<Str<'static>, V>> {
    fn empty() -> Self {
        RVec::new()
    }

    fn put(&mut self, key: &str, value: V) {
        match self.iter_mut().find(|pair| pair.0.as_str() == key) {
            Some(pair) => pair.1 = value,
            None => self.push(Tuple2(key.to_owned().into(), value)),
        }
    }

    fn find(&self, key: &str) -> Option<&V> {
        self.iter().find(|pair| pair.0.as_str() == key).map(|pair| &pair.1)
    }

    fn visit(&self) -> usize {
        self.iter().map(|pair| weigh(&pair.0, &pair.1)).sum()
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}

impl Candidate for RHashMap<RString, V> {
    fn empty() -> Self {
        RHashMap::new()
    }

    fn put(&mut self, key: &str, value: V) {
        self.insert(key.into(), value);
    }

    fn find(&self, key: &str) -> Option<&V> {
        self.get(key)
    }

    fn visit(&self) -> usize {
        self.iter().map(|pair| weigh(pair.0, pair.1)).sum()
    }

    fn copy(&self) -> Self {
        self.iter().map(|pair| (pair.0.clone(), pair.1.clone())).collect()
    }
}

/// The double box.
impl Candidate for RBox<RHashMap<RString, V>> {
    fn empty() -> Self {
        RBox::new(RHashMap::new())
    }

    fn put(&mut self, key: &str, value: V) {
        self.insert(key.into(), value);
    }

    fn find(&self, key: &str) -> Option<&V> {
        self.get(key)
    }

    fn visit(&self) -> usize {
        self.iter().map(|pair| weigh(pair.0, pair.1)).sum()
    }

    fn copy(&self) -> Self {
        RBox::new((**self).copy())
    }
}

/// halfbrown as a plugin would see it: behind a vtable.
#[sabi_trait]
pub(crate) trait Opaque {
    fn put(&mut self, key: RStr<'_>, value: V);
    fn find<'a>(&'a self, key: RStr<'_>) -> ROption<&'a V>;
    fn visit(&self) -> usize;
    fn copy(&self) -> OpaqueBox;
}

pub(crate) type OpaqueBox = Opaque_TO<'static, RBox<()>>;

impl Opaque for Halfbrown {
    fn put(&mut self, key: RStr<'_>, value: V) {
        self.insert(key.into(), value);
    }

    fn find<'a>(&'a self, key: RStr<'_>) -> ROption<&'a V> {
        self.get(key.as_str()).into()
    }

    fn visit(&self) -> usize {
        self.iter().map(|(key, value)| weigh(key, value)).sum()
    }

    fn copy(&self) -> OpaqueBox {
        boxed(self.clone())
    }
}

fn boxed(map: Halfbrown) -> OpaqueBox {
    Opaque_TO::from_value(map, abi_stable::sabi_trait::TD_Opaque)
}

impl Candidate for OpaqueBox {
    fn empty() -> Self {
        boxed(Halfbrown::new())
    }

    fn put(&mut self, key: &str, value: V) {
        Opaque_TO::put(self, key.into(), value);
    }

    fn find(&self, key: &str) -> Option<&V> {
        Opaque_TO::find(self, key.into()).into_option()
    }

    fn visit(&self) -> usize {
        Opaque_TO::visit(self)
    }

    fn copy(&self) -> Self {
        Opaque_TO::copy(self)
    }
}

/// halfbrown asked with hashes computed before.
pub(crate) struct KnownKey {
    map: Halfbrown,
}

impl KnownKey {
    pub(crate) fn of(keys: &[String]) -> Self {
        Self { map: Halfbrown::of(keys) }
    }

    pub(crate) fn hash(&self, key: &str) -> u64 {
        self.map.hasher().hash_one(key)
    }

    pub(crate) fn find(&self, hash: u64, key: &str) -> Option<&V> {
        self.map.raw_entry().from_key_hashed_nocheck(hash, key).map(|(_, value)| value)
    }
}

macro_rules! native {
    ($($map:ty),*) => {$(
        impl Candidate for $map {
            fn empty() -> Self {
                Self::default()
            }

            fn put(&mut self, key: &str, value: V) {
                self.insert(key.to_owned(), value);
            }

            fn find(&self, key: &str) -> Option<&V> {
                self.get(key)
            }

            fn visit(&self) -> usize {
                self.iter().map(|(key, value)| weigh(key, value)).sum()
            }

            fn copy(&self) -> Self {
                self.clone()
            }
        }
    )*};
}

native! {
    Halfbrown,
    std::collections::HashMap<String, V>,
    hashbrown::HashMap<String, V>,
    hashbrown::HashMap<String, V, RandomState>
}
