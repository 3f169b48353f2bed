//! What consumers of one batch see of each other: nothing. Sharing, editing, and giving back.

use std::{convert::Infallible, mem::MaybeUninit, thread};

use tremor_abi::{
    batch::{Batch, Event, HostBatch, Pool},
    document::ValueRef,
    literal,
    value::Value,
};

/// Two raw messages and three documents, with metadata on the last.
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

/// Everything that a consumer can see of a batch, as it stands and where it lies.
fn seen(batch: &Batch) -> (Vec<Event>, Vec<String>, [usize; 4]) {
    let shown = |event: &Event| {
        let value = batch.value(event).map(|value| value.to_string());
        let metadata = batch.metadata(event).map(|metadata| metadata.to_string());
        format!("{:?} {value:?} {metadata:?} {:?}", batch.raw(event), batch.original(event))
    };
    let (bytes, nodes) = (batch.bytes(), batch.nodes());
    let places = [bytes.as_ptr().addr(), bytes.len(), nodes.as_ptr().addr(), nodes.len()];
    (batch.events().to_vec(), batch.events().iter().map(shown).collect(), places)
}

#[test]
fn a_clone_shares_the_buffers_and_has_the_events_itself() {
    let batch = batch(&Pool::new(1));
    let clone = batch.clone();
    assert_eq!(seen(&clone), seen(&batch));
    assert_ne!(clone.events().as_ptr(), batch.events().as_ptr());
    assert_eq!(seen(&batch.part(1..3)).2, seen(&batch).2);
}

#[test]
fn an_edit_of_one_consumer_copies_the_event_that_it_edits_and_nothing_else() {
    let source = batch(&Pool::new(1));
    let (other, mut editor) = (source.clone(), source.clone());
    let (before, editor_before) = (seen(&other), seen(&editor));

    let value = editor.value_mut(2).expect("a value");
    assert_eq!(value.insert("edited", true), Ok(None));

    assert_eq!(seen(&other), before, "the others see neither the edit nor a move");
    assert_eq!(seen(&source), before);
    let (events, shown, places) = seen(&editor);
    assert_eq!(places, editor_before.2, "and the editor reads the rest where they read it");
    for at in [0, 1, 3, 4] {
        assert_eq!((events[at], &shown[at]), (editor_before.0[at], &editor_before.1[at]));
    }
    let edited = editor.value(&events[2]).expect("a value");
    assert_eq!(edited, literal!({ "n": 1, "tags": ["a", "b"], "edited": true }));

    // Of the edited event it has a value of its own, which a second edit finds in its place.
    let value: *const Value<'_> = editor.value_mut(2).expect("a value");
    assert_eq!(std::ptr::from_ref(editor.value_mut(2).expect("a value")), value);
    assert_eq!(editor.value(&source.events()[2]), source.value(&source.events()[2]));
}

#[test]
fn an_edit_of_the_only_holder_moves_nothing_either() {
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
fn what_one_consumer_adds_or_takes_out_the_others_do_not_see() {
    let source = batch(&Pool::new(1));
    let before = seen(&source);
    let mut filter = source.clone();
    assert_eq!(filter.retain(|event| event.raw().is_none()), 2);
    assert_eq!(seen(&filter).2, before.2, "a filter copies no payload");
    let mut writer = source.clone();
    writer.stream(3).push_message(b"more");
    assert_ne!(seen(&writer).2[0], before.2[0], "who writes has buffers of its own from then on");
    assert_eq!(writer.raw(&writer.events()[0]), Some(&b"first"[..]));
    assert_eq!(seen(&source), before);
}

#[test]
fn the_last_consumer_gives_the_buffers_back_from_whichever_thread() {
    let pool = Pool::new(8);
    for last in 0..3 {
        let batch = batch(&pool);
        let place = batch.bytes().as_ptr().addr();
        let mut consumers = vec![batch.clone(), batch.part(0..2), batch];
        let keeps = consumers.remove(last);
        for consumer in consumers {
            thread::spawn(move || drop(consumer)).join().expect("it only drops");
            assert_eq!(pool.waiting(), 0, "somebody still reads");
        }
        assert_eq!(keeps.raw(&keeps.events()[0]), Some(&b"first"[..]));
        thread::spawn(move || drop(keeps)).join().expect("it only drops");
        assert_eq!(pool.waiting(), 1, "the last one gave them back");
        let again = Batch::from_pool(&pool);
        assert!(again.is_empty() && again.bytes().is_empty() && again.nodes().is_empty());
        assert_eq!(again.bytes().as_ptr().addr(), place, "the same buffer, with its capacity");
    }
}

#[test]
fn consumers_that_let_go_at_once_give_the_buffers_back_once() {
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
fn the_pool_may_go_while_another_thread_holds_a_batch() {
    let pool = Pool::new(1);
    let batch = batch(&pool);
    let (edited, mut editor) = (batch.clone(), batch);
    *editor.value_mut(1).expect("a value") = literal!("edited");
    drop(pool);
    thread::spawn(move || drop(editor)).join().expect("it only drops");
    assert_eq!(edited.raw(&edited.events()[4]), Some(&b"last"[..]));
}

/// Fills the first of the room that it is given.
fn fill<'s>(space: &'s mut [MaybeUninit<u8>], text: &[u8]) -> &'s mut [u8] {
    space[..text.len()].write_copy_of_slice(text)
}

#[test]
fn a_batch_is_filled_without_writing_a_byte_twice() {
    let mut batch = Batch::from_pool(&Pool::new(1));

    let parts = [&b"some bytes"[..], b""];
    let counts = parts
        .map(|part| batch.stream(1).fill_fragment(100, |it| Ok::<_, Infallible>(fill(it, part))));
    assert_eq!(counts, [Ok(10), Ok(0)]);
    assert_eq!(batch.stream(1).fill_fragment(100, |_| Err("not now")), Err("not now"));
    let messages = [&b""[..], b"a message"];
    let counts = messages
        .map(|part| batch.stream(2).fill_message(100, |it| Ok::<_, Infallible>(fill(it, part))));
    assert_eq!(counts, [Ok(0), Ok(9)]);
    batch.validate().expect("what was filled");
    let seen: Vec<_> = batch
        .iter()
        .map(|it| (it.stream().number(), it.is_fragment(), it.raw().unwrap()))
        .collect();
    let expected: [(u64, bool, &[u8]); 3] =
        [(1, true, b"some bytes"), (2, false, b""), (2, false, b"a message")];
    assert_eq!(seen, expected);
}

#[test]
#[should_panic(expected = "the beginning of the room")]
fn what_was_not_filled_is_not_taken() {
    let mut batch = Batch::new();
    let _ =
        batch.stream(0).fill_fragment(8, |space| Ok::<_, ()>(fill(&mut space[1..], b"skipped")));
}

#[test]
fn events_of_one_batch_have_the_origin_of_their_peer() {
    let mut batch = Batch::new();
    batch.push_message(b"one");
    batch.set_origin_from(0, "10.0.0.1:99");
    batch.push_message(b"two");
    batch.set_origin_from(1, "10.0.0.2:99");
    batch.set_origin_from(2, "10.0.0.3:99");
    let origins: Vec<_> = batch.iter().map(|event| event.origin().unwrap()).collect();
    assert_eq!(origins, ["10.0.0.1:99", "10.0.0.2:99"]);
}
