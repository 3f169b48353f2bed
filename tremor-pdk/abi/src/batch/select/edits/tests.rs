use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::{Edits, Part};
use crate::{
    batch::Batch,
    literal,
    value::{Path, Value},
};

fn paths(texts: &[&str]) -> Vec<Path> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn edits(set: &[&str], remove: &[&str]) -> Edits {
    Edits::new(&paths(set), &paths(remove)).unwrap()
}

fn tree(value: &Json) -> Value<'static> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Applies edits to the payload and to the metadata, each in both representations, checks that all results are equal,
/// and returns the result.
fn edited(edits: &mut Edits, event: &Json, values: &[Option<Json>]) -> Result<String, String> {
    let mut batch = Batch::new();
    for _ in 0..2 {
        batch.push(event).unwrap();
        let last = batch.len() - 1;
        batch.write_metadata(last, |writer| writer.write_value(tree(event).view())).unwrap();
    }
    batch.value_mut(1).unwrap();
    batch.set_metadata(1, tree(event));
    let mut results = Vec::new();
    for position in 0..2 {
        for part in [Part::Payload, Part::Metadata] {
            let done = batch.get_mut(position).unwrap().edit(part, edits, |number, field| {
                if let Some(value) = &values[number] {
                    field.write(|writer| writer.write_value(tree(value).view()));
                }
            });
            batch.validate().unwrap();
            let event = batch.get(position).unwrap();
            let value = if part == Part::Payload { event.value() } else { event.metadata() };
            let text = done.map(|()| value.unwrap().to_string());
            results.push(text.map_err(|error| error.to_string().replace(" as metadata", "")));
        }
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    results.swap_remove(0)
}

#[test]
fn fields_are_set_in_place_added_and_removed() {
    let event = json!({ "a": 1, "b": { "x": [1], "y": "text" }, "c": "more" });
    let one = |value: Json| vec![Some(value)];
    for (set, remove, values, expected) in [
        (
            &["a"][..],
            &[][..],
            one(json!("new")),
            r#"{"a":"new","b":{"x":[1],"y":"text"},"c":"more"}"#,
        ),
        (&["d"], &["b"], one(json!([])), r#"{"a":1,"c":"more","d":[]}"#),
        (&["b.x"], &["b.y", "a"], one(json!(2)), r#"{"b":{"x":2},"c":"more"}"#),
        (
            &["b.z.z"],
            &["c"],
            one(json!(null)),
            r#"{"a":1,"b":{"x":[1],"y":"text","z":{"z":null}}}"#,
        ),
        (&["a.z"], &[], one(json!(0)), r#"{"a":{"z":0},"b":{"x":[1],"y":"text"},"c":"more"}"#),
        (&["b", "n.m"], &[], vec![Some(json!(0)), None], r#"{"a":1,"b":0,"c":"more"}"#),
        (
            &["a.b.c"],
            &["x", "b.x.y", "c.z"],
            vec![None],
            r#"{"a":1,"b":{"x":[1],"y":"text"},"c":"more"}"#,
        ),
        (&[], &["b.x", "b.y"], vec![], r#"{"a":1,"b":{},"c":"more"}"#),
        (&[""], &[], one(json!("all")), r#""all""#),
    ] {
        let result = edited(&mut edits(set, remove), &event, &values);
        assert_eq!(result.as_deref(), Ok(expected), "{set:?} {remove:?}");
    }
    // Fields of objects that are created have the order of the list too, without the fields that are not set.
    let mut ordered = edits(&["n.a", "z", "n.b", "y.q"], &["y.a", "n.c"]);
    let some = |value: u8| Some(json!(value));
    for (values, expected) in [
        ([some(1), some(2), some(3), some(4)], r#"{"n":{"a":1,"b":3},"z":2,"y":{"q":4}}"#),
        ([None, some(2), some(3), some(4)], r#"{"z":2,"n":{"b":3},"y":{"q":4}}"#),
        ([None, None, None, some(4)], r#"{"y":{"q":4}}"#),
    ] {
        let result = edited(&mut ordered, &json!({}), &values);
        assert_eq!(result.as_deref(), Ok(expected));
    }
    let error = edited(&mut edits(&["a"], &[]), &json!([1]), &one(json!(0))).unwrap_err();
    assert_eq!(error, "expected an object to edit fields of, found an array");
}

/// A value that is not an object has no fields, so there is nothing to remove.
#[test]
fn edits_that_set_nothing_leave_any_value_unchanged() {
    for value in [json!([1]), json!("text"), json!(null), json!({ "a": 1 })] {
        let result = edited(&mut edits(&["b", "c.d"], &["x", "a.z"]), &value, &[None, None]);
        assert_eq!(result, Ok(value.to_string()));
    }
    let mut batch = Batch::new();
    batch.push_message(b"undecoded");
    let done = batch.get_mut(0).unwrap().edit(Part::Payload, &mut edits(&[], &["a"]), |_, _| {});
    assert!(done.unwrap_err().to_string().ends_with("found no value"));
}

#[test]
fn values_are_copied_from_the_event_without_the_edits() {
    let mut batch = Batch::new();
    batch.push(&literal!({ "a": { "b": "text" }, "c": [1, { "d": 2 }] })).unwrap();
    let mut edits = edits(&["a", "new", "missing"], &["c"]);
    for by_value in [false, true] {
        let metadata = literal!({ "n": [7, "in"] });
        if by_value {
            batch.set_metadata(0, metadata);
        } else {
            batch.write_metadata(0, |writer| writer.write_value(metadata.view())).unwrap();
        }
        let before = batch.clone();
        let mut event = batch.get_mut(0).unwrap();
        let path = |text: &str| text.parse::<Path>().unwrap();
        event
            .edit(Part::Payload, &mut edits, |number, field| match number {
                0 => field.copy(Part::Payload, &path("c[1]")),
                1 => field.copy(Part::Metadata, &path("n")),
                _ => field.copy(Part::Payload, &path("nowhere")),
            })
            .unwrap();
        assert_eq!(event.value().unwrap().to_string(), r#"{"a":{"d":2},"new":[7,"in"]}"#);
        batch.validate().unwrap();
        batch = before;
    }
    let mut whole = super::Edits::new(&paths(&[""]), &[]).unwrap();
    let mut event = batch.get_mut(0).unwrap();
    let path = "a.b".parse::<Path>().unwrap();
    event.edit(Part::Payload, &mut whole, |_, field| field.copy(Part::Payload, &path)).unwrap();
    assert_eq!(event.value().unwrap().as_str(), Some("text"));
}

#[test]
fn metadata_is_created_and_removed_as_a_whole() {
    let mut batch = Batch::new();
    batch.push(&1).unwrap();
    let mut event = batch.get_mut(0).unwrap();
    let nothing = |_: usize, _: &mut super::FieldWriter<'_>| {};
    event.edit(Part::Metadata, &mut edits(&["a.b"], &["c"]), nothing).unwrap();
    assert!(event.get().metadata().is_none());
    let write = |_: usize, field: &mut super::FieldWriter<'_>| field.write(|writer| writer.u64(1));
    event.edit(Part::Metadata, &mut edits(&["a.b"], &[]), write).unwrap();
    assert_eq!(event.get().metadata().unwrap().to_string(), r#"{"a":{"b":1}}"#);
    event.edit(Part::Metadata, &mut edits(&[], &[""]), nothing).unwrap();
    assert!(event.get().metadata().is_none());
}

#[test]
fn too_deep_value_is_an_error_and_changes_nothing() {
    let mut deep = Value::from(1);
    for _ in 0..511 {
        deep = Value::from(vec![deep]);
    }
    let mut batch = Batch::new();
    batch.push(&literal!({ "a": deep.clone() })).unwrap();
    let bytes = batch.bytes().len();
    for (target, is_possible) in [("b", true), ("b.c", false)] {
        let mut event = batch.get_mut(0).unwrap();
        let from = "a".parse::<Path>().unwrap();
        let done = event.edit(Part::Payload, &mut edits(&[target], &[]), |_, field| {
            field.copy(Part::Payload, &from);
        });
        assert_eq!(done.is_ok(), is_possible, "{target}");
        batch.validate().unwrap();
    }
    assert_eq!(batch.bytes().len(), bytes + 1, "the key `b`");
    // Many values next to each other are not deep.
    let wide = Value::from(vec![Value::from(vec![1]); 600]);
    let mut event = batch.get_mut(0).unwrap();
    event
        .edit(Part::Payload, &mut edits(&["a"], &[]), |_, field| {
            field.write(|writer| writer.write_value(wide.view()));
        })
        .unwrap();
}

#[test]
fn growth_above_capacity_is_an_error_and_changes_nothing() {
    let mut batch = Batch::new();
    batch.push(&literal!({ "a": "x".repeat(100) })).unwrap();
    batch.write_metadata(0, |writer| writer.write_value(literal!({}).view())).unwrap();
    let from = "a".parse::<Path>().unwrap();
    for part in [Part::Payload, Part::Metadata] {
        let mut event = batch.get_mut(0).unwrap();
        let mut copy = |to: &str, capacity: &mut usize| {
            event.edit_within(part, &mut edits(&[to], &[]), capacity, |_, field| {
                field.copy(Part::Payload, &from);
            })
        };
        // A copy takes a key, a node and the text.
        let mut capacity = 2 * (1 + 100 + 2 * 16) + 1;
        copy("b", &mut capacity).unwrap();
        copy("c", &mut capacity).unwrap();
        assert_eq!(capacity, 1);
        let error = copy("d", &mut capacity).unwrap_err().to_string();
        assert!(error.contains("would grow by 133 bytes"), "{error}");
        copy("b", &mut capacity).unwrap();
        assert_eq!(capacity, 1);
        let event = batch.get(0).unwrap();
        let value = if part == Part::Payload { event.value() } else { event.metadata() }.unwrap();
        assert!(value.get("c").is_some() && value.get("d").is_none(), "{value}");
        batch.validate().unwrap();
    }
}

#[test]
fn overlapping_or_indexed_fields_are_rejected() {
    for (set, remove, expected) in [
        (&["a", "a.b"][..], &[][..], "both are edited"),
        (&["a.b"], &["a"], "both are edited"),
        (&["a[0]"], &[], "expected the keys of a field"),
        (&["", "a"], &[], "expected the keys of a field"),
    ] {
        let error = Edits::new(&paths(set), &paths(remove)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Sets a field of a JSON value as the documentation of [`Edits`] describes.
fn set(target: &mut Json, keys: &[&str], value: Json) {
    let Some((key, rest)) = keys.split_first() else {
        *target = value;
        return;
    };
    if !target.is_object() {
        *target = Json::Object(Map::new());
    }
    let object = target.as_object_mut().unwrap();
    set(object.entry(*key).or_insert(Json::Null), rest, value);
}

fn remove(target: &mut Json, keys: &[&str]) {
    let Some((key, rest)) = keys.split_first() else { return };
    let Some(object) = target.as_object_mut() else { return };
    match rest {
        [] => drop(object.remove(*key)),
        _ => {
            if let Some(inner) = object.get_mut(*key) {
                remove(inner, rest);
            }
        }
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<i32>().prop_map(Json::from),
        "[a-z]{0,8}".prop_map(Json::from)
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn edits_equal_those_of_a_tree(
        event in prop::collection::btree_map("[a-d]", any_json(), 0..4),
        fields in prop::collection::btree_map("[a-d](\\.[a-d]){0,2}", prop::option::of(any_json()), 0..4),
        removed in prop::collection::btree_set("[a-d](\\.[a-d]){0,2}", 0..3),
    ) {
        let event = Json::Object(event.into_iter().collect());
        let removed: Vec<&str> = removed.iter().map(String::as_str).collect();
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let Ok(mut edits) = Edits::new(&paths(&names), &paths(&removed)) else { return Ok(()) };
        let values: Vec<_> = fields.values().cloned().collect();
        let result = edited(&mut edits, &event, &values).unwrap();
        let mut expected = event;
        for path in removed {
            remove(&mut expected, &path.split('.').collect::<Vec<_>>());
        }
        for (path, value) in fields {
            if let Some(value) = value {
                set(&mut expected, &path.split('.').collect::<Vec<_>>(), value);
            }
        }
        let result: Json = serde_json::from_str(&result).unwrap();
        prop_assert_eq!(result, expected);
    }
}
