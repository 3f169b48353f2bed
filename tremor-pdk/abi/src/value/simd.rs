//! Conversion from and to values of the crate simd-json.
//!
//! The conversion from values of simd-json moves their text. A conversion through serde would copy the text, which
//! takes five times as many instructions. The conversion to values of simd-json uses serde. Both conversions fail for
//! values nested deeper than [`MAX_DEPTH`], because simd-json uses stack for each level. Binary data cannot be
//! converted to simd-json, because JSON has no binary data.

use simd_json::{BorrowedValue, OwnedValue};

use super::{Array, Object, Value, from_ref};
use crate::{
    document::{MAX_DEPTH, ValueRef},
    error::PluginError,
};

fn inner(depth: usize) -> Result<usize, PluginError> {
    let too_deep = || {
        PluginError::bad_data(format_args!("the value is nested deeper than {MAX_DEPTH} levels"))
    };
    depth.checked_sub(1).ok_or_else(too_deep)
}

macro_rules! from {
    ($($function:ident, $from:ident $(<$lifetime:lifetime>)?, $to:ty;)*) => {$(
        impl $(<$lifetime>)? TryFrom<$from $(<$lifetime>)?> for $to {
            type Error = PluginError;

            /// # Errors
            /// Returns an error of kind "bad data" if the value is nested deeper than [`MAX_DEPTH`].
            fn try_from(value: $from $(<$lifetime>)?) -> Result<Self, PluginError> {
                $function(value, MAX_DEPTH)
            }
        }

        fn $function $(<$lifetime>)? (value: $from $(<$lifetime>)?, depth: usize) -> Result<$to, PluginError> {
            Ok(match value {
                $from::Static(node) => node.into(),
                $from::String(text) => text.into(),
                $from::Array(elements) => {
                    let depth = inner(depth)?;
                    let mut array = Array::with_capacity(elements.len());
                    for element in *elements {
                        array.push($function(element, depth)?);
                    }
                    Value::Array(array)
                }
                $from::Object(entries) => {
                    let depth = inner(depth)?;
                    let mut object = Object::with_capacity(entries.len());
                    for (key, value) in *entries {
                        object.insert_nocheck(key, $function(value, depth)?);
                    }
                    Value::Object(object)
                }
            })
        }
    )*};
}

from! {
    from_owned, OwnedValue, Value<'static>;
    from_borrowed, BorrowedValue<'v>, Value<'v>;
}

macro_rules! into {
    ($($to:ty, $from:ty;)*) => {$(
        impl<'v> TryFrom<$from> for $to {
            type Error = PluginError;

            /// # Errors
            /// Returns an error of kind "bad data" if the value contains binary data or is nested too deeply.
            fn try_from(value: $from) -> Result<Self, PluginError> {
                from_ref(value).map_err(PluginError::bad_data)
            }
        }
    )*};
}

into! {
    OwnedValue, ValueRef<'v>;
    BorrowedValue<'v>, ValueRef<'v>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simd_json::{BorrowedValue, OwnedValue, json};

    use crate::{
        document::{self, Document, MAX_DEPTH, tests::any_value},
        error::ErrorKind,
        literal,
        value::{Array, Number, Value},
    };

    fn contains(value: &Value<'_>, is_searched: fn(&Value<'_>) -> bool) -> bool {
        let mut found = false;
        value.walk(|_, value| found |= is_searched(value));
        found
    }

    #[test]
    fn number_text_becomes_the_nearest_float() {
        let number = Value::Number(Number::new("0.30").unwrap());
        assert_eq!(OwnedValue::try_from(number.view()).unwrap(), json!(0.3));
    }

    proptest! {
        #[test]
        fn value_is_unchanged_by_simd_json(value in any_value()) {
            let (mut bytes, mut nodes) = Default::default();
            let root = document::write(&value, &mut bytes, &mut nodes).unwrap();
            for view in [value.view(), Document::new(&bytes, &nodes).root(root)] {
                let (owned, borrowed) = (OwnedValue::try_from(view), BorrowedValue::try_from(view));
                if contains(&value, |value| matches!(value, Value::Bytes(_))) {
                    prop_assert_eq!(owned.unwrap_err().kind(), ErrorKind::BAD_DATA);
                    prop_assert_eq!(borrowed.unwrap_err().kind(), ErrorKind::BAD_DATA);
                    continue;
                }
                let (owned, borrowed) = (owned.unwrap(), borrowed.unwrap());
                prop_assert_eq!(&OwnedValue::from(borrowed.clone()), &owned);
                if contains(&value, |value| matches!(value, Value::Number(_))) {
                    continue;
                }
                prop_assert_eq!(Value::try_from(borrowed).unwrap(), value.clone());
                prop_assert_eq!(Value::try_from(owned).unwrap(), value.clone());
            }
        }
    }

    #[test]
    fn text_is_borrowed_if_possible() {
        let value = literal!({ "a": "text" });
        let BorrowedValue::Object(entries) = value.view().try_into().unwrap() else { panic!() };
        let (key, text) = entries.iter().next().unwrap();
        assert!(matches!(key, std::borrow::Cow::Borrowed("a")));
        assert!(matches!(text, BorrowedValue::String(std::borrow::Cow::Borrowed("text"))));
    }

    #[test]
    fn too_deep_value_is_an_error_in_both_directions() {
        let mut theirs = json!(1);
        let mut ours = Value::from(1);
        for _ in 0..MAX_DEPTH {
            theirs = OwnedValue::from(vec![theirs]);
            ours = Value::Array(Array::from(vec![ours]));
        }
        assert_eq!(Value::try_from(theirs.clone()).unwrap(), ours);
        assert_eq!(OwnedValue::try_from(ours.view()).unwrap(), theirs);
        let (theirs, ours) =
            (OwnedValue::from(vec![theirs]), Value::Array(Array::from(vec![ours])));
        assert_eq!(Value::try_from(theirs).unwrap_err().kind(), ErrorKind::BAD_DATA);
        assert!(OwnedValue::try_from(ours.view()).is_err());
    }
}
