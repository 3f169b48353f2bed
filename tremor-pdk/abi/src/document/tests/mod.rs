//! Properties that documents and values have in common.

mod forged;
mod order;
mod serde;
mod writer;

use super::*;
use crate::value::{Array, Number, Object, Value};
use abi_stable::std_types::RVec;
use proptest::prelude::*;

/// Generates the text of any JSON number, including numbers that equal an integer or a float.
pub(crate) fn number_text() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?"
}

/// Generates any value, up to four levels deep.
pub(crate) fn any_value() -> impl Strategy<Value = Value<'static>> {
    let text = prop_oneof![3 => "[a-e]{0,3}", 1 => any::<String>()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..3).prop_map(Value::I64),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::U64),
        (-3_i32..3).prop_map(|n| Value::F64(f64::from(n) / 2.0)),
        any::<f64>().prop_map(Value::F64),
        number_text().prop_map(|text| Value::Number(Number::new(text).expect("a JSON number"))),
        text.clone().prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(|data| Value::Bytes(data.into())),
    ];
    leaf.prop_recursive(4, 64, 8, move |value| {
        prop_oneof![
            prop::collection::vec(value.clone(), 0..5)
                .prop_map(|values| Value::Array(Array::from(values))),
            prop::collection::vec((text.clone(), value), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Object>())),
        ]
    })
}

fn document(value: &Value<'_>) -> (RVec<u8>, RVec<Node>, u32) {
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.write_value(value.into());
    let root = writer.finish().expect("a value of moderate depth");
    (bytes, nodes, root)
}

proptest! {
    #[test]
    fn value_is_unchanged_in_a_document(value in any_value()) {
        let (bytes, nodes, root) = document(&value);
        prop_assert_eq!(validate(&bytes, &nodes, root), Ok(()));
        let view = Document::new(&bytes, &nodes).root(root);
        prop_assert_eq!(view, value.view());
        prop_assert_eq!(view.to_value(), value);
    }

    #[test]
    fn serialising_writes_the_same_document(value in any_value()) {
        let expected = document(&value);
        let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
        let root = write(&value, &mut bytes, &mut nodes);
        prop_assert_eq!(root, Ok(expected.2));
        prop_assert_eq!(bytes, expected.0);
        prop_assert_eq!(nodes, expected.1);
    }
}
