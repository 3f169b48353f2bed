//! stub
#![allow(missing_docs, unused)]
mod node;
use crate::value::Value;
pub use node::{Node, NodeKind, fingerprint};
pub struct Document<'a>(&'a [u8], &'a [Node]);
impl<'a> Document<'a> {
    pub fn new(b: &'a [u8], n: &'a [Node]) -> Self {
        Self(b, n)
    }
    pub fn root(&self, _i: u32) -> ValueRef<'a> {
        todo!()
    }
}
#[derive(Clone, Copy)]
pub struct ValueRef<'a>(&'a Value<'a>);
impl<'a> From<&'a Value<'static>> for ValueRef<'a> {
    fn from(v: &'a Value<'static>) -> Self {
        Self(v)
    }
}
impl<'a> ValueRef<'a> {
    pub fn to_value(&self) -> Value<'static> {
        todo!()
    }
    pub fn as_str(&self) -> Option<&'a str> {
        None
    }
}
pub struct Writer;
impl Writer {
    pub fn write_serialize(
        _b: &mut crate::ByteBuffer,
        _n: &mut crate::NodeBuffer,
        _v: &(impl serde::Serialize + ?Sized),
    ) -> Result<u32, String> {
        todo!()
    }
}
