//! Tests of the faults that the validation of a batch detects, and of the cost of the validation.

use proptest::prelude::*;

use super::{Batch, Claims, Event, Mark, PayloadKind};
use crate::{
    batch::{Span, event::IN_NODES},
    document::{Node, NodeKind, visits},
    error::{ErrorKind, PluginError},
    literal,
    value::{Number, Value},
};

#[test]
fn batch_filled_with_batch_methods_is_valid() {
    let mut batch = Batch::new();
    batch.stream(1).push_message(b"raw");
    batch.stream(1).push(&["a", "b"]).unwrap();
    batch.set_metadata(1, Value::from("known".to_owned()));
    batch.set_origin("here");
    batch.stream(1).end();
    batch.value_mut(1).unwrap();
    batch.validate().unwrap();
}

#[test]
fn forged_batch_is_an_error_that_names_the_event() {
    let refused = |forge: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        batch.stream(1).push_message(b"raw");
        batch.stream(1).push(&["a", "b"]).unwrap();
        forge(&mut batch);
        let error = batch.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::INTERNAL);
        error.to_string()
    };
    let outside = Span { start: u32::MAX, len: 2 };
    let text = refused(&|batch| batch.events[0].payload = outside);
    assert!(text.starts_with("event 0 "), "{text}");
    let text = refused(&|batch| batch.events[1].payload = outside);
    assert!(text.contains("node 4294967295 does not exist"), "{text}");
    refused(&|batch| batch.events[0].original = outside);
    refused(&|batch| batch.events[1].kind = PayloadKind::VALUE);
    refused(&|batch| batch.events[1].kind = PayloadKind(77));
    refused(&|batch| batch.events[1].metadata = 1);
    let text = refused(&|batch| batch.events[1].metadata = u32::MAX);
    assert!(text.contains("has metadata that is an invalid document"), "{text}");
    refused(&|batch| batch.events[1].origin = 9);
}

#[test]
fn new_contents_after_a_mark_are_validated() {
    let mut batch = Batch::new();
    for number in 0..4 {
        batch.stream(number).push(&["a", "b"]).unwrap();
    }
    let mut mark = Mark::default();
    batch.mark(&mut mark);
    batch.validate_changes(&mark).unwrap();

    batch.events.swap(0, 3);
    batch.events.truncate(3);
    batch.stream(9).push(&[1]).unwrap();
    batch.write_metadata(1, |writer| writer.str("new")).unwrap();
    *batch.value_mut(2).unwrap() = Value::from(1);
    batch.validate_changes(&mark).unwrap();

    let new = batch.events[3].payload.start as usize;
    let (_, nodes) = batch.buffers_mut();
    nodes[new] = Node::array(u32::MAX, u32::MAX.into());
    let error = batch.validate_changes(&mark).unwrap_err();
    assert!(error.to_string().starts_with("event 3 "), "{error}");
}

/// Applies a change to a batch that a plugin may make, or a change that it must not make. The numbers select the event
/// and the change.
fn edit(batch: &mut Batch, (edit, event, number): (u8, usize, u32)) {
    let count = batch.len();
    if count == 0 {
        return batch.push_message(b"one more");
    }
    let position = event % count;
    match edit {
        0 => batch.events.swap(0, position),
        1 => drop(batch.events.remove(position)),
        2 => batch.stream(7).push(&literal!({ "new": [number] })).unwrap(),
        3 => batch.write_metadata(position, |writer| writer.str("\u{e4}")).unwrap(),
        4 => batch
            .write_metadata(position, |writer| {
                writer.begin_object();
                writer.key("rate");
                writer.u64(number.into());
                writer.end_object();
            })
            .unwrap(),
        5 => batch.set_metadata(position, Value::from(number)),
        6 => drop(batch.value_mut(position).map(|value| *value = Value::from(number))),
        7 => batch.set_origin_from(position, "elsewhere"),
        8 => *batch = batch.clone(),
        9 => batch.events.push(batch.events[position]),
        15 => batch
            .write_metadata(position, |writer| {
                writer.write_value((&literal!({ "a": { "n": number, "t": "x" }, "b": {} })).into());
            })
            .unwrap(),
        16 => {
            // A source sets the metadata of a stream, and an operator adds a key to this metadata.
            let write = |writer: &mut crate::document::Writer<'_>| {
                writer.key("added");
                writer.u64(number.into());
            };
            let origin = crate::batch::Origin::new("peer", |writer| {
                writer.write_value((&literal!({ "peer": { "port": number } })).into());
            });
            batch.apply_origin(position, &origin);
            batch.extend_metadata(position, write).unwrap();
        }
        // A plugin must not make the following changes.
        10 => batch.events[position].payload.start = number,
        11 => batch.events[position].kind = PayloadKind(number.to_le_bytes()[0]),
        12 => batch.events[position].metadata = number,
        13 => batch.events[position].origin = number,
        14 => batch.events[position].original = Span { start: number, len: 4 },
        _ => {
            let node = *batch.nodes().last().unwrap_or(&Node::null());
            batch.buffers_mut().1.push(Node::object(number, node.payload()));
            let root = u32::try_from(batch.nodes().len() - 1).unwrap();
            batch.events[position].metadata = (root + 1) | IN_NODES;
        }
    }
}

proptest! {
    #[test]
    fn check_of_changes_agrees_with_check_of_everything(
        edits in prop::collection::vec(
            (0_u8..18, 0_usize..9, prop_oneof![3 => 0_u32..40, 1 => any::<u32>()]), 0..12,
        ),
    ) {
        let mut batch = Batch::new();
        for number in 0..3 {
            batch.stream(number).push_message(b"raw");
            batch.stream(number).push(&literal!({ "number": number })).unwrap();
            batch.write_metadata(batch.len() - 1, |writer| writer.str("known")).unwrap();
        }
        batch.set_origin_from(2, "here");
        batch.value_mut(3).unwrap();
        batch.stream(2).end();
        let mut mark = Mark::default();
        batch.mark(&mut mark);
        for change in edits {
            edit(&mut batch, change);
            let (changes, all) = (batch.validate_changes(&mark), batch.validate());
            prop_assert_eq!(changes.is_ok(), all.is_ok(), "{:?} and {:?}", changes, all);
        }
    }
}

#[test]
fn forged_metadata_of_a_source_is_detected() {
    let metadata =
        literal!({ "peer": { "address": "::1", "port": 7 }, "none": {}, "a": { "b": true } });
    let mut batch = Batch::new();
    batch.push_message(b"x");
    batch.write_metadata(0, |writer| writer.write_value((&metadata).into())).unwrap();
    batch.validate().unwrap();
    for at in 0..batch.nodes().len() {
        let node = batch.nodes()[at];
        for forged in [
            Node::null(),
            Node::object(node.len(), node.payload().wrapping_add(1)),
            Node::object(node.len() + 1, node.payload()),
            Node::object(node.len() + 1, node.payload().wrapping_add(2)),
            Node::array(node.len(), node.payload()),
            Node::string(node.payload(), node.len()),
            Node::string(u64::MAX, node.len()),
            Node::key(node.payload(), node.len(), node.fingerprint() ^ 1),
            node,
        ] {
            batch.buffers_mut().1[at] = forged;
            let expected = crate::document::validate(batch.bytes(), batch.nodes(), 0);
            assert_eq!(batch.validate().is_ok(), expected.is_ok(), "node {at}: {forged:?}");
        }
    }
}

/// Creates a batch with `count` copies of the event that `write` appends. All copies refer to the same contents.
fn sharing(count: usize, write: impl FnOnce(&mut Batch)) -> Batch {
    let mut batch = Batch::new();
    write(&mut batch);
    let event = batch.events[0];
    batch.events.extend((1..count).map(|_| event));
    batch
}

/// Appends an array of `nodes - 1` nulls.
fn array(batch: &mut Batch, nodes: u32) {
    let root = u32::try_from(batch.nodes().len()).unwrap();
    let (_, buffer) = batch.buffers_mut();
    buffer.push(Node::array(nodes - 1, nodes.into()));
    buffer.extend((1..nodes).map(|_| Node::null()));
    batch.events.push(Event::new(
        PayloadKind::DOCUMENT,
        crate::batch::EventFlags(0),
        Span { start: root, len: 0 },
        0,
    ));
}

fn visited<T>(check: impl FnOnce() -> T) -> (T, usize) {
    let before = visits::NODES.get();
    let result = check();
    (result, visits::NODES.get() - before)
}

#[track_caller]
fn assert_exceeded(result: Result<Claims, PluginError>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::INTERNAL);
    let text = error.to_string();
    assert!(text.contains("exceeds the limit of 16777216 bytes"), "{text}");
    assert!(text.contains("emit the events in several batches"), "{text}");
}

#[test]
fn budget_counts_shared_documents_for_each_event() {
    let nested = sharing(2_000, |batch| array(batch, 100_000));
    let flat = sharing(2_000, |batch| {
        let object: crate::value::Object<'_> =
            (0..50_000).map(|number| (number.to_string(), number)).collect();
        batch.push(&Value::Object(object)).unwrap();
    });
    for batch in [nested, flat] {
        let weight = batch.weight();
        assert!(weight < 4 << 20, "{weight}");
        let (result, visits) = visited(|| batch.validate());
        assert_exceeded(result);
        assert!(visits <= 1_100_000, "{visits}");
        // The limit also holds if the events are new in a batch that already contains the document.
        let mut mark = Mark::default();
        let mut known = batch.clone();
        known.events.truncate(1);
        known.validate().unwrap();
        known.mark(&mut mark);
        let (result, visits) = visited(|| batch.validate_changes(&mark));
        assert_exceeded(result);
        assert!(visits <= 1_100_000, "{visits}");
    }
}

#[test]
fn budget_counts_shared_metadata_of_neighbours_once() {
    let mut batch = Batch::new();
    batch.push_message(b"x");
    for root in 0..2 {
        let large: Value<'_> = (0..50_000).collect();
        batch.write_metadata(0, |writer| writer.write_value(large.view())).unwrap();
        if root == 0 {
            batch.events.push(batch.events[0]);
        }
    }
    let [first, second] = [batch.events[1], batch.events[0]];
    batch.events = (0..100).map(|number| if number < 50 { first } else { second }).collect();
    let (result, visits) = visited(|| batch.validate());
    assert_eq!((result.is_ok(), visits), (true, 100_002));
    batch.events = (0..100).map(|number| if number % 2 == 0 { first } else { second }).collect();
    assert_exceeded(batch.validate());
}

#[test]
fn budget_counts_shared_text_for_each_node() {
    let mut batch = Batch::new();
    let text = "\u{e4}".repeat(1 << 19);
    let nodes = 1 + 1_000;
    array(&mut batch, nodes);
    let (bytes, list) = batch.buffers_mut();
    bytes.extend_from_copy_slice(text.as_bytes());
    list.iter_mut().skip(1).for_each(|node| *node = Node::string(0, 1 << 20));
    let (result, visits) = visited(|| batch.validate());
    assert_exceeded(result);
    assert!(visits < 20, "{visits}");
}

#[test]
fn budget_counts_shared_bytes_for_each_event() {
    let raw = sharing(2_000, |batch| batch.push_message(&[b'x'; 10_000]));
    assert_exceeded(raw.validate());
    let original = sharing(2_000, |batch| {
        batch.push_message(&[b'x'; 10_000]);
        batch.decode_with(|_, nodes, _| {
            nodes.push(Node::null());
            Ok(0)
        });
    });
    assert_exceeded(original.validate());
    let value = sharing(2_000, |batch| {
        batch.push(&1).unwrap();
        *batch.value_mut(0).unwrap() = literal!("x".repeat(10_000));
    });
    assert_exceeded(value.validate());
    let metadata = {
        let mut batch = sharing(2_000, |batch| batch.push_message(b"x"));
        batch.set_metadata(0, literal!("x".repeat(10_000)));
        batch.set_metadata(1, literal!("x".repeat(10_000)));
        for position in 2..batch.len() {
            batch.events[position].metadata = batch.events[position % 2].metadata;
        }
        batch
    };
    assert_exceeded(metadata.validate());
}

#[test]
fn budget_grows_with_the_batch() {
    let mut batch = Batch::new();
    for _ in 0..3 {
        array(&mut batch, 100_000);
    }
    let (result, visits) = visited(|| batch.validate());
    assert_eq!((result.is_ok(), visits), (true, 300_000));
    let twice = batch.events.to_vec();
    batch.events.extend(twice);
    batch.validate().unwrap();
    for _ in 0..2 {
        let twice = batch.events.to_vec();
        batch.events.extend(twice);
    }
    assert!(batch.validate().is_err());
}

/// Writes a value into the nodes of a batch, and makes the value the origin of the event at `position`.
fn origin_in_nodes(batch: &mut Batch, position: usize, origin: &Value<'_>) {
    let (bytes, nodes) = batch.buffers_mut();
    let root = crate::document::write(origin, bytes, nodes).unwrap();
    batch.events[position].origin = (root + 1) | IN_NODES;
}

#[test]
fn origin_in_nodes_is_valid_and_copied() {
    let mut batch = Batch::new();
    batch.push_message(b"one");
    batch.push(&literal!({ "a": 1 })).unwrap();
    batch.push_message(b"three");
    let mut mark = Mark::default();
    batch.mark(&mut mark);
    for position in 0..2 {
        origin_in_nodes(&mut batch, position, &literal!("here"));
    }
    batch.validate().unwrap();
    batch.validate_changes(&mark).unwrap();
    batch.mark(&mut mark);
    batch.validate_changes(&mark).unwrap();
    let origins = |batch: &Batch| -> Vec<Option<String>> {
        let origin = |event| batch.origin(event).map(str::to_owned);
        batch.events().iter().map(origin).collect()
    };
    let expected = [Some("here".to_owned()), Some("here".to_owned()), None];
    assert_eq!(origins(&batch), expected);
    // Every method that copies events also copies their origins.
    let mut appended = Batch::new();
    appended.push_message(b"before");
    appended.set_origin("there");
    appended.append(batch.clone());
    appended.validate().unwrap();
    assert_eq!(origins(&appended)[1..], expected);
    assert_eq!(origins(&batch.pick(&[2, 1, 0]))[1..], expected[..2]);
    let (encoded, _) = batch.encode_with(&crate::batch::Pool::new(1), |_, bytes| {
        bytes.push(b'-');
        Ok(())
    });
    encoded.validate().unwrap();
    assert_eq!(origins(&encoded), expected[..1]);
}

#[test]
fn origin_in_nodes_has_to_be_text() {
    let mut batch = Batch::new();
    batch.push_message(b"one");
    let mut mark = Mark::default();
    batch.mark(&mut mark);
    origin_in_nodes(&mut batch, 0, &literal!(["here"]));
    let text = batch.validate().unwrap_err().to_string();
    assert!(text.contains("has an origin that is not text"), "{text}");
    assert!(batch.validate_changes(&mark).is_err());
    batch.events[0].origin = IN_NODES | 0x77;
    let text = batch.validate().unwrap_err().to_string();
    assert!(text.contains("has an origin that is an invalid document"), "{text}");
}

#[test]
fn text_numbers_are_copied_with_their_events() {
    let mut batch = Batch::new();
    let number = |text: &'static str| Value::from(Number::new(text).unwrap());
    batch.push(&literal!({ "n": (number("1e400")), "t": "text" })).unwrap();
    batch.set_metadata(0, literal!([number("-0.10")]));
    let mut appended = Batch::new();
    appended.push_message(b"before");
    appended.append(batch.clone());
    appended.validate().unwrap();
    let event = appended.events()[1];
    assert_eq!(appended.value(&event).unwrap().to_string(), r#"{"n":1e400,"t":"text"}"#);
    assert_eq!(appended.metadata(&event).unwrap().to_string(), "[-0.10]");
    assert_eq!(batch.nodes()[2].kind(), NodeKind::NUMBER);
    *batch.value_mut(0).unwrap().get_mut("t").unwrap() = literal!(null);
    assert_eq!(batch.value(&batch.events()[0]).unwrap().to_string(), r#"{"n":1e400,"t":null}"#);
}
