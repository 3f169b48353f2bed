//! Anything that serialises, and back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    document::{MAX_DEPTH, WriteError},
    literal,
    value::{Value, from_ref, from_value, to_value},
};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    New(u8),
    Pair(i64, String),
    Named { wide: u64, absent: Option<bool> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Config {
    name: String,
    ratio: f32,
    tuple: (i8, char),
    shapes: Vec<Shape>,
    by_number: BTreeMap<u16, Option<u8>>,
    free: Value<'static>,
    #[serde(default)]
    missing: u8,
}

fn config() -> Config {
    Config {
        name: "größe".into(),
        ratio: 0.5,
        tuple: (-1, 'ß'),
        shapes: vec![
            Shape::Unit,
            Shape::New(7),
            Shape::Pair(-2, "x".into()),
            Shape::Named { wide: u64::MAX, absent: None },
        ],
        by_number: BTreeMap::from([(5, None)]),
        free: literal!({ "any": [null, 1.5] }),
        missing: 0,
    }
}

#[test]
fn types_survive_becoming_a_value() {
    let value = to_value(&config()).expect("it serialises");
    assert_eq!(
        value,
        literal!({
            "name": "größe",
            "ratio": 0.5,
            "tuple": [-1, "ß"],
            "shapes": [
                "Unit",
                { "New": 7 },
                { "Pair": [-2, "x"] },
                { "Named": { "wide": u64::MAX, "absent": null } },
            ],
            "by_number": { "5": null },
            "free": { "any": [null, 1.5] },
            "missing": 0,
        })
    );
    assert_eq!(from_value(&value), Ok(config()));
}

#[test]
fn the_representation_is_that_of_serde_json() {
    let ours = to_value(&config()).expect("it serialises");
    let theirs = serde_json::to_value(config()).expect("it serialises");
    assert_eq!(from_value::<serde_json::Value>(&ours), Ok(theirs.clone()));
    assert_eq!(to_value(&theirs), Ok(ours.clone()));
    assert_eq!(serde_json::from_value::<Value<'_>>(theirs).ok(), Some(ours));
}

#[test]
fn text_and_data_are_borrowed_from_the_view() {
    #[derive(Deserialize)]
    struct Event<'e> {
        message: &'e str,
        payload: &'e [u8],
    }
    let value = literal!({ "message": "hello", "payload": vec![1_u8, 2] });
    let event: Event<'_> = from_ref(value.view()).expect("it has both");
    assert_eq!(
        Some(event.message.as_ptr()),
        value.get("message").and_then(Value::as_str).map(str::as_ptr)
    );
    assert_eq!(event.payload, [1, 2]);
}

#[test]
fn what_does_not_fit_says_why() {
    let message = |value: Value<'_>| from_value::<Shape>(&value).map_err(|error| error.to_string());
    let cases = [
        (literal!(1), "invalid type: integer `1`, expected text or an object with one key"),
        (literal!({ "a": 1, "b": 2 }), "invalid value: map, expected an object with one key"),
        (literal!("New"), "invalid type: unit variant, expected a variant with a value"),
        (literal!({ "New": 256 }), "invalid value: integer `256`, expected u8"),
        (
            literal!({ "Pair": [1] }),
            "invalid length 1, expected tuple variant Shape::Pair with 2 elements",
        ),
        (literal!({ "Pair": [1, "a", 2] }), "invalid length 3, expected 2 elements"),
    ];
    for (value, expected) in cases {
        assert_eq!(message(value), Err(expected.to_owned()));
    }
}

#[test]
fn what_no_value_can_hold_is_refused() {
    assert!(matches!(to_value(&i128::MAX), Err(WriteError::Custom(_))));
    assert!(matches!(to_value(&BTreeMap::from([(vec![1], 1)])), Err(WriteError::Custom(_))));
    assert_eq!(to_value(&i128::from(u64::MAX)), Ok(Value::U64(u64::MAX)));

    let mut deep = serde_json::Value::Null;
    for _ in 0..MAX_DEPTH {
        deep = serde_json::Value::Array(vec![deep]);
    }
    assert!(to_value(&deep).is_ok());
    assert_eq!(to_value(&[deep]), Err(WriteError::TooDeep));
}
