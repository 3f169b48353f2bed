//! Laws of equality, order and hash.

use std::{
    cmp::Ordering,
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use proptest::prelude::*;

use super::{any_value, document};
use crate::{
    document::Document,
    literal,
    value::{Number, Object, Value},
};

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn number(text: String) -> Value<'static> {
    Value::Number(Number::new(text).expect("a JSON number"))
}

/// Generates numbers that are close to one another, in all representations.
fn any_number() -> impl Strategy<Value = Value<'static>> {
    let anchors = [0, 1, -1, 1 << 53, i64::MAX, i64::MIN, (1 << 53) + 1];
    (prop::sample::select(anchors.to_vec()), -2_i64..3, 0_u8..9).prop_map(|(anchor, step, kind)| {
        let integer = anchor.wrapping_add(step);
        #[allow(clippy::cast_sign_loss, clippy::cast_precision_loss)]
        match kind {
            0 => Value::I64(integer),
            1 => Value::U64(integer as u64),
            2 => Value::F64(integer as f64),
            3 => number(format!("{integer}.0")),
            4 => number(format!("{integer}.00000E+0")),
            5 => number(format!("{integer}.500000000000000000001")),
            6 => number(format!("{:?}", integer as f64)),
            7 => number(format!("{:?}", integer as f64 + 0.5)),
            _ => Value::F64(integer as f64 + 0.5),
        }
    })
}

proptest! {
    #[test]
    fn order_of_values_is_total(
        values in prop::collection::vec(prop_oneof![any_number(), any_value()], 3)
    ) {
        let [a, b, c] = &values[..] else { unreachable!("the strategy generates three values") };
        prop_assert_eq!(a.cmp(b), b.cmp(a).reverse());
        prop_assert_eq!(a == b, a.cmp(b) == Ordering::Equal);
        if a <= b && b <= c {
            prop_assert!(a <= c, "{} {} {}", a, b, c);
        }
        if a == b && b == c {
            prop_assert!(a == c);
        }
        if a == b {
            prop_assert_eq!(hash(a), hash(b));
        }
        prop_assert_eq!(a, a);
    }

    #[test]
    fn document_and_value_have_the_same_order(a in any_value(), b in any_value()) {
        let (bytes, nodes, root) = document(&a);
        let view = Document::new(&bytes, &nodes).root(root);
        prop_assert_eq!(view, a.view());
        prop_assert_eq!(view.cmp(&b.view()), a.cmp(&b));
        prop_assert_eq!(hash(view), hash(&a));
    }

    #[test]
    fn order_of_keys_does_not_matter(value in any_value()) {
        fn reversed(value: &Value<'_>) -> Value<'static> {
            match value {
                Value::Object(object) => {
                    let mut entries: Vec<_> = object.iter().collect();
                    entries.reverse();
                    let entries = entries.into_iter().map(|(k, v)| (k.to_string(), reversed(v)));
                    Value::Object(entries.collect::<Object>())
                }
                Value::Array(array) => array.iter().map(reversed).collect(),
                other => other.clone().into_static(),
            }
        }
        let other = reversed(&value);
        prop_assert_eq!(&value, &other);
        prop_assert_eq!(value.cmp(&other), Ordering::Equal);
        prop_assert_eq!(hash(&value), hash(&other));
    }
}

#[test]
fn numbers_compare_by_decimal_value() {
    let ascending = [
        Value::F64(f64::NEG_INFINITY),
        Value::I64(i64::MIN),
        Value::F64(-1.5),
        Value::I64(-1),
        Value::F64(-0.0),
        Value::F64(f64::MIN_POSITIVE),
        Value::U64(1),
        Value::F64(9_007_199_254_740_992.0),
        Value::I64(9_007_199_254_740_993),
        Value::I64(i64::MAX),
        Value::U64(9_223_372_036_854_775_809),
        // This float is written as 9.223372036854776e18.
        Value::F64(9_223_372_036_854_775_808.0),
        Value::U64(9_223_372_036_854_776_001),
        Value::U64(u64::MAX),
        Value::F64(18_446_744_073_709_551_616.0),
        Value::F64(f64::INFINITY),
        Value::F64(f64::NAN),
    ];
    for (n, a) in ascending.iter().enumerate() {
        for (m, b) in ascending.iter().enumerate() {
            assert_eq!(a.cmp(b), n.cmp(&m), "{a:?} {b:?}");
        }
    }
    for (a, b) in [
        (Value::F64(-0.0), Value::I64(0)),
        (Value::F64(9_223_372_036_854_775_808.0), Value::U64(9_223_372_036_854_776_000)),
        (Value::F64(0.1), number("0.10".to_owned())),
        (Value::F64(1e300), number("1e300".to_owned())),
    ] {
        assert_eq!((&a, hash(&a)), (&b, hash(&b)));
    }
    assert!(Value::F64(0.1) < number("0.1000000000000000001".to_owned()));
    assert_eq!(hash(Value::F64(-0.0)), hash(Value::U64(0)));
    assert_eq!(Value::F64(f64::NAN), Value::F64(-f64::NAN));
    assert_eq!(hash(Value::F64(f64::NAN)), hash(Value::F64(-f64::NAN)));
}

#[test]
fn values_of_different_types_have_a_fixed_order() {
    let ascending = [
        literal!(null),
        literal!(false),
        literal!(true),
        literal!(7),
        literal!("text"),
        Value::from(&b"data"[..]),
        literal!([]),
        literal!([null]),
        literal!({}),
        literal!({ "a": 1 }),
        literal!({ "a": 1, "b": 0 }),
        literal!({ "a": 2 }),
        literal!({ "b": 0 }),
    ];
    assert!(ascending.is_sorted_by(|a, b| a < b));
}
