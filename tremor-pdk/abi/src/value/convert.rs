//! From the types of std, and back.

use std::borrow::Cow;

use super::{Array, Bytes, Object, Str, Value};

macro_rules! from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl<'v> From<$from> for Value<'v> {
            #[inline]
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool => Bool,
    i8 => I64, i16 => I64, i32 => I64, i64 => I64,
    u8 => I64, u16 => I64, u32 => I64,
    f32 => F64, f64 => F64,
    &'v str => String, String => String, Cow<'v, str> => String, Str<'v> => String,
    &'v [u8] => Bytes, Cow<'v, [u8]> => Bytes, Bytes<'v> => Bytes,
    Array<'v> => Array, Vec<Value<'v>> => Array,
    Object<'v> => Object,
}

impl From<u64> for Value<'_> {
    /// [`Value::I64`] where it fits one, as in a document.
    #[inline]
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::U64(value), Self::I64)
    }
}

impl From<()> for Value<'_> {
    #[inline]
    fn from((): ()) -> Self {
        Self::Null
    }
}
