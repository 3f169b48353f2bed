//! stub
use abi_stable::{StableAbi, std_types::RString};
/// stub
#[repr(C, u8)]
#[derive(StableAbi, Clone, Debug, PartialEq)]
pub enum Value<'v> {
    /// n
    Null,
    /// s
    String(RString),
    /// p
    P(std::marker::PhantomData<&'v ()>),
}
impl From<String> for Value<'static> {
    fn from(s: String) -> Self {
        Value::String(s.into())
    }
}
/// stub
pub type Object = Value<'static>;
/// stub
pub fn from_value<T: serde::de::DeserializeOwned>(_v: &Value<'_>) -> Result<T, String> {
    todo!()
}
