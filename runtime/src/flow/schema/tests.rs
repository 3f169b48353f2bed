//! Compares the keys of the schema with the keys that the reader knows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::spec::keys;
use super::schema;

/// Returns the keys of the map at a JSON pointer.
fn keys_at(schema: &Value, pointer: &str) -> BTreeSet<String> {
    let properties = schema.pointer(pointer).and_then(|found| found["properties"].as_object());
    properties.unwrap_or_else(|| panic!("{pointer}")).keys().cloned().collect()
}

#[test]
fn schema_and_reader_know_the_same_keys() {
    let schema = schema(&[]);
    let connector = "/$defs/connector";
    for (pointer, known) in [
        (String::new(), keys::FLOW),
        (connector.to_owned(), keys::CONNECTOR),
        ("/$defs/pipeline".to_owned(), keys::PIPELINE),
        ("/$defs/retry".to_owned(), keys::RETRY),
        (format!("{connector}/properties/restart"), keys::RESTART),
        (format!("{connector}/properties/pull"), keys::PULL),
        (format!("{connector}/properties/queue"), keys::QUEUE),
        ("/$defs/codec/anyOf/2".to_owned(), keys::COMPONENT),
        ("/$defs/operator/anyOf/2".to_owned(), keys::COMPONENT),
    ] {
        let known: BTreeSet<_> = known.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(keys_at(&schema, &pointer), known, "{pointer}");
    }
}

#[test]
fn every_key_has_a_description() {
    let schema = schema(&[]);
    for pointer in ["", "/$defs/connector", "/$defs/pipeline", "/$defs/retry"] {
        let properties = schema.pointer(pointer).unwrap()["properties"].as_object().unwrap();
        for (key, about) in properties {
            assert!(about["description"].is_string(), "{pointer}/{key}");
        }
    }
}
