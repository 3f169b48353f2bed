//! Tests with invalid documents, which no [`Writer`](crate::document::Writer) creates.

use proptest::prelude::*;

use super::{any_value, document};
use crate::{
    document::{
        Budget, Document, Invalid, MAX_DEPTH, Node, NodeKind, Reason, Validator, ValueRef, Writer,
        fingerprint, read, validate,
    },
    value::Value,
};
use abi_stable::std_types::RVec;

/// Generates a node of any kind whose payload and length may refer to positions in or beyond the document.
fn any_node() -> impl Strategy<Value = Node> {
    let number = prop_oneof![4 => 0_u64..12, 1 => any::<u64>()];
    let len = prop_oneof![4 => 0_u32..6, 1 => any::<u32>()];
    (0_u8..13, len, number).prop_map(|(kind, len, number)| match kind {
        0 => Node::null(),
        1 => Node::bool(number & 1 == 1),
        2 => Node::u64(number),
        3 => Node::f64(f64::from_bits(number)),
        4 => Node::string(number, len),
        5 => Node::bytes(number, len),
        6 | 7 => Node::array(len, number),
        8 => Node::key(number, len, fingerprint(b"aaa")),
        9 => Node::number(number, len),
        10 => Node::of_kind(NodeKind(number.to_le_bytes()[0]), len, number),
        _ => Node::object(len, number),
    })
}

fn any_object() -> impl Strategy<Value = Value<'static>> {
    prop::collection::vec(("[ab\u{e4}]{1,2}", any_value()), 0..5).prop_map(|fields| {
        let mut object = crate::value::Object::new();
        for (key, value) in fields {
            object.insert(key, value);
        }
        Value::Object(object)
    })
}

/// Calls every reading method.
fn exhaust(view: ValueRef<'_>) {
    let copy = view.to_value();
    let _ = (view == copy.view(), view.cmp(&view), view.to_string(), view.value_type());
    let _ = (view.is_null(), view.as_bool(), view.as_i64(), view.as_u64(), view.cast_f64());
    let _ = (view.as_f64(), view.as_number_text());
    let _ = (view.as_str(), view.as_bytes(), view.get("aaa"), view.get_idx(2));
    let _ = (read::<Value<'_>>(view), serde_json::to_string(&view), hash(view));
    if let Some(array) = view.as_array() {
        assert!(array.iter().count() <= array.len());
    }
    if let Some(object) = view.as_object() {
        assert!(object.iter().count() <= object.len());
    }
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.write_value(view);
    if let Ok(root) = writer.finish() {
        assert_eq!(validate(&bytes, &nodes, root), Ok(()));
    }
}

fn hash(view: ValueRef<'_>) {
    std::hash::Hash::hash(&view, &mut std::collections::hash_map::DefaultHasher::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn reading_of_any_document_never_panics(
        bytes in prop::collection::vec(
            prop_oneof![3 => Just(b'a'), 1 => Just(b'1'), 1 => any::<u8>()], 0..20,
        ),
        nodes in prop::collection::vec(any_node(), 0..24),
        root in 0_u32..3,
    ) {
        let view = Document::new(&bytes, &nodes).root(root);
        exhaust(view);
        if let Ok(trusted) = Document::validated(&bytes, &nodes, root) {
            exhaust(trusted);
            prop_assert_eq!(trusted, view);
        }
    }

    #[test]
    fn ascii_check_of_whole_batch_does_not_change_results(
        bytes in prop::collection::vec(prop_oneof![6 => Just(b'a'), 1 => any::<u8>()], 0..8),
        pairs in prop::collection::vec((any_node(), any_node()), 0..3),
        start in 0_usize..10,
    ) {
        let len = u32::try_from(pairs.len()).unwrap();
        let mut nodes = vec![Node::object(len, 2 * u64::from(len) + 1)];
        nodes.extend(pairs.into_iter().flat_map(|(key, value)| [key, value]));
        let all_at_once = Validator::new(&bytes, start, Budget::new(0)).validate(&nodes, 0);
        prop_assert_eq!(all_at_once, validate(&bytes, &nodes, 0));
    }

    /// Copies a document, replaces or removes nodes of the copy, or inserts them, and corrects the root or not.
    #[test]
    fn check_of_edited_document_agrees_with_check_of_everything(
        (old, extra) in (any_object(), any_object()),
        changes in prop::collection::vec(
            (0_u8..5, any::<prop::sample::Index>(), any_node()), 0..4,
        ),
        corrects_root in any::<bool>(),
        len in prop::option::of(0_u32..8),
    ) {
        let (mut bytes, mut nodes, valid) = document(&old);
        let more = extra.view().copy_to(&mut bytes, &mut nodes).unwrap() as usize;
        let extra = nodes[more + 1..].to_vec();
        let mut new = nodes[valid as usize..more].to_vec();
        let mut pairs = i64::from(new[0].len());
        for (change, at, node) in changes {
            let at = at.index(new.len());
            match change {
                0 => new[at] = node,
                1 if new.len() > 1 => drop(new.remove(at)),
                2 => new.insert(at, node),
                3 => {
                    new.extend_from_slice(&extra);
                    pairs += i64::from(nodes[more].len());
                }
                _ if at + 2 < new.len() => {
                    new.drain(at + 1..at + 3);
                    pairs -= 1;
                }
                _ => {}
            }
        }
        if corrects_root {
            let pairs = len.unwrap_or_else(|| u32::try_from(pairs).unwrap_or(0));
            new[0] = Node::object(pairs, new.len() as u64);
        }
        let root = u32::try_from(nodes.len()).unwrap();
        nodes.extend(new);
        let budget = Budget::new(0);
        let mut edited = Validator::new(&bytes, bytes.len(), budget);
        let mut all = Validator::new(&bytes, bytes.len(), budget);
        prop_assert_eq!(edited.validate_edited(&nodes, root, valid), all.validate(&nodes, root));
        // A plugin may overwrite the nodes of the original, against the rules. The check then ends with any result.
        let _ = Validator::new(&bytes, 0, budget).validate_edited(&nodes, valid, root);
        if validate(&bytes, &nodes, root).is_ok() {
            prop_assert_eq!(format!("{:?}", edited.budget), format!("{:?}", all.budget));
        }
    }

    #[test]
    fn invalid_node_is_detected_or_harmless(
        value in any_value(),
        at in any::<prop::sample::Index>(),
        node in any_node(),
    ) {
        let (bytes, nodes, root) = document(&value);
        let mut nodes = nodes.to_vec();
        let at = at.index(nodes.len());
        nodes[at] = node;
        let view = Document::new(&bytes, &nodes).root(root);
        exhaust(view);
        if validate(&bytes, &nodes, root).is_ok() {
            let (bytes, nodes, root) = document(&view.to_value());
            prop_assert_eq!(validate(&bytes, &nodes, root), Ok(()));
        }
    }
}

#[test]
fn every_fault_has_its_reason() {
    let text = b"abc\xff";
    let key = Node::key(0, 3, fingerprint(b"abc"));
    let check = |nodes: &[Node]| {
        validate(text, nodes, 0).map_err(|Invalid { node, reason }| (node, reason))
    };
    let unknown = NodeKind(77);
    let cases: [(&[Node], usize, Reason); 17] = [
        (&[], 0, Reason::Missing),
        (&[Node::array(1, 1)], 1, Reason::Missing),
        (&[Node::array(1, 2), Node::array(0, 2), Node::null()], 1, Reason::Span),
        (&[Node::array(0, 2), Node::null()], 0, Reason::Span),
        (&[Node::array(0, 0)], 0, Reason::Span),
        (&[Node::array(1, u64::MAX)], 0, Reason::Span),
        (&[Node::string(4, 1)], 0, Reason::Range),
        (&[Node::bytes(u64::MAX, u32::MAX)], 0, Reason::Range),
        (&[Node::string(3, 1)], 0, Reason::Utf8),
        (&[Node::object(1, 3), Node::null(), Node::null()], 1, Reason::Key),
        (&[Node::object(1, 3), Node::string(0, 3), Node::null()], 1, Reason::Key),
        (&[Node::object(1, 2), key], 2, Reason::Missing),
        (&[key], 0, Reason::Content),
        (&[Node::object(2, 3), key, Node::null()], 3, Reason::Missing),
        (&[Node::number(0, 3)], 0, Reason::Number),
        (&[Node::number(3, 2)], 0, Reason::Range),
        (&[Node::of_kind(unknown, 3, 3)], 0, Reason::Kind(unknown)),
    ];
    for (nodes, node, reason) in cases {
        assert_eq!(check(nodes), Err((node, reason)), "{nodes:?}");
    }
    assert_eq!(check(&[Node::object(1, 3), key, Node::string(1, 2)]), Ok(()));
}

#[test]
fn values_after_an_unknown_kind_are_read() {
    let unknown = Node::of_kind(NodeKind(77), 3, u64::MAX);
    let nodes = [Node::array(3, 4), Node::i64(1), unknown, Node::i64(2)];
    let view = Document::new(b"", &nodes).root(0);
    assert_eq!(view.to_string(), "[1,null,2]");
    assert_eq!(view.get_idx(2).and_then(ValueRef::as_i64), Some(2));
    let text = validate(b"", &nodes, 0).unwrap_err().to_string();
    assert_eq!(text, "invalid document: node 2 has kind 77, which ABI 2.1 does not have");
    let key = Node::key(0, 1, fingerprint(b"a"));
    let after = Node::key(1, 1, fingerprint(b"b"));
    let nodes = [Node::object(2, 5), key, unknown, after, Node::i64(3)];
    let view = Document::new(b"ab", &nodes).root(0);
    assert_eq!(view.get("b").and_then(ValueRef::as_i64), Some(3));
}

#[test]
fn deep_nesting_ends_at_the_limit() {
    let nested = |levels: usize| -> Vec<Node> {
        let heads = (0..levels).map(|n| Node::array(1, (levels - n + 1) as u64));
        heads.chain([Node::bool(true)]).collect()
    };
    assert_eq!(validate(b"", &nested(MAX_DEPTH), 0), Ok(()));
    let deep = nested(100_000);
    let found = validate(b"", &deep, 0);
    assert_eq!(found, Err(Invalid { node: MAX_DEPTH, reason: Reason::Depth }));

    let view = Document::new(b"", &deep).root(0);
    exhaust(view);
    assert_eq!(view.to_string().matches('[').count(), MAX_DEPTH);
}

#[test]
fn nodes_with_wrong_spans_are_read_once() {
    let nodes = vec![Node::array(u32::MAX, 1); 64];
    exhaust(Document::new(b"", &nodes).root(0));
    let mut nodes = vec![Node::array(u32::MAX, u64::MAX); 64];
    exhaust(Document::new(b"", &nodes).root(0));
    nodes.fill(Node::object(u32::MAX, 1));
    exhaust(Document::new(b"", &nodes).root(0));
}

#[test]
fn text_of_unknown_origin_is_checked_when_read() {
    let nodes = [Node::string(0, 1)];
    let view = Document::new(b"\xff", &nodes).root(0);
    assert_eq!(view.as_str(), None);
    assert!(view.is_null());
}
