//! Deltas: the answer to a call is applied to the batch of the call.

use super::*;
use crate::{
    batch::{
        Mark,
        frame::{FrameError, apply_delta},
    },
    literal,
};

/// Returns the frame of a call, and the batch that the other process reads from it.
fn called(host: &mut Batch) -> (Vec<u8>, Batch) {
    let mut call = Vec::new();
    Encoder::new(Medium::Process).prepare_call(host).unwrap().append_to(3, &mut call);
    let child = decoded(&call, Medium::Process).batch;
    assert_eq!((child.nodes(), child.bytes()), (host.nodes(), host.bytes()));
    (call, child)
}

/// Returns the answer with the changed batch, and whether it is a delta.
fn answered(child: &Batch, call: &[u8]) -> (Vec<u8>, bool) {
    let mut encoder = Encoder::new(Medium::Process);
    let prepared = encoder.prepare_answer(child, call).unwrap();
    let mut answer = Vec::new();
    prepared.append_to(3, &mut answer);
    assert_eq!(answer.len(), prepared.len());
    (answer, prepared.header().is_delta())
}

proptest! {
    #[test]
    fn answer_results_in_the_batch_of_the_operator(
        before in any_steps(),
        changes in any_steps(),
        is_shared in any::<bool>(),
    ) {
        let mut host = batch(&before);
        let expected = seen(&host);
        let other = is_shared.then(|| host.clone());
        let (call, mut child) = called(&mut host);
        prop_assert_eq!(seen(&host), expected);
        apply(&mut child, &changes);
        let (answer, is_delta) = answered(&child, &call);
        let has_copy = changes.iter().any(|step| matches!(step, Step::Copy));
        prop_assert!(is_delta || has_copy);
        if is_delta {
            apply_delta(&mut host, &mut Mark::default(), &answer).unwrap();
        } else {
            host = decoded(&answer, Medium::Process).batch;
        }
        prop_assert_eq!(seen(&host), seen(&child));
        host.validate().unwrap();
        if let Some(other) = other {
            prop_assert_eq!(seen(&other), seen(&batch(&before)), "other owners see no change");
        }
    }

    #[test]
    fn several_answers_apply_to_clones(before in any_steps(), one in any_steps(), two in any_steps()) {
        let mut host = batch(&before);
        let (call, child) = called(&mut host);
        for changes in [one, two] {
            let mut child = child.clone();
            apply(&mut child, &changes);
            let (answer, is_delta) = answered(&child, &call);
            if is_delta {
                let mut port = host.clone();
                apply_delta(&mut port, &mut Mark::default(), &answer).unwrap();
                prop_assert_eq!(seen(&port), seen(&child));
            }
        }
    }
}

fn documents(count: u64) -> Batch {
    let mut batch = Batch::new();
    for number in 0..count {
        batch.stream(number).push(&literal!({ "number": number, "text": "some text" })).unwrap();
    }
    batch
}

#[test]
fn delta_has_only_what_was_appended() {
    let mut host = documents(100);
    let (call, mut child) = called(&mut host);
    child.events.truncate(50);
    child.write_metadata(0, |writer| writer.str("new")).unwrap();
    *child.value_mut(1).unwrap() = literal!("edited");
    let (answer, is_delta) = answered(&child, &call);
    assert!(is_delta);
    assert_eq!(answer.len(), 64 + 50 * 56 + 2 * 16 + 16);
    let nodes = host.nodes().len();
    let mut mark = Mark::default();
    apply_delta(&mut host, &mut mark, &answer).unwrap();
    assert_eq!((seen(&host), host.nodes().len()), (seen(&child), nodes + 2));
}

/// The contents that were valid before the call are not read again, although the buffers move: another batch shares
/// them.
#[test]
fn only_new_contents_of_an_answer_are_validated() {
    use crate::document::visits;

    let mut host = documents(1_000);
    let (call, mut child) = called(&mut host);
    child.events.remove(0);
    (0..10).for_each(|at| child.write_metadata(at, |writer| writer.u64(at as u64)).unwrap());
    let (answer, _) = answered(&child, &call);
    let (before, other) = (visits::NODES.get(), host.clone());
    apply_delta(&mut host, &mut Mark::default(), &answer).unwrap();
    assert!(!host.has_buffers_of(&other));
    let visited = visits::NODES.get() - before;
    assert!(visited < 50, "{visited} nodes of {}", host.nodes().len());
}

#[test]
fn refused_delta_leaves_the_batch_unchanged() {
    let mut host = documents(3);
    let (call, mut child) = called(&mut host);
    child.events.remove(0);
    child.write_metadata(0, |writer| writer.str("new")).unwrap();
    let (answer, _) = answered(&child, &call);
    let before = seen(&host);
    let lens = (host.nodes().len(), host.bytes().len());
    let refused = |host: &mut Batch, change: &dyn Fn(&mut Vec<u8>)| {
        let mut answer = answer.clone();
        change(&mut answer);
        let error = apply_delta(host, &mut Mark::default(), &answer).unwrap_err();
        assert_eq!((seen(host), (host.nodes().len(), host.bytes().len())), (seen(host), lens));
        error.to_string()
    };
    let texts = [
        refused(&mut host, &|answer| answer[28] += 1),
        refused(&mut host, &|answer| answer[36] += 1),
        refused(&mut host, &|answer| answer[64] = 3),
        refused(&mut host, &|answer| answer[64 + 8] = 200),
        refused(&mut host, &|answer| answer[64 + 2 * 56] = 77),
        refused(&mut host, &|answer| *answer = call.clone()),
    ];
    assert_eq!(seen(&host), before);
    let expected = [
        "invalid frame: base_nodes at offset 28 is 16, expected 15, as in the frame of the call",
        "invalid frame: base_bytes at offset 36 is 58, expected 57, as in the frame of the call",
        "event 0 of a frame has an edited value, which a frame must not contain",
        "invalid frame: event 0 of a batch is an invalid document: node 200 does not exist",
        "invalid frame: event 0 of a batch has metadata that is an invalid document: node 15 has kind 77, which ABI \
         2.1 does not have",
        "invalid frame: flags at offset 22 is 0, expected a sum with 1 (delta)",
    ];
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.starts_with(expected), "{text}");
    }
    let error = decode(&answer, &Pool::new(1), Medium::Process).unwrap_err();
    assert!(matches!(error, FrameError::Field { field: "flags", .. }), "{error}");
    apply_delta(&mut host, &mut Mark::default(), &answer).unwrap();
    assert_eq!(seen(&host), seen(&child));
}

#[test]
fn batch_with_edited_values_accepts_no_delta() {
    let mut host = documents(1);
    let (call, child) = called(&mut host);
    let (answer, _) = answered(&child, &call);
    host.value_mut(0).unwrap();
    let error = apply_delta(&mut host, &mut Mark::default(), &answer).unwrap_err().to_string();
    assert!(error.contains("prepare_call"), "{error}");
}

/// A single event may be more than half of its buffers, which together are longer than a frame.
#[test]
fn call_with_unused_contents_is_compacted_if_too_long() {
    let mut host = Batch::new();
    host.push_message(&vec![b'x'; 3_000]);
    host.push_message(&vec![b'y'; 2_000]);
    host.events.truncate(1);
    let mut encoder = Encoder::with_limit(Medium::Process, 4_096);
    let len = encoder.prepare_call(&mut host).unwrap().len();
    assert_eq!((len, host.bytes().len()), (64 + 56 + 3_000, 3_000));
    host.push_message(&vec![b'y'; 2_000]);
    let error = encoder.prepare_call(&mut host).err().unwrap();
    assert!(
        error.is_too_large() && error.to_string().contains("the limit is 4096 bytes"),
        "{error}"
    );
}
