//! Tests that consumers of a batch do not affect each other: sharing, editing and returning buffers.

use std::{convert::Infallible, mem::MaybeUninit, thread};

use tremor_abi::{
    batch::{Batch, Event, HostBatch, Pool},
    document::ValueRef,
    literal,
    value::Value,
};

/// Creates a batch of two raw messages and three documents, with metadata on the last event.
fn batch(pool: &Pool) -> Batch {
    let mut batch = Batch::from_pool(pool);
    batch.stream(1).push_message(b"first");
    for n in 0..3 {
        batch.stream(1).push(&literal!({ "n": n, "tags": ["a", "b"] })).expect("a value");
    }
    batch.stream(2).push_message(b"last");
    batch.set_metadata(batch.len() - 1, literal!({ "known": true }));
    batch
}

/// Returns the contents of a batch that a consumer can see, and the addresses and lengths of its buffers.
fn seen(batch: &Batch) -> (Vec<Event>, Vec<String>, [usize; 4]) {
    let shown = |event: &Event| {
        let value = batch.value(event).map(|value| value.to_string());
        let metadata = batch.metadata(event).map(|metadata| metadata.to_string());
        format!("{:?} {value:?} {metadata:?} {:?}", batch.raw(event), batch.original(event))
    };
    let (bytes, nodes) = (batch.bytes(), batch.nodes());
    let buffers = [bytes.as_ptr().addr(), bytes.len(), nodes.as_ptr().addr(), nodes.len()];
    (batch.events().to_vec(), batch.events().iter().map(shown).collect(), buffers)
}

#[test]
fn clone_shares_buffers_and_copies_events() {
    let batch = batch(&Pool::new(1));
    let clone = batch.clone();
    assert_eq!(seen(&clone), seen(&batch));
    assert_ne!(clone.events().as_ptr(), batch.events().as_ptr());
    assert_eq!(seen(&batch.part(1..3)).2, seen(&batch).2);
}

#[test]
fn edit_copies_only_the_edited_event() {
    let source = batch(&Pool::new(1));
    let (other, mut editor) = (source.clone(), source.clone());
    let (before, editor_before) = (seen(&other), seen(&editor));

    let value = editor.value_mut(2).expect("a value");
    assert_eq!(value.insert("edited", true), Ok(None));

    assert_eq!(seen(&other), before, "other consumers see neither the edit nor a move");
    assert_eq!(seen(&source), before);
    let (events, shown, buffers) = seen(&editor);
    assert_eq!(buffers, editor_before.2, "the editor shares the buffers");
    for at in [0, 1, 3, 4] {
        assert_eq!((events[at], &shown[at]), (editor_before.0[at], &editor_before.1[at]));
    }
    let edited = editor.value(&events[2]).expect("a value");
    assert_eq!(edited, literal!({ "n": 1, "tags": ["a", "b"], "edited": true }));

    // The first edit has created a value in the editor's table of values, and a second edit uses the same value.
    let value: *const Value<'_> = editor.value_mut(2).expect("a value");
    assert_eq!(std::ptr::from_ref(editor.value_mut(2).expect("a value")), value);
    assert_eq!(editor.value(&source.events()[2]), source.value(&source.events()[2]));
}

#[test]
fn edit_of_unshared_batch_moves_nothing() {
    let mut batch = batch(&Pool::new(1));
    let before = seen(&batch);
    *batch.value_mut(1).expect("a value") = Value::Null;
    let after = seen(&batch);
    assert_eq!(after.2, before.2);
    assert_eq!((&after.0[2..], &after.1[2..]), (&before.0[2..], &before.1[2..]));
    assert!(batch.value(&batch.events()[1]).is_some_and(ValueRef::is_null));
}

#[test]
fn raw_payloads_and_ends_of_streams_have_no_value_to_edit() {
    let mut batch = batch(&Pool::new(1));
    batch.stream(1).end();
    assert!(batch.value_mut(0).is_none() && batch.value_mut(5).is_none());
}

#[test]
fn added_and_removed_events_are_invisible_to_others() {
    let source = batch(&Pool::new(1));
    let before = seen(&source);
    let mut filter = source.clone();
    assert_eq!(filter.retain(|event| event.raw().is_none()), 2);
    assert_eq!(seen(&filter).2, before.2, "a filter copies no payload");
    let mut writer = source.clone();
    writer.stream(3).push_message(b"more");
    assert_ne!(seen(&writer).2[0], before.2[0], "a writer has buffers of its own");
    assert_eq!(writer.raw(&writer.events()[0]), Some(&b"first"[..]));
    assert_eq!(seen(&source), before);
}

#[test]
fn last_consumer_returns_buffers_from_any_thread() {
    let pool = Pool::new(8);
    for last in 0..3 {
        let batch = batch(&pool);
        let address = batch.bytes().as_ptr().addr();
        let mut consumers = vec![batch.clone(), batch.part(0..2), batch];
        let last_consumer = consumers.remove(last);
        for consumer in consumers {
            thread::spawn(move || drop(consumer)).join().expect("dropping does not panic");
            assert_eq!(pool.waiting(), 0, "a consumer still has the buffers");
        }
        assert_eq!(last_consumer.raw(&last_consumer.events()[0]), Some(&b"first"[..]));
        thread::spawn(move || drop(last_consumer)).join().expect("dropping does not panic");
        assert_eq!(pool.waiting(), 1, "the last consumer returned the buffers");
        let reused = Batch::from_pool(&pool);
        assert!(reused.is_empty() && reused.bytes().is_empty() && reused.nodes().is_empty());
        assert_eq!(reused.bytes().as_ptr().addr(), address, "the same buffer, with its capacity");
    }
}

#[test]
fn concurrent_drops_return_buffers_once() {
    const CONSUMERS: usize = 4;
    let pool = Pool::new(2 * CONSUMERS);
    for _ in 0..200 {
        let batch = batch(&pool);
        thread::scope(|scope| {
            for _ in 0..CONSUMERS {
                let consumer = batch.clone();
                scope.spawn(move || assert_eq!(consumer.len(), 5));
            }
            drop(batch);
        });
        assert_eq!(pool.waiting(), 1, "exactly once");
    }
}

#[test]
fn pool_may_be_dropped_before_its_batches() {
    let pool = Pool::new(1);
    let batch = batch(&pool);
    let (edited, mut editor) = (batch.clone(), batch);
    *editor.value_mut(1).expect("a value") = literal!("edited");
    drop(pool);
    thread::spawn(move || drop(editor)).join().expect("dropping does not panic");
    assert_eq!(edited.raw(&edited.events()[4]), Some(&b"last"[..]));
}

/// Fills the beginning of `space`.
fn fill<'s>(space: &'s mut [MaybeUninit<u8>], text: &[u8]) -> &'s mut [u8] {
    space[..text.len()].write_copy_of_slice(text)
}

#[test]
fn fragments_and_messages_fill_spare_capacity() {
    let mut batch = Batch::from_pool(&Pool::new(1));

    let parts = [&b"some bytes"[..], b""];
    let counts = parts.map(|part| {
        batch.stream(1).fill_fragment(100, |space| Ok::<_, Infallible>(fill(space, part)))
    });
    assert_eq!(counts, [Ok(10), Ok(0)]);
    assert_eq!(batch.stream(1).fill_fragment(100, |_| Err("not now")), Err("not now"));
    let messages = [&b""[..], b"a message"];
    let counts = messages.map(|part| {
        batch.stream(2).fill_message(100, |space| Ok::<_, Infallible>(fill(space, part)))
    });
    assert_eq!(counts, [Ok(0), Ok(9)]);
    batch.validate().expect("a valid batch");
    let seen: Vec<_> = batch
        .iter()
        .map(|event| (event.stream().number(), event.is_fragment(), event.raw().unwrap()))
        .collect();
    let expected: [(u64, bool, &[u8]); 3] =
        [(1, true, b"some bytes"), (2, false, b""), (2, false, b"a message")];
    assert_eq!(seen, expected);
}

#[test]
#[should_panic(expected = "the beginning of the space")]
fn fill_must_return_the_beginning_of_its_space() {
    let mut batch = Batch::new();
    let _ =
        batch.stream(0).fill_fragment(8, |space| Ok::<_, ()>(fill(&mut space[1..], b"skipped")));
}

#[test]
fn events_have_the_origin_of_their_peer() {
    let mut batch = Batch::new();
    batch.push_message(b"one");
    batch.set_origin_from(0, "10.0.0.1:99");
    batch.push_message(b"two");
    batch.set_origin_from(1, "10.0.0.2:99");
    batch.set_origin_from(2, "10.0.0.3:99");
    let origins: Vec<_> = batch.iter().map(|event| event.origin().unwrap()).collect();
    assert_eq!(origins, ["10.0.0.1:99", "10.0.0.2:99"]);
}
