use std::time::Duration;

use flate2::{Compression, write::ZlibEncoder};
use proptest::{collection::vec, prelude::*};
use serde_json::json;
use tremor_abi::batch::{HostBatch, HostOutput};
use tremor_pdk::{Batch, Output, Preprocessor, literal, testing::TestHost};

use super::GelfChunks;
use crate::processor::testing::{messages, pre, process};

fn gelf_chunks(host: &TestHost, config: &serde_json::Value) -> GelfChunks {
    host.component(&config.to_string()).unwrap()
}

/// Returns a chunk.
fn chunk(id: u64, position: u8, count: u8, content: &[u8]) -> Vec<u8> {
    [&[0x1e, 0x0f], &id.to_be_bytes()[..], &[position, count], content].concat()
}

/// Returns the chunks of a message, each with `size` bytes of it.
fn chunks(id: u64, message: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = u8::try_from(message.len().div_ceil(size)).unwrap();
    let parts = message.chunks(size).zip(0..);
    parts.map(|(part, position)| chunk(id, position, count, part)).collect()
}

/// Returns a batch with datagrams of a sender.
fn datagrams(sender: &str, datagrams: &[impl AsRef<[u8]>]) -> Batch {
    let mut batch = Batch::new();
    datagrams.iter().for_each(|it| batch.stream(0).push_message(it.as_ref()));
    batch.set_origin(sender);
    batch
}

/// Processes datagrams of one sender. Returns the messages and the errors.
fn run(joins: &mut GelfChunks, input: &[impl AsRef<[u8]>]) -> (Vec<Vec<u8>>, Vec<String>) {
    let mut batch = datagrams("sender", input);
    let rejected = process(joins, &mut batch);
    batch.validate().unwrap();
    (messages(&batch), rejected)
}

/// Lets `after` seconds pass. Returns the errors of the rejected messages.
fn expire(host: &TestHost, joins: &mut GelfChunks, after: u64) -> Vec<String> {
    host.advance(Duration::from_secs(after));
    let (mut batch, mut output) = (Batch::new(), Output::new());
    joins.on_time(host.monotonic_ns(), &mut batch, &mut output).unwrap();
    assert!(batch.is_empty());
    output.take_rejected().iter().map(|it| it.error.to_string()).collect()
}

#[test]
fn compressed_message_in_chunks_is_joined() {
    use std::io::Write;
    let message = br#"{"version":"1.1","host":"a","short_message":"b"}"#;
    for level in [1, 6, 9] {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(message).unwrap();
        let packed = encoder.finish().unwrap();
        let mut batch = datagrams("sender", &chunks(7, &packed, 10));
        assert!(process(&mut *pre("gelf-chunks", &json!({})), &mut batch).is_empty());
        assert_eq!(messages(&batch), [packed]);
        assert!(process(&mut *pre("decompress", &json!({})), &mut batch).is_empty());
        assert_eq!(messages(&batch), [message]);
    }
}

#[test]
fn other_messages_and_fragments_pass() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
    let mut batch = Batch::new();
    for message in [&b"{}"[..], b"", b"\x1e", b"\x1f\x8b\x08"] {
        batch.stream(1).push_message(message);
    }
    batch.stream(2).push_fragment(&chunk(1, 0, 2, b"not a datagram"));
    let before = messages(&batch);
    assert!(process(&mut joins, &mut batch).is_empty());
    assert_eq!(messages(&batch), before);
    assert!(batch.events()[4].is_fragment() && joins.streams().is_empty());
}

#[test]
fn chunk_with_invalid_header_is_rejected() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
    for (datagram, cause) in [
        (b"\x1e\x0f".to_vec(), "its header has 2 bytes; expected 12 bytes"),
        (chunk(1, 0, 1, b"")[..11].to_vec(), "its header has 11 bytes; expected 12 bytes"),
        (chunk(1, 0, 0, b"x"), "its message has 0 chunks; expected 1 to 128"),
        (chunk(1, 0, 129, b"x"), "its message has 129 chunks; expected 1 to 128"),
        (chunk(1, 2, 2, b"x"), "its position is 2 in a message of 2 chunks; expected 0 to 1"),
    ] {
        let (found, rejected) = run(&mut joins, &[datagram]);
        assert!(found.is_empty());
        assert_eq!(rejected, [format!("invalid chunk of GELF: {cause}")]);
    }
    assert!(joins.streams().is_empty());
}

#[test]
fn chunk_with_another_count_does_not_harm_its_message() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
    let (found, rejected) =
        run(&mut joins, &[chunk(1, 0, 2, b"a"), chunk(1, 2, 3, b"x"), chunk(1, 1, 2, b"b")]);
    assert_eq!(found, [b"ab"]);
    let expected = "invalid chunk of GELF: its message has 3 chunks according to this chunk, but 2 according to an \
                    earlier one";
    assert_eq!(rejected, [expected]);
}

#[test]
fn reused_id_ends_the_message_that_has_it() {
    for size in [1, 9] {
        let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
        let input = [
            chunk(1, 0, 3, b"a1"),
            chunk(1, 1, 3, b"a2"),
            chunk(1, 0, 3, b"b1"),
            chunk(1, 2, 3, b"b3"),
            chunk(1, 0, 3, b"b1"),
            chunk(1, 1, 3, b"b2"),
        ];
        let (mut found, mut rejected) = (Vec::new(), Vec::new());
        for part in input.chunks(size) {
            let (messages, errors) = run(&mut joins, part);
            found.extend(messages);
            rejected.extend(errors);
        }
        assert_eq!(found, [b"b1b2b3"]);
        let expected =
            "received 2 of 3 chunks of the message before another message with the same id began";
        assert_eq!(rejected, [expected]);
        assert!(joins.streams().is_empty());
    }
}

/// Late chunks would otherwise begin a message that expires, so that the sender's message is reported twice.
#[test]
fn late_chunks_of_rejected_message_are_discarded() {
    let first = chunk(1, 0, 3, b"a");
    for (input, seconds) in [
        (chunks(1, b"1234567", 3), 0),
        (chunks(1, b"1234567", 6), 0),
        // The second message evicts the first one.
        (vec![first.clone(), chunk(2, 0, 2, b"b"), chunk(2, 1, 2, b"c")], 0),
        (vec![first.clone()], 5),
    ] {
        let host = TestHost::new();
        let mut joins = gelf_chunks(&host, &json!({ "max_length": 5, "max_messages": 1 }));
        let mut rejected = run(&mut joins, &input).1;
        rejected.extend(expire(&host, &mut joins, seconds));
        assert_eq!(rejected.len(), 1, "{rejected:?}");
        let mut late = || {
            let (mut batch, mut output) = (datagrams("sender", &[&first]), Output::new());
            joins.process(&mut batch, &mut output).unwrap();
            assert!(batch.is_empty() && output.take_rejected().is_empty());
            (output.take_discarded(), joins.messages.len())
        };
        host.advance(Duration::from_secs(4));
        assert_eq!(late(), (1, 0), "{rejected:?}");
        host.advance(Duration::from_secs(1));
        assert_eq!(late(), (0, 1), "{rejected:?}");
    }
}

#[test]
fn ended_stream_forgets_its_rejected_messages() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({ "max_length": 5 }));
    assert_eq!(run(&mut joins, &chunks(1, b"1234567", 6)).1.len(), 1);
    let mut batch = Batch::new();
    batch.stream(0).end();
    process(&mut joins, &mut batch);
    assert_eq!(run(&mut joins, &chunks(1, b"12345", 3)).0, [b"12345"]);
}

#[test]
fn messages_of_other_senders_have_their_own_ids() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
    for (sender, position, content, expected) in
        [("a", 0, "a1", None), ("b", 0, "b1", None), ("b", 1, "b2", Some("b1b2"))]
    {
        let mut batch = datagrams(sender, &[chunk(1, position, 2, content.as_bytes())]);
        assert!(process(&mut joins, &mut batch).is_empty());
        assert_eq!(messages(&batch), Vec::from_iter(expected.map(|it| it.as_bytes().to_vec())));
        assert!(batch.events().iter().all(|event| batch.origin(event) == Some(sender)));
    }
    assert_eq!(joins.streams(), [0]);
}

#[test]
fn joined_message_has_metadata_of_its_first_chunk() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
    for position in [1, 0] {
        let mut batch = datagrams("sender", &[chunk(1, position, 2, b"x")]);
        batch.set_metadata(0, literal!({ "position": u64::from(position) }));
        process(&mut joins, &mut batch);
        for event in batch.events() {
            let metadata = batch.metadata(event).unwrap();
            assert_eq!(metadata.get("position").unwrap().as_u64(), Some(1));
        }
        assert_eq!(batch.len(), usize::from(position == 0));
    }
}

#[test]
fn incomplete_message_is_rejected_after_its_timeout() {
    let host = TestHost::new();
    let mut joins = gelf_chunks(&host, &json!({}));
    run(&mut joins, &[chunk(1, 0, 3, b"a")]);
    let due = joins.due().unwrap();
    host.advance(Duration::from_secs(3));
    run(&mut joins, &[chunk(2, 0, 2, b"b"), chunk(1, 1, 3, b"b")]);
    assert_eq!(joins.due(), Some(due), "further chunks do not defer the timeout");
    assert_eq!(joins.buffered_since(0), Some(1));
    let error = |count: &str| format!("received {count} chunks of the message within 5s");
    assert_eq!(expire(&host, &mut joins, 2), [error("2 of 3")]);
    assert_eq!(joins.buffered_since(0), Some(2));
    assert_eq!(expire(&host, &mut joins, 5), [error("1 of 2")]);
    assert_eq!((joins.due(), joins.streams(), joins.buffers(0)), (None, vec![], false));
}

#[test]
fn ids_that_never_complete_do_not_fill_the_memory() {
    let host = TestHost::new();
    host.set_memory_limit(1 << 20);
    let mut joins = gelf_chunks(&host, &json!({ "max_messages": 10 }));
    let small: Vec<_> = (0..100).map(|id| chunk(id, 0, 2, b"x")).collect();
    let (found, rejected) = run(&mut joins, &small);
    assert_eq!((found.len(), rejected.len()), (0, 90));
    assert!(rejected[0].contains("before there were too many incomplete messages"));
    let mut count = 0;
    for id in 100..200 {
        let large = chunks(id, &vec![0; 1_000_000], 60_000);
        let (found, rejected) = run(&mut joins, &large[1..]);
        assert!(found.is_empty());
        count += rejected.len();
        assert!(host.memory() <= 4 << 20, "{}", host.memory());
    }
    assert_eq!(count + joins.messages.len(), 110);
    // Another message is joined in spite of this.
    assert_eq!(run(&mut joins, &chunks(1_000, b"abc", 1)).0, [b"abc"]);
    expire(&host, &mut joins, 5);
    assert_eq!((joins.bytes, joins.numbers.len(), joins.streams.len()), (0, 0, 0));
}

/// The pull of a message is acknowledged with its own stream, so another stream must not reject the message.
#[test]
fn message_of_another_stream_is_not_evicted() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({ "max_messages": 1 }));
    let mut on_stream = |stream, chunk: Vec<u8>| {
        let (mut batch, mut output) = (Batch::new(), Output::new());
        batch.stream(stream).push_message(&chunk);
        joins.process(&mut batch, &mut output).unwrap();
        let rejected = output.take_rejected();
        (messages(&batch), rejected.iter().map(|it| it.error.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(on_stream(1, chunk(1, 0, 2, b"a")), (vec![], vec![]));
    let (found, rejected) = on_stream(2, chunk(2, 0, 2, b"x"));
    assert!(found.is_empty() && rejected[0].contains("other streams"), "{rejected:?}");
    assert_eq!(on_stream(1, chunk(1, 1, 2, b"b")), (vec![b"ab".to_vec()], vec![]));
}

#[test]
fn too_long_message_is_rejected() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({ "max_length": 5 }));
    let error = "the chunks of the message have more than 5 bytes together: raise `max_length` to allow more";
    assert_eq!(run(&mut joins, &chunks(1, b"123456", 3)), (vec![], vec![error.to_owned()]));
    assert_eq!(run(&mut joins, &[chunk(2, 0, 1, b"123456")]), (vec![], vec![error.to_owned()]));
    assert_eq!(run(&mut joins, &chunks(3, b"12345", 3)).0, [b"12345"]);
    assert!(joins.streams().is_empty());
}

#[test]
fn ended_stream_rejects_its_incomplete_messages() {
    let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
    run(&mut joins, &[chunk(1, 0, 2, b"a"), chunk(2, 0, 2, b"b")]);
    let mut batch = Batch::new();
    batch.stream(0).end();
    let rejected = process(&mut joins, &mut batch);
    assert_eq!(rejected, ["the stream ended after 1 of 2 chunks of the message"; 2]);
    assert!(batch.events()[0].is_stream_end() && !joins.buffers(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The order of chunks, repeated chunks and the batches in which chunks arrive do not matter.
    #[test]
    fn message_does_not_depend_on_order_of_its_chunks(
        message in vec(any::<u8>(), 2..300),
        size in 3..200_usize,
        order in vec(any::<prop::sample::Index>(), 0..200),
        batches in 1..9_usize,
    ) {
        let all = chunks(5, &message, size);
        prop_assume!(all.len() > 1);
        // All chunks but the last one of this order, some of them several times.
        let mut sent: Vec<_> = order.iter().map(|at| at.get(&all).clone()).collect();
        sent.extend(all.iter().cloned());
        let last = sent.first().cloned().unwrap_or_default();
        sent.retain(|it| *it != last);
        let mut joins = gelf_chunks(&TestHost::new(), &json!({}));
        for part in sent.chunks(sent.len().div_ceil(batches)) {
            prop_assert_eq!(run(&mut joins, part), (vec![], vec![]));
        }
        prop_assert_eq!(run(&mut joins, &[last]), (vec![message], vec![]));
        prop_assert!(joins.streams().is_empty() && joins.bytes == 0);
    }

    #[test]
    fn any_datagrams_keep_the_state_bounded(
        input in vec((0..4_u64, 0..6_u8, 0..5_u8, vec(any::<u8>(), 0..20)), 0..100),
        size in 1..9_usize,
    ) {
        let host = TestHost::new();
        let mut joins = gelf_chunks(&host, &json!({ "max_messages": 3, "max_length": 40 }));
        let input: Vec<_> =
            input.iter().map(|(id, at, count, content)| chunk(*id, *at, *count, content)).collect();
        for part in input.chunks(size) {
            run(&mut joins, part);
            prop_assert!(joins.messages.len() <= 3);
            prop_assert_eq!(joins.messages.len(), joins.numbers.len());
        }
        expire(&host, &mut joins, 5);
        prop_assert_eq!((joins.bytes, joins.numbers.len(), joins.streams.len()), (0, 0, 0));
    }
}
