use proptest::prelude::*;
use tremor_pdk::{
    Batch, Component, Part, Value, literal,
    testing::{HostBatch, TestHost},
};

use super::{Plan, Plans, replay};
use crate::{Config, Vrl, layout::Input};

/// Returns `None` if VRL's compiler rejects the program, which knows the types of some fields.
pub(crate) fn operator(source: &str) -> Option<Vrl> {
    let config = Config { source: Some(source.to_owned()), ..Config::default() };
    Vrl::new(config, TestHost::new().context()).ok()
}

pub(crate) fn batch(event: &Value<'static>, metadata: Option<&Value<'static>>) -> Batch {
    let mut batch = Batch::new();
    batch.push(event).unwrap();
    if let Some(metadata) = metadata {
        batch.get_mut(0).unwrap().set_metadata(metadata.clone());
    }
    batch
}

pub(crate) fn text(batch: &Batch) -> String {
    let event = batch.get(0).unwrap();
    let metadata = event.metadata().map(|it| it.to_string()).unwrap_or_default();
    format!("{} % {metadata}", event.value().unwrap())
}

/// Runs a program and applies its edits by a plan and to a tree. Returns the results, and whether one of the plans is a
/// tree.
fn both(
    source: &str,
    event: &Value<'static>,
    metadata: Option<&Value<'static>>,
) -> Option<([String; 2], bool)> {
    let mut operator = operator(source)?;
    let [mut planned, mut replayed] = [(); 2].map(|()| batch(event, metadata));
    let given = batch(event, metadata);
    let given = given.get(0).unwrap();
    assert!(
        operator.run(&Input::new(given.value().unwrap(), given.metadata())).is_ok(),
        "{source}"
    );
    let (layout, scratch) = (&operator.compiled.layout, &operator.scratch);
    let mut plans = Plans::default();
    // The plans are compiled for another event than the one that is compared.
    let mut other = batch(&literal!({ "a": 1, "n": { "m": [] } }), None);
    plans.apply(layout, scratch, &mut other.get_mut(0).unwrap()).unwrap();
    plans.apply(layout, scratch, &mut planned.get_mut(0).unwrap()).unwrap();
    planned.validate().unwrap();
    let mut event = replayed.get_mut(0).unwrap();
    for part in [Part::Payload, Part::Metadata] {
        if super::edits_of(layout, scratch, part).next().is_some() {
            replay(layout, scratch, &mut event, part);
        }
    }
    let is_tree =
        plans.0.iter().flat_map(|(_, plans)| plans).any(|plan| matches!(plan, Plan::Tree(_)));
    Some(([text(&planned), text(&replayed)], is_tree))
}

pub(crate) fn value(depth: u32) -> BoxedStrategy<Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::I64),
        "[a-z\"\\\\é]{0,6}".prop_map(Value::from),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let array = prop::collection::vec(value(depth - 1), 0..3).prop_map(Value::from);
    prop_oneof![2 => leaf, 1 => array, 4 => object(depth)].boxed()
}

pub(crate) fn object(depth: u32) -> BoxedStrategy<Value<'static>> {
    let fields = prop::collection::vec(("[abcx]", value(depth - 1)), 0..5);
    let object = fields.prop_map(|fields| {
        let mut object = tremor_pdk::Object::new();
        for (key, value) in fields {
            object.insert(key, value);
        }
        Value::Object(object)
    });
    object.boxed()
}

pub(crate) fn statement() -> impl Strategy<Value = String> {
    let path = prop_oneof![
        4 => prop::collection::vec("[abcx]", 1..4).prop_map(|keys| format!(".{}", keys.join("."))),
        2 => prop::collection::vec("[mnx]", 1..3).prop_map(|keys| format!("%{}", keys.join("."))),
    ];
    let written = prop_oneof![
        Just("1".to_owned()),
        Just("\"text\"".to_owned()),
        Just("null".to_owned()),
        Just("{\"b\": {\"c\": 2}, \"x\": []}".to_owned()),
        path.clone(),
    ];
    prop_oneof![
        6 => (path.clone(), written).prop_map(|(path, value)| format!("{path} = {value}")),
        3 => path.clone().prop_map(|path| format!("del({path})")),
        1 => path.clone().prop_map(|path| format!("del({path}, compact: true)")),
        1 => path.prop_map(|path| format!("if exists({path}) {{ .a = 3 }}")),
        1 => Just(". = {\"b\": 1, \"a\": {\"x\": true}}".to_owned()),
    ]
}

proptest! {
    #[test]
    fn plan_has_the_result_of_a_tree(
        event in value(3),
        metadata in prop::option::of(object(2)),
        statements in prop::collection::vec(statement(), 1..6),
    ) {
        let results = both(&statements.join("\n"), &event, metadata.as_ref());
        prop_assume!(results.is_some());
        let ([planned, replayed], _) = results.unwrap();
        prop_assert_eq!(planned, replayed);
    }
}

#[test]
fn edits_of_fields_need_no_tree() {
    let event = literal!({ "a": { "b": 1 }, "x": "text", "c": [1, 2] });
    for source in [
        ".class = \"x\"",
        ".a.b = 2\n.new.field = .x\ndel(.c)",
        ".a.x = 1\n.a = {\"y\": .a.x}",
        ". = {\"only\": .x}",
        "%class = .x\n%rate = 3",
        "%nested.class = .x\ndel(%rate)",
        ".c[0] = 5\n.class = \"x\"",
        ".tmp = {\"y\": 7}\n.z = .tmp.y\ndel(.tmp)",
    ] {
        let ([planned, replayed], is_tree) =
            both(source, &event, Some(&literal!({ "rate": 1 }))).unwrap();
        assert_eq!(planned, replayed, "{source}");
        assert!(!is_tree, "{source}");
    }
}

#[test]
fn edits_whose_order_matters_are_applied_in_order() {
    let event = literal!({ "a": { "b": 1 }, "x": "text" });
    for (source, expected) in [
        ("del(.a)\n.a.c = 1", r#"{"x":"text","a":{"c":1}} % "#),
        (".new.b = 1\ndel(.new.b)", r#"{"a":{"b":1},"x":"text","new":{}} % "#),
        ("del(.a.b, compact: true)", r#"{"x":"text"} % "#),
    ] {
        let ([planned, replayed], is_tree) = both(source, &event, None).unwrap();
        assert_eq!([&*planned, &*replayed], [expected, expected], "{source}");
        assert!(is_tree, "{source}");
    }
}

/// Runs a program on each event, and returns its plans.
fn plans_of(source: &str, events: impl Iterator<Item = Value<'static>>) -> Plans {
    let mut operator = operator(source).unwrap();
    let mut plans = Plans::default();
    for event in events {
        let mut batch = batch(&event, None);
        let given = batch.get(0).unwrap();
        assert!(operator.run(&Input::new(given.value().unwrap(), None)).is_ok());
        let mut event = batch.get_mut(0).unwrap();
        plans.apply(&operator.compiled.layout, &operator.scratch, &mut event).unwrap();
    }
    plans
}

#[test]
fn number_of_plans_is_limited() {
    let bits: Vec<_> = (0..9).map(|bit| 1 << bit).collect();
    let edit = |bit: &i32| format!("if mod(int!(.n) / {bit}, 2) >= 1 {{ .f{bit} = 1 }}\n");
    let source: String = bits.iter().map(edit).collect();
    let plans = plans_of(&source, (0..512).map(|number| literal!({ "n": number })));
    assert!(
        (super::SEQUENCES / 2..=super::SEQUENCES).contains(&plans.0.len()),
        "{}",
        plans.0.len()
    );
}

/// A program that edits in a loop makes another sequence of edits for each length of an array.
#[test]
fn long_sequence_of_edits_is_not_kept() {
    let source = "for_each(array!(.list)) -> |index, _item| { if mod(index, 2) == 0 { .a = index } else { .b = index } }";
    let list = |length| Value::from((0..length).map(Value::I64).collect::<Vec<_>>());
    let plans = plans_of(source, (1..200).map(|length| literal!({ "list": list(length) })));
    assert_eq!(plans.0.len(), super::LONGEST);
    assert!(plans.0.iter().all(|(edits, _)| edits.len() <= super::LONGEST));
}

#[test]
fn too_deep_edit_is_an_error_and_changes_nothing() {
    let deep = (0..511).fold(literal!({}), |deep, _| literal!({ "a": deep }));
    let event = literal!({ "deep": deep, "n": 1 });
    for (source, is_possible) in [
        (".n = 2\n%copy = .deep", true),
        (".n = 2\n%copy.x = .deep", false),
        (".n = 2\n%copy = {\"a\": .deep}", false),
        (".n = 2\n.copy = {\"a\": .deep.a.a}", true),
        (".n = 2\n.copy.x.y.z = .deep", false),
        ("del(.n)\n.n.copy = .deep", false),
    ] {
        let mut operator = operator(source).unwrap();
        let mut batch = batch(&event, None);
        let before = text(&batch);
        let given = batch.get(0).unwrap();
        assert!(operator.run(&Input::new(given.value().unwrap(), None)).is_ok());
        let mut plans = Plans::default();
        let (layout, scratch) = (&operator.compiled.layout, &operator.scratch);
        let applied = plans.apply(layout, scratch, &mut batch.get_mut(0).unwrap());
        batch.validate().unwrap();
        assert_eq!(applied.is_ok(), is_possible, "{source}");
        if let Err(error) = applied {
            assert_eq!(error.kind(), tremor_pdk::ErrorKind::BAD_DATA);
            assert!(error.to_string().contains("nested deeper than 512 levels"), "{error}");
            assert_eq!(text(&batch), before);
        }
    }
}
