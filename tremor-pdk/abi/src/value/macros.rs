//! `literal!`

/// A [`Value`](crate::value::Value) written as JSON, with expressions where values are and, in
/// parentheses, where keys are. Expressions are converted with `From`.
///
/// ```
/// use tremor_abi::literal;
///
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
    // Elements of an array: those done in brackets, then those to come.
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

    // Entries of an object.
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
    fn every_kind_can_be_written() {
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
    fn the_outermost_value_can_be_a_scalar() {
        assert_eq!(literal!(null), Value::Null);
        assert_eq!(literal!("a"), Value::from("a"));
        assert_eq!(literal!([]), Value::array());
        assert_eq!(literal!({}), Value::object());
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        assert_eq!(literal!({ "a": 1, "a": 2 }).to_string(), r#"{"a":2}"#);
    }
}
