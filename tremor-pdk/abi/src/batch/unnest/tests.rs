use serde_json::{Value as Json, json};

use super::Unnest;
use crate::{
    batch::{Batch, Output},
    literal,
    value::Path,
};

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

fn unnest(array: &str, to: &str) -> Unnest {
    Unnest::new(path(array), &path(to), false).unwrap()
}

/// Returns the events that leave by `out`, for each batch.
fn run(output: &mut Output, batch: &mut Batch, unnest: &mut Unnest) -> Vec<Vec<String>> {
    output.unnest(batch, unnest);
    let last = std::mem::take(batch);
    let all: Vec<Batch> = output.take_ports().map(|port| port.batch).chain([last]).collect();
    let text = |event: crate::batch::EventRef<'_>| {
        let metadata = event.metadata().map(|metadata| format!(" {metadata}")).unwrap_or_default();
        format!("{}{metadata}", event.value().unwrap())
    };
    all.iter()
        .map(|batch| {
            batch.validate().unwrap();
            batch.iter().map(text).collect()
        })
        .collect()
}

#[test]
fn element_takes_the_position_of_its_array() {
    let event = json!({ "id": 7, "list": [{ "n": 1 }, "two", []], "more": { "list": [3] } });
    for (array, to, expected) in [
        (
            "list",
            "list",
            &[
                r#"{"id":7,"list":{"n":1},"more":{"list":[3]}}"#,
                r#"{"id":7,"list":"two","more":{"list":[3]}}"#,
                r#"{"id":7,"list":[],"more":{"list":[3]}}"#,
            ][..],
        ),
        ("more.list", "item", &[r#"{"id":7,"list":[{"n":1},"two",[]],"more":{},"item":3}"#]),
        ("more.list", "more", &[r#"{"id":7,"list":[{"n":1},"two",[]],"more":3}"#]),
        (
            "list",
            "list.of",
            &[
                r#"{"id":7,"list":{"of":{"n":1}},"more":{"list":[3]}}"#,
                r#"{"id":7,"list":{"of":"two"},"more":{"list":[3]}}"#,
                r#"{"id":7,"list":{"of":[]},"more":{"list":[3]}}"#,
            ],
        ),
        ("list", "", &[r#"{"n":1}"#, r#""two""#, "[]"]),
    ] {
        for by_value in [false, true] {
            let mut batch = Batch::new();
            batch.push(&event).unwrap();
            if by_value {
                batch.value_mut(0).unwrap();
            }
            let mut output = Output::new();
            let batches = run(&mut output, &mut batch, &mut unnest(array, to));
            assert_eq!(batches, [expected.to_vec()], "{array} to {to}");
            assert_eq!(output.take_created(), expected.len() - 1);
        }
    }
}

#[test]
fn payload_that_is_an_array_is_unnested() {
    for (to, expected) in
        [("", ["1", r#"{"a":2}"#]), ("x.y", [r#"{"x":{"y":1}}"#, r#"{"x":{"y":{"a":2}}}"#])]
    {
        let mut batch = Batch::new();
        batch.push(&json!([1, { "a": 2 }])).unwrap();
        let batches = run(&mut Output::new(), &mut batch, &mut unnest("", to));
        assert_eq!(batches, [expected]);
    }
}

#[test]
fn other_events_are_rejected_or_pass_and_metadata_stays() {
    for passes in [false, true] {
        let mut batch = Batch::new();
        for event in [json!({ "a": [1, 2] }), json!({ "a": 1 }), json!({}), json!({ "a": [] })] {
            batch.push(&event).unwrap();
            let number = batch.len();
            batch.set_metadata(number - 1, literal!({ "n": number }));
        }
        batch.value_mut(1).unwrap();
        let mut output = Output::new();
        let mut unnest = Unnest::new(path("a"), &path("a"), passes).unwrap();
        let mut expected = vec![r#"{"a":1} {"n":1}"#, r#"{"a":2} {"n":1}"#];
        if passes {
            expected.extend([r#"{"a":1} {"n":2}"#, r#"{} {"n":3}"#]);
        }
        assert_eq!(run(&mut output, &mut batch, &mut unnest), [expected]);
        let errors: Vec<_> =
            output.take_rejected().iter().map(|rejected| rejected.error.to_string()).collect();
        let all = [
            "expected an array as `a`, found a number",
            "expected an array as `a`, found no such field",
        ];
        assert_eq!(errors, if passes { &all[..0] } else { &all[..] });
        assert_eq!((output.take_created(), output.take_discarded()), (1, 1));
    }
}

/// Text that events share counts for each of them, so one batch of all events would exceed the budget.
#[test]
fn batches_are_closed_before_the_validation_budget() {
    let text = "x".repeat(100_000);
    let mut batch = Batch::new();
    batch.push(&json!({ "text": text, "list": vec![Json::Null; 1_000] })).unwrap();
    batch.push(&json!({ "list": [0] })).unwrap();
    let mut output = Output::new();
    let batches = run(&mut output, &mut batch, &mut unnest("list", "list"));
    let lengths: Vec<_> = batches.iter().map(Vec::len).collect();
    assert_eq!(lengths.iter().sum::<usize>(), 1_001);
    assert!(lengths.iter().all(|length| *length <= 21) && lengths.len() < 60, "{lengths:?}");
    assert_eq!(output.take_created(), 999);
}

#[test]
fn event_that_would_take_too_much_memory_is_rejected() {
    let mut batch = Batch::new();
    batch.push(&json!({ "others": vec![0; 5_000], "list": vec![0; 5_000] })).unwrap();
    batch.push(&json!({ "list": [1] })).unwrap();
    let mut output = Output::new();
    let batches = run(&mut output, &mut batch, &mut unnest("list", "list"));
    assert_eq!(batches, [[r#"{"list":1}"#]]);
    let error = output.take_rejected()[0].error.to_string();
    assert!(error.starts_with("the events for 5000 elements take 400"), "{error}");
}

/// Each of the arrays alone is within the limits.
#[test]
fn events_of_a_call_that_take_too_much_memory_are_rejected() {
    let others = |to: &str| {
        let mut batch = Batch::new();
        for _ in 0..6 {
            batch.push(&json!({ "others": vec![0; 1_000], "list": vec![0; 1_000] })).unwrap();
        }
        let mut output = Output::new();
        output.unnest(&mut batch, &mut unnest("list", to));
        let memory = batch.flat_weight();
        (output.take_created(), output.take_rejected(), memory)
    };
    let (created, rejected, memory) = others("list");
    assert_eq!((created, rejected.len()), (4 * 999, 2));
    assert!(memory < 70 << 20, "{memory}");
    let error = rejected[0].error.to_string();
    assert!(error.contains("earlier events of the batch take 80"), "{error}");
    // Long keys count as well.
    let (created, rejected, memory) = others(&"k".repeat(10_000));
    assert_eq!((created, rejected.len()), (2 * 999, 4));
    assert!(memory < 70 << 20, "{memory}");
}

#[test]
fn event_whose_element_would_be_too_deep_is_rejected() {
    for (to, is_possible) in [("list", true), ("x.y", true), ("x.y.z", false)] {
        let deep = (0..509).fold(Json::from(vec![1]), |deep, _| Json::from(vec![deep]));
        let mut batch = Batch::new();
        batch.push(&json!({ "list": [1, deep] })).unwrap();
        batch.push(&json!({ "list": [2] })).unwrap();
        let mut output = Output::new();
        let batches = run(&mut output, &mut batch, &mut unnest("list", to));
        assert_eq!(batches[0].len(), if is_possible { 3 } else { 1 }, "{to}");
        let rejected = output.take_rejected();
        let error = rejected.first().map(|rejected| rejected.error.to_string());
        let expected = "cannot set a field: the event would be nested deeper than 512 levels";
        assert_eq!(error.as_deref(), (!is_possible).then_some(expected), "{to}");
    }
}

#[test]
fn indices_are_rejected() {
    assert!(Unnest::new(path("a[0]"), &path("b"), false).is_err());
    assert!(Unnest::new(path("a"), &path("b[0]"), false).is_err());
}
