//! Round trips of types through serde.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    document::{MAX_DEPTH, WriteError},
    literal,
    value::{Number, Value, from_ref, from_value, to_value},
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
fn values_of_any_type_survive_a_round_trip() {
    let value = to_value(&config()).expect("a value that can be serialised");
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
fn representation_equals_that_of_serde_json() {
    let ours = to_value(&config()).expect("a value that can be serialised");
    let theirs = serde_json::to_value(config()).expect("a value that can be serialised");
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
    let event: Event<'_> = from_ref(value.view()).expect("an object with both fields");
    assert_eq!(
        Some(event.message.as_ptr()),
        value.get("message").and_then(Value::as_str).map(str::as_ptr)
    );
    assert_eq!(event.payload, [1, 2]);
}

#[test]
fn mismatch_names_the_reason() {
    let message = |value: Value<'_>| from_value::<Shape>(&value).map_err(|error| error.to_string());
    let cases = [
        (literal!(1), "invalid type: integer `1`, expected text or an object with one key"),
        (literal!(null), "invalid type: null, expected text or an object with one key"),
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

fn number(text: &str) -> Value<'static> {
    Value::Number(Number::new(text.to_owned()).expect("a JSON number"))
}

#[test]
fn integers_of_128_bits_stay_exact() {
    let value = to_value(&(i128::MIN, u128::MAX)).expect("a value that can be serialised");
    assert_eq!(value.get_idx(1).and_then(Value::as_number_text), Some(&*u128::MAX.to_string()));
    assert_eq!(from_value(&value), Ok((i128::MIN, u128::MAX)));
    assert!(from_value::<(i128, i128)>(&value).is_err());
    assert_eq!(from_value::<(i128, u128)>(&literal!([-1, 1])), Ok((-1, 1)));
}

#[test]
fn text_numbers_survive_in_value_fields_of_structs() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Event {
        amount: Value<'static>,
        all: Vec<Option<Value<'static>>>,
        #[serde(flatten)]
        others: BTreeMap<String, Value<'static>>,
    }
    let event = Event {
        amount: number("0.10"),
        all: vec![Some(number("1e400")), None],
        others: BTreeMap::from([("other".to_owned(), number("-0.30"))]),
    };
    let value = to_value(&event).expect("a value that can be serialised");
    assert_eq!(value.to_string(), r#"{"amount":0.10,"all":[1e400,null],"other":-0.30}"#);
    let read: Event = from_value(&value).expect("a value of the type");
    assert_eq!(read.amount.to_string() + &read.all[0].as_ref().unwrap().to_string(), "0.101e400");
    // For the attribute `flatten`, serde buffers values in a type of its own, which cannot represent text numbers.
    assert_eq!(read.others["other"], Value::F64(-0.3));
}

#[test]
fn text_number_is_converted_to_nearest_float_or_text() {
    let value = literal!([(number("0.10")), (number("-1e400")), (number("1e-400"))]);
    assert_eq!(serde_json::to_string(&value).unwrap(), r#"[0.1,"-1e400",0.0]"#);
    assert_eq!(from_value::<(f64, String, f64)>(&value), Ok((0.1, "-1e400".into(), 0.0)));
    assert_eq!(
        from_value::<serde_json::Value>(&value).unwrap().to_string(),
        r#"[0.1,"-1e400",0.0]"#
    );
    assert!(from_value::<i64>(&number("1e400")).is_err());
}

#[test]
fn accessors_convert_text_numbers() {
    use value_trait::ValueType::{Custom, F64};

    let seen = |text: &str| {
        let value = number(text);
        let (bytes, nodes, root) = super::document(&value);
        let view = crate::document::Document::new(&bytes, &nodes).root(root);
        let access = |view: crate::document::ValueRef<'_>| {
            (view.as_i64(), view.as_u64(), view.as_f64(), view.cast_f64(), view.value_type())
        };
        assert_eq!(access(view), access(value.view()));
        assert_eq!(view.as_number_text(), Some(text));
        assert!(view.as_str().is_none() && view.as_bytes().is_none() && !view.is_null());
        access(view)
    };
    let max = 18_446_744_073_709_551_616.0;
    assert_eq!(seen("18446744073709551616"), (None, None, Some(max), Some(max), F64));
    assert_eq!(seen("0.10"), (None, None, Some(0.1), Some(0.1), F64));
    assert_eq!(seen("1e400"), (None, None, None, None, Custom("number")));
    assert_eq!(seen("-7"), (Some(-7), None, Some(-7.0), Some(-7.0), F64));
    assert_eq!(f64::try_from(number("0.10")), Ok(0.1));
    assert!(f64::try_from(number("1e400")).is_err());
}

#[test]
fn only_json_numbers_become_number_nodes() {
    let (mut bytes, mut nodes) = Default::default();
    let mut writer = crate::document::Writer::new(&mut bytes, &mut nodes);
    writer.number("1,2");
    assert!(matches!(writer.finish(), Err(WriteError::Custom(_))));
    assert!((bytes.is_empty(), nodes.is_empty()) == (true, true) && Number::new("NaN").is_none());
}

#[test]
fn unrepresentable_data_is_rejected() {
    assert!(matches!(to_value(&BTreeMap::from([(vec![1], 1)])), Err(WriteError::Custom(_))));
    assert_eq!(to_value(&i128::from(u64::MAX)), Ok(Value::U64(u64::MAX)));

    let mut deep = serde_json::Value::Null;
    for _ in 0..MAX_DEPTH {
        deep = serde_json::Value::Array(vec![deep]);
    }
    assert!(to_value(&deep).is_ok());
    assert_eq!(to_value(&[deep]), Err(WriteError::TooDeep));
}
