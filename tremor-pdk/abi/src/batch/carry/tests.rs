use std::collections::HashSet;

use super::{CarriedFields, LARGE};
use crate::{
    ByteBuffer,
    batch::{Batch, EventRef, Payload, Pool},
    error::PluginError,
    literal,
    value::Value,
};

fn fields(paths: &[&str]) -> CarriedFields {
    let fields = paths.iter().map(|path| ((*path).into(), path.parse().unwrap()));
    CarriedFields::new("template", fields, 10)
}

#[allow(clippy::unnecessary_wraps)] // the signature of an encoder
fn encode(payload: Payload<'_>, bytes: &mut ByteBuffer) -> Result<(), PluginError> {
    let text = match payload {
        Payload::Document { bytes, nodes, root, .. } => {
            crate::document::Document::new(bytes, nodes).root(root).to_string()
        }
        Payload::Value(value) => value.to_string(),
    };
    bytes.extend_from_copy_slice(text.as_bytes());
    Ok(())
}

/// Encodes the events and adds the fields to their metadata. Checks that the messages and the events stay the same.
/// Returns the metadata of each encoded event.
fn carried(batch: &mut Batch, fields: &CarriedFields) -> Vec<String> {
    let before = all_metadata(batch);
    let (mut encoded, rejected) = batch.encode_with(&Pool::new(1), encode);
    assert!(rejected.is_empty());
    let messages = |batch: &Batch| -> Vec<_> {
        batch
            .iter()
            .map(|event| (event.raw().unwrap().to_vec(), event.origin().map(str::to_owned)))
            .collect()
    };
    let expected = messages(&encoded);
    // The second time, the metadata of the events has the fields.
    for _ in 0..2 {
        encoded.carry(batch, &Pool::new(1), fields);
        encoded.validate().unwrap();
        assert_eq!(messages(&encoded), expected);
    }
    assert_eq!(all_metadata(batch), before, "the metadata of the events stays the same");
    let found = all_metadata(&encoded);
    // Messages that share the buffers of other batches, as small ones and as large ones.
    for payload in [1, 2 * LARGE] {
        let mut shared = Batch::new();
        shared.append(encoded.clone());
        for event in &mut shared.events {
            event.metadata = 0;
        }
        for (position, event) in batch.iter().enumerate() {
            if let Some(metadata) = event.metadata() {
                shared.set_metadata(position, metadata.to_value());
            }
        }
        let text = vec![b'x'; payload];
        let span = shared.append_bytes(&text).unwrap();
        shared.events.iter_mut().for_each(|event| event.payload = span);
        let clone = shared.clone();
        shared.carry(batch, &Pool::new(1), fields);
        shared.validate().unwrap();
        assert_eq!(all_metadata(&shared), found);
        assert!(payload < LARGE || shared.has_buffers_of(&clone));
        assert!(shared.iter().all(|event| event.raw() == Some(&text)));
    }
    found
}

fn all_metadata(batch: &Batch) -> Vec<String> {
    let text = |event| batch.metadata(event).map(|metadata| metadata.to_string());
    batch.events().iter().map(|event| text(event).unwrap_or_default()).collect()
}

#[test]
fn fields_of_documents_and_of_edited_values_are_added() {
    let mut batch = Batch::new();
    for _ in 0..2 {
        batch.push(&literal!({ "host": "a", "at": { "x": [1, "two"] }, "other": true })).unwrap();
    }
    batch.push(&literal!("text")).unwrap();
    *batch.value_mut(1).unwrap() = literal!({ "at": { "x": [1, 2.5] } });
    batch.set_origin("here");
    let found = carried(&mut batch, &fields(&["host", "at.x[1]", ""]));
    assert_eq!(
        found,
        [
            r#"{"template":{"host":"a","at.x[1]":"two","":{}}}"#,
            r#"{"template":{"at.x[1]":2.5,"":{}}}"#,
            r#"{"template":{"":"text"}}"#,
        ]
    );
}

#[test]
fn values_without_text_and_long_texts_are_left_out() {
    let mut batch = Batch::new();
    let number = |text: &str| Value::Number(crate::value::Number::new(text.to_owned()).unwrap());
    let value = literal!({
        "a": [1], "o": { "x": 1 }, "n": null, "b": true, "i": -1, "u": u64::MAX, "t": "0123456789",
        "long": "0123456789a", "d": number("1e400"), "ld": number("0.12345678901234567890123456789"),
    });
    batch.push(&value).unwrap();
    let names = ["a", "o", "n", "b", "i", "u", "t", "long", "d", "ld", "missing"];
    let found = carried(&mut batch, &fields(&names));
    let expected = concat!(
        r#"{"template":{"a":[],"o":{},"n":null,"b":true,"i":-1,"u":18446744073709551615,"#,
        r#""t":"0123456789","long":{"length":11},"d":1e400,"ld":{"length":31}}}"#
    );
    assert_eq!(found, [expected]);
}

#[test]
fn other_metadata_is_kept_and_old_fields_are_replaced() {
    let mut batch = Batch::new();
    for number in 0..6 {
        batch.push(&literal!({ "n": number })).unwrap();
    }
    batch.set_metadata(0, literal!({ "file": { "path": "x" } }));
    batch.events[1].metadata = batch.events[0].metadata;
    let written = literal!({ "a": "b", "template": { "n": "old", "x": ["y"] }, "c": ["d"] });
    batch.write_metadata(2, |writer| writer.write_value((&written).into())).unwrap();
    batch.events[3].metadata = batch.events[2].metadata;
    batch.set_metadata(4, literal!("text"));
    let found = carried(&mut batch, &fields(&["n"]));
    assert_eq!(
        found,
        [
            r#"{"file":{"path":"x"},"template":{"n":0}}"#,
            r#"{"file":{"path":"x"},"template":{"n":1}}"#,
            r#"{"a":"b","c":["d"],"template":{"n":2}}"#,
            r#"{"a":"b","c":["d"],"template":{"n":3}}"#,
            r#"{"template":{"n":4}}"#,
            r#"{"template":{"n":5}}"#,
        ]
    );
}

#[test]
fn events_with_same_values_share_metadata() {
    let mut batch = Batch::new();
    for host in ["a", "b", "a", "", "a longer name", "a longer name", "b"] {
        batch.push(&literal!({ "host": host })).unwrap();
    }
    batch.push(&literal!({ "host": "b" })).unwrap();
    batch.set_metadata(7, literal!({ "other": true }));
    let (mut encoded, _) = batch.encode_with(&Pool::new(1), encode);
    encoded.carry(&batch, &Pool::new(1), &fields(&["host"]));
    let ids: Vec<_> = encoded.iter().map(EventRef::metadata_id).collect();
    assert!(ids[0] == ids[2] && ids[1] == ids[6] && ids[4] == ids[5], "{ids:?}");
    let distinct: HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 5, "{ids:?}");
}

/// Otherwise each message would be copied once more.
#[test]
fn buffers_stay_shared_for_a_few_different_values() {
    for (count, is_shared) in [(1, true), (7, true), (8, false), (100, false)] {
        let mut batch = Batch::new();
        for number in 0..100 {
            batch.push(&literal!({ "n": number % count })).unwrap();
        }
        let (mut encoded, _) = batch.encode_with(&Pool::new(1), encode);
        let clone = encoded.clone();
        encoded.carry(&batch, &Pool::new(1), &fields(&["n"]));
        encoded.validate().unwrap();
        assert_eq!(encoded.has_buffers_of(&clone), is_shared, "{count}");
        let expected = |number| format!("{{\"template\":{{\"n\":{}}}}}", number % count);
        assert_eq!(all_metadata(&encoded), (0..100).map(expected).collect::<Vec<_>>());
        assert!(clone.iter().all(|event| event.metadata().is_none()));
    }
}

#[test]
fn more_values_than_are_remembered_are_those_of_their_events() {
    let mut batch = Batch::new();
    for number in 0..2_000_u32 {
        let host = format!("{}h{}", "x".repeat(number as usize % 12), number % 50);
        batch.push(&literal!({ "host": host, "n": number % 3 })).unwrap();
    }
    let expected: Vec<_> =
        batch.iter().map(|event| format!("{{\"template\":{}}}", event.value().unwrap())).collect();
    let (mut encoded, _) = batch.encode_with(&Pool::new(1), encode);
    let names = CarriedFields::new(
        "template",
        ["host", "n"].map(|path| (path.into(), path.parse().unwrap())),
        100,
    );
    encoded.carry(&batch, &Pool::new(1), &names);
    encoded.validate().unwrap();
    assert_eq!(all_metadata(&encoded), expected);
}
