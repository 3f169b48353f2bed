//! The macro `literal!`.

/// Creates a [`Value`](crate::value::Value) from JSON syntax, with expressions as values and, in parentheses, as keys.
/// Expressions are converted with `From`.
///
/// ```
/// # use tremor_abi::literal;
/// let port = 514;
/// let config = literal!({
///     "host": "localhost",
///     "port": port + 1,
///     ("x-".to_owned() + "extra"): [null, true, { "nested": 1.5 }],
/// });
/// assert_eq!(
///     config.to_string(),
///     r#"{"host":"localhost","port":515,"x-extra":[null,true,{"nested":1.5}]}"#
/// );
/// ```
#[macro_export]
macro_rules! literal {
    // The elements of an array: the converted elements in brackets, followed by the remaining elements.
    (@array [$($done:expr,)*]) => {
        $crate::value::Value::Array($crate::value::Array::from(::std::vec![$($done,)*]))
    };
    (@array [$($done:expr,)*] null $(, $($rest:tt)*)?) => {
        $crate::literal!(@array [$($done,)* $crate::literal!(null),] $($($rest)*)?)
    };
    (@array [$($done:expr,)*] [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $crate::literal!(@array [$($done,)* $crate::literal!([$($inner)*]),] $($($rest)*)?)
    };
    (@array [$($done:expr,)*] {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $crate::literal!(@array [$($done,)* $crate::literal!({$($inner)*}),] $($($rest)*)?)
    };
    (@array [$($done:expr,)*] $next:expr $(, $($rest:tt)*)?) => {
        $crate::literal!(@array [$($done,)* $crate::literal!($next),] $($($rest)*)?)
    };

    // The entries of an object.
    (@object $object:ident) => {};
    (@object $object:ident $key:tt : null $(, $($rest:tt)*)?) => {
        let _ = $object.insert($crate::literal!(@key $key), $crate::literal!(null));
        $crate::literal!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        let _ = $object.insert($crate::literal!(@key $key), $crate::literal!([$($inner)*]));
        $crate::literal!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        let _ = $object.insert($crate::literal!(@key $key), $crate::literal!({$($inner)*}));
        $crate::literal!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        let _ = $object.insert($crate::literal!(@key $key), $crate::literal!($value));
        $crate::literal!(@object $object $($($rest)*)?);
    };

    (@key ($key:expr)) => { $key };
    (@key $key:literal) => { $key };

    (null) => { $crate::value::Value::Null };
    ([$($elements:tt)*]) => { $crate::literal!(@array [] $($elements)*) };
    ({$($entries:tt)*}) => {{
        #[allow(unused_mut)] // an empty object is not edited
        let mut object = $crate::value::Object::new();
        $crate::literal!(@object object $($entries)*);
        $crate::value::Value::Object(object)
    }};
    ($value:expr) => { $crate::value::Value::from($value) };
}

#[cfg(test)]
mod tests {
    use crate::value::Value;

    #[test]
    fn literal_creates_values_of_every_type() {
        let text = String::from("owned");
        let value = literal!({
            "null": null,
            "bool": true,
            "negative": -1,
            "float": 0.5,
            "text": text,
            "call": i64::from(3_u8),
            "array": [1, [], {}, null, "x",],
            "object": { "inner": { "deep": [null] } },
        });
        assert_eq!(
            value.to_string(),
            concat!(
                r#"{"null":null,"bool":true,"negative":-1,"float":0.5,"text":"owned","call":3,"#,
                r#""array":[1,[],{},null,"x"],"object":{"inner":{"deep":[null]}}}"#
            )
        );
    }

    #[test]
    fn literal_creates_scalar_without_container() {
        assert_eq!(literal!(null), Value::Null);
        assert_eq!(literal!("a"), Value::from("a"));
        assert_eq!(literal!([]), Value::array());
        assert_eq!(literal!({}), Value::object());
    }

    #[test]
    fn last_value_of_equal_keys_wins() {
        assert_eq!(literal!({ "a": 1, "a": 2 }).to_string(), r#"{"a":2}"#);
    }
}
