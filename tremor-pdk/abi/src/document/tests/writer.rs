//! Tests of the writer's methods and of duplicate keys.

use std::collections::HashMap;

use abi_stable::std_types::RVec;
use proptest::prelude::*;

use crate::{
    document::{Document, Node, NodeKind, ObjectRef, WriteError, Writer, validate, write},
    value::{Object, Value},
};

type Step = fn(&mut Writer<'_>);

fn written(steps: &[Step]) -> Result<String, WriteError> {
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    write("what was there before", &mut bytes, &mut nodes)?;
    let before = (bytes.clone(), nodes.clone());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    for step in steps {
        step(&mut writer);
    }
    let result = writer.finish();
    if result.is_err() {
        assert_eq!((bytes.clone(), nodes.clone()), before, "the buffers are unchanged");
    }
    let root = result?;
    assert_eq!(validate(&bytes, &nodes, root), Ok(()));
    assert_eq!(nodes.len() as u64, 1 + nodes[root as usize].span());
    Ok(Document::new(&bytes, &nodes).root(root).to_string())
}

#[test]
fn value_is_written_in_order() {
    let text = written(&[
        |w| w.begin_object(),
        |w| w.key("a"),
        |w| w.begin_array(),
        |w| w.i64(-1),
        |w| w.u64(1),
        |w| w.f64(f64::INFINITY),
        |w| w.bytes(b"hi!!"),
        |w| w.begin_array(),
        |w| w.end_array(),
        |w| w.end_array(),
        |w| w.key("b\n"),
        |w| w.bool(true),
        |w| w.end_object(),
    ]);
    assert_eq!(text.as_deref(), Ok(r#"{"a":[-1,1,null,"aGkhIQ==",[]],"b\n":true}"#));
}

#[test]
fn calls_that_form_no_value_are_rejected() {
    let cases: [&[Step]; 10] = [
        &[],
        &[|w| w.null(), |w| w.null()],
        &[|w| w.begin_array()],
        &[|w| w.end_array()],
        &[|w| w.begin_array(), |w| w.end_object()],
        &[|w| w.begin_object(), |w| w.null(), |w| w.end_object()],
        &[|w| w.key("a")],
        &[|w| w.begin_object(), |w| w.key("a"), |w| w.end_object()],
        &[|w| w.begin_object(), |w| w.key("a"), |w| w.key("b"), |w| w.null(), |w| w.end_object()],
        &[|w| w.begin_array(), |w| w.key("a"), |w| w.null(), |w| w.end_array()],
    ];
    for (n, steps) in cases.iter().enumerate() {
        assert!(matches!(written(steps), Err(WriteError::Misplaced(_))), "case {n}");
    }
}

#[test]
fn abandoned_value_leaves_buffers_unchanged() {
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.begin_array();
    writer.str("text");
    drop(writer);
    assert!(bytes.is_empty() && nodes.is_empty());
}

#[test]
fn unsigned_integers_have_one_form() {
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let root = write(&[7_u64, u64::MAX], &mut bytes, &mut nodes).expect("integers can be written");
    let kinds: Vec<_> = nodes[root as usize..].iter().map(Node::kind).collect();
    assert_eq!(kinds, [NodeKind::ARRAY, NodeKind::I64, NodeKind::U64]);
}

/// Generates many keys, few of them distinct, with values of different sizes.
fn entries() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    (1_usize..80).prop_flat_map(|distinct| {
        let key = (0..distinct).prop_map(|n| format!("key {n}"));
        prop::collection::vec((key, prop::collection::vec(any::<u8>(), 0..3)), 0..200)
    })
}

proptest! {
    #[test]
    fn last_value_of_equal_keys_replaces_the_first(entries in entries()) {
        let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
        let mut writer = Writer::new(&mut bytes, &mut nodes);
        writer.begin_object();
        for (key, elements) in &entries {
            writer.key(key);
            writer.begin_array();
            for element in elements {
                writer.u64(u64::from(*element));
            }
            writer.end_array();
        }
        writer.end_object();
        let root = writer.finish().expect("a flat object");
        prop_assert_eq!(validate(&bytes, &nodes, root), Ok(()));

        let expected: Object<'_> = entries
            .iter()
            .map(|(key, elements)| (key.as_str(), elements.iter().copied().collect::<Value<'_>>()))
            .collect();
        let found = Document::new(&bytes, &nodes).root(root).to_borrowed();
        let found = found.as_object().expect("an object");
        prop_assert!(found.iter().eq(expected.iter()), "{:?} {:?}", found, expected);
    }
}

#[test]
fn many_keys_take_linear_time() {
    let many: HashMap<String, usize> = (0..100_000).map(|n| (format!("key {n}"), n)).collect();
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let root = write(&many, &mut bytes, &mut nodes).expect("a large object");
    let view = Document::new(&bytes, &nodes).root(root);
    assert_eq!(view.as_object().map(ObjectRef::len), Some(100_000));
    assert_eq!(view, view.to_value());
}
