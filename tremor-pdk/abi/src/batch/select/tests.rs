use proptest::prelude::*;

use super::Selection;
use crate::{
    batch::Batch,
    literal,
    value::{Path, Value},
};

fn paths(texts: &[&str]) -> Vec<Path> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn selection(
    keep: Option<&[&str]>,
    drop: &[&str],
    rename: &[(&str, &str)],
) -> Result<Selection, String> {
    let rename: Vec<(Path, Path)> =
        rename.iter().map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap())).collect();
    Selection::new(keep.map(paths).as_deref(), &paths(drop), &rename)
        .map_err(|error| error.to_string())
}

/// Applies a selection to the event in both representations, checks that both results are equal, and returns the
/// result.
fn selected(selection: &mut Selection, event: &Value<'static>) -> Value<'static> {
    let mut batch = Batch::new();
    batch.push(&[1]).unwrap();
    for _ in 0..2 {
        batch.push(event).unwrap();
    }
    batch.value_mut(2).unwrap();
    for position in 1..3 {
        batch.select(position, selection).unwrap();
        batch.validate().unwrap();
    }
    let value = |position: usize| batch.value(&batch.events()[position]).unwrap();
    assert_eq!(value(0).to_string(), "[1]");
    assert_eq!(value(1).to_string(), value(2).to_string());
    value(1).to_value()
}

fn event() -> Value<'static> {
    literal!({
        "a": 1,
        "b": { "x": [1, { "y": 2 }], "y": "text", "z": {} },
        "c": "more text",
    })
}

#[test]
fn fields_are_kept_dropped_and_renamed() {
    for (keep, drop, rename, expected) in [
        (
            None,
            &[][..],
            &[][..],
            r#"{"a":1,"b":{"x":[1,{"y":2}],"y":"text","z":{}},"c":"more text"}"#,
        ),
        (Some(&["c", "a"][..]), &[], &[], r#"{"a":1,"c":"more text"}"#),
        (Some(&["b.y"]), &[], &[], r#"{"b":{"y":"text"}}"#),
        (Some(&["b.z", "b.no"]), &[], &[], r#"{"b":{"z":{}}}"#),
        (Some(&["b.no", "no", "a.no", "b.y.no"]), &[], &[], "{}"),
        (Some(&[]), &[], &[], "{}"),
        (Some(&["b", "b.x"]), &[], &[], r#"{"b":{"x":[1,{"y":2}],"y":"text","z":{}}}"#),
        (Some(&["b"]), &["b.x", "b.z"], &[], r#"{"b":{"y":"text"}}"#),
        (None, &["b", "a.no"], &[], r#"{"a":1,"c":"more text"}"#),
        (None, &["b.x", "b.y", "b.z"], &[], r#"{"a":1,"b":{},"c":"more text"}"#),
        (None, &["b"], &[("a", "d")], r#"{"c":"more text","d":1}"#),
        (None, &["b", "c"], &[("a", "c")], r#"{"c":1}"#),
        (None, &["b"], &[("a", "c"), ("c", "a")], r#"{"c":1,"a":"more text"}"#),
        (None, &["b"], &[("no", "a")], r#"{"a":1,"c":"more text"}"#),
        (Some(&["a"]), &[], &[("b.y", "y")], r#"{"a":1,"y":"text"}"#),
        (None, &["b"], &[("b.x", "x")], r#"{"a":1,"c":"more text","x":[1,{"y":2}]}"#),
        (
            Some(&["c"]),
            &[],
            &[("a", "n.m.a"), ("b.y", "n.y")],
            r#"{"c":"more text","n":{"m":{"a":1},"y":"text"}}"#,
        ),
        (None, &["b.x", "b.z"], &[("a", "b.a")], r#"{"b":{"y":"text","a":1},"c":"more text"}"#),
        (None, &["b"], &[("a", "c.a")], r#"{"c":{"a":1}}"#),
        (None, &["b"], &[("a", "b.a")], r#"{"b":{"a":1},"c":"more text"}"#),
        (Some(&[]), &[], &[("a", "b.z.a")], r#"{"b":{"z":{"a":1}}}"#),
        (None, &["c"], &[("b", "a")], r#"{"a":{"x":[1,{"y":2}],"y":"text","z":{}}}"#),
        (Some(&["c"]), &[], &[("b.x", "b")], r#"{"c":"more text","b":[1,{"y":2}]}"#),
        (
            Some(&[]),
            &[],
            &[("c", "z"), ("b.y", "n.y"), ("a", "e"), ("b.z", "n.a")],
            r#"{"z":"more text","n":{"y":"text","a":{}},"e":1}"#,
        ),
    ] {
        let mut selection = selection(keep, drop, rename).unwrap();
        let found = selected(&mut selection, &event()).to_string();
        assert_eq!(found, expected, "{keep:?} {drop:?} {rename:?}");
    }
}

#[test]
fn payload_that_is_not_an_object_is_an_error_and_unchanged() {
    let mut selection = selection(None, &["a"], &[]).unwrap();
    let mut batch = Batch::new();
    batch.push("text").unwrap();
    batch.push_message(b"{}");
    let error = batch.select(0, &mut selection).unwrap_err();
    assert_eq!(error.to_string(), "expected an object to select fields of, found text");
    assert!(batch.select(1, &mut selection).unwrap_err().to_string().ends_with("no value"));
    assert_eq!(batch.value(&batch.events()[0]).unwrap().as_str(), Some("text"));
}

#[test]
fn rename_to_too_deep_path_is_an_error_and_changes_nothing() {
    let deep = (0..511).fold(Value::from(1), |deep, _| Value::from(vec![deep]));
    for by_value in [false, true] {
        for (to, is_possible) in [("b", true), ("b.c", false)] {
            let mut batch = Batch::new();
            batch.push(&literal!({ "a": deep.clone() })).unwrap();
            if by_value {
                batch.value_mut(0).unwrap();
            }
            let mut selection = selection(None, &[], &[("a", to)]).unwrap();
            let done = batch.select(0, &mut selection);
            batch.validate().unwrap();
            assert_eq!(done.is_ok(), is_possible, "{to}");
            let value = batch.value(&batch.events()[0]).unwrap();
            assert!(value.get(if is_possible { "b" } else { "a" }).is_some(), "{to}");
        }
    }
}

#[test]
fn selection_leaves_clones_unchanged() {
    let mut selection = selection(Some(&["a"]), &[], &[]).unwrap();
    let mut batch = Batch::new();
    batch.push(&event()).unwrap();
    let other = batch.clone();
    batch.select(0, &mut selection).unwrap();
    assert_eq!(batch.value(&batch.events()[0]).unwrap().to_string(), r#"{"a":1}"#);
    assert_eq!(other.value(&other.events()[0]).unwrap(), event());
}

#[test]
fn contradictory_selection_is_rejected() {
    for (rename, expected) in [
        (&[("a", "x"), ("a.b", "y")][..], "`a` and `a.b` both are renamed"),
        (&[("a", "x"), ("b", "x")], "`x` and `x` both are new names"),
        (&[("a", "x.y"), ("b", "x")], "`x.y` and `x` both are new names"),
        (&[("", "x")], "found the whole event"),
        (&[("a", "x[0]")], "`x[0]`: expected the keys of a field, found an array's element"),
    ] {
        let error = selection(None, &[], rename).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// Generates objects with few different keys and little depth, so that random paths often lead to a field.
fn value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![Just(literal!(1)), Just(literal!("t")), Just(literal!([{ "a": 1 }]))];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop::collection::vec((key(), inner), 0..4).prop_map(|entries| {
            let mut object = Value::object();
            for (key, value) in entries {
                object.insert(key, value).unwrap();
            }
            object
        })
    })
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d"])
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(key(), 1..4).prop_map(|keys| keys.join("."))
}

/// Drops and renames fields of a tree, as the reference for a selection.
fn edited(event: &Value<'static>, drop: &[Path], rename: &[(Path, Path)]) -> Value<'static> {
    let mut edited = event.clone();
    let found: Vec<_> =
        rename.iter().map(|(from, to)| (event.get_path(from).cloned(), from, to)).collect();
    for path in drop.iter().chain(found.iter().map(|(_, from, _)| *from)) {
        edited.remove_path(path);
    }
    for (value, _, to) in found {
        let Some(value) = value else { continue };
        // Values on the new path that are not objects are removed.
        let text = to.to_string();
        for (end, _) in text.match_indices('.') {
            let way: Path = text[..end].parse().unwrap();
            if edited.get_path(&way).is_some_and(|value| value.as_object().is_none()) {
                edited.remove_path(&way);
            }
        }
        edited.set_path(to, value).unwrap();
    }
    edited
}

proptest! {
    #[test]
    fn dropping_and_renaming_equals_edits_of_a_tree(
        event in value().prop_filter("an object", |value| value.as_object().is_some()),
        drop in prop::collection::vec(path(), 0..4),
        rename in prop::collection::vec((path(), path()), 0..3),
    ) {
        let drop: Vec<Path> = drop.iter().map(|path| path.parse().unwrap()).collect();
        let rename: Vec<(Path, Path)> = rename
            .iter()
            .map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()))
            .collect();
        if let Ok(mut selection) = Selection::new(None, &drop, &rename) {
            prop_assert_eq!(selected(&mut selection, &event), edited(&event, &drop, &rename));
        }
    }

    #[test]
    fn selection_keeps_fields_at_its_paths(
        event in value().prop_filter("an object", |value| value.as_object().is_some()),
        keep in prop::collection::vec(path(), 0..4),
    ) {
        let keep: Vec<Path> = keep.iter().map(|path| path.parse().unwrap()).collect();
        let mut expected = Value::object();
        for path in &keep {
            if let Some(value) = event.get_path(path) {
                let whole = value.clone();
                let known = expected.get_path(path).is_some_and(|known| *known == whole);
                if !known {
                    let _ = expected.set_path(path, whole);
                }
            }
        }
        let mut selection = Selection::new(Some(&keep), &[], &[]).unwrap();
        prop_assert_eq!(selected(&mut selection, &event), expected);
    }
}
