use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::{Batch, Error, Output, Postprocessor, Result};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Postprocessors;
use crate::{
    codec::BatchEncoder,
    components,
    processor::{postprocessor, pre, run as split},
};

struct Suffix(&'static [u8]);

impl Postprocessor for Suffix {
    fn suffix(&self) -> Option<&[u8]> {
        Some(self.0)
    }

    fn process(&mut self, _: &mut Batch, _: &mut Output) -> Result<()> {
        unreachable!("suffixes are appended without a call")
    }
}

/// A postprocessor that calls a function with each batch.
struct Does(fn(&mut Batch, &mut Output) -> Result<()>);

impl Postprocessor for Does {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.0(batch, output)
    }
}

/// Returns a postprocessor that puts messages in brackets, and rejects those that contain an `x`.
fn brackets() -> Box<dyn Postprocessor> {
    Box::new(Does(|batch, output| {
        output.reject_all(batch.cut(|cutter| {
            let message = cutter.payload().to_vec();
            if message.contains(&b'x') {
                cutter.reject(&message, Error::bad_data("x"));
            } else {
                cutter.emit_joined(&[b"[", &message[..], b"]"].concat(), 0..0);
            }
        }));
        Ok(())
    }))
}

fn postprocessors(steps: Vec<Box<dyn Postprocessor>>) -> Postprocessors {
    let mut postprocessors = Postprocessors::default();
    steps.into_iter().for_each(|step| postprocessors.push("it", step));
    postprocessors
}

/// Runs postprocessors on messages; the stream of each message is its index. Returns the resulting messages, the
/// streams of their events, and the streams and errors of rejected events.
fn run(
    postprocessors: &mut Postprocessors,
    messages: &[&str],
) -> (Vec<String>, Vec<u64>, Vec<(u64, String)>) {
    let (mut batch, mut encoded) = (Batch::new(), Batch::new());
    for (stream, message) in (0..).zip(messages) {
        batch.stream(stream).push(message).unwrap();
        encoded.stream(stream).push_message(message.as_bytes());
    }
    for batch in [&mut batch, &mut encoded] {
        batch.events_mut().iter_mut().for_each(|event| event.pull = 7);
    }
    let rejected = postprocessors.process(&mut encoded, &mut batch);
    assert!(encoded.events().iter().all(|event| event.pull == 7), "the pulls are restored");
    let text = |event| String::from_utf8(encoded.raw(event).unwrap().to_vec()).unwrap();
    let why = |rejected: Rejected| {
        assert!(batch.value(&rejected.event).is_some(), "the original event");
        (rejected.event.stream, rejected.error.to_string())
    };
    (
        encoded.events().iter().map(text).collect(),
        batch.events().iter().map(|event| event.stream).collect(),
        rejected.into_iter().map(why).collect(),
    )
}

#[test]
fn leading_suffixes_are_appended_by_the_codec() {
    let mut postprocessors = postprocessors(vec![Box::new(Suffix(b"\r")), Box::new(Suffix(b"\n"))]);
    assert_eq!(postprocessors.terminator().bytes(), b"\r\n");
    assert_eq!(run(&mut postprocessors, &["a"]).0, ["a"]);
}

#[test]
fn suffixes_after_a_step_are_appended_after_it() {
    let mut postprocessors = postprocessors(vec![
        Box::new(Suffix(b"1")),
        brackets(),
        Box::new(Suffix(b"2")),
        Box::new(Suffix(b"3")),
        brackets(),
    ]);
    assert_eq!(postprocessors.terminator().bytes(), b"1");
    assert_eq!(run(&mut postprocessors, &["a", "b"]).0, ["[[a]23]", "[[b]23]"]);
}

#[test]
fn rejected_messages_leave_both_batches_aligned() {
    let mut postprocessors = postprocessors(vec![brackets(), brackets()]);
    let (messages, events, rejected) = run(&mut postprocessors, &["x0", "a", "x2", "b", "x4"]);
    assert_eq!(messages, ["[[a]]", "[[b]]"]);
    assert_eq!(events, [1, 3]);
    let expected: Vec<_> = [0, 2, 4].map(|stream| (stream, "x".to_owned())).into();
    assert_eq!(rejected, expected);
}

#[test]
fn failed_call_rejects_the_whole_batch() {
    let mut postprocessors =
        postprocessors(vec![Box::new(Does(|_, _| Err(Error::bad_data("no"))))]);
    let (messages, events, rejected) = run(&mut postprocessors, &["a", "b"]);
    assert_eq!((messages.len(), events.len()), (0, 0));
    assert_eq!(rejected, [(0, "no".to_owned()), (1, "no".to_owned())]);
    let (_, _, rejected) = run(&mut postprocessors, &["c"]);
    assert_eq!(rejected.len(), 1, "no event of the first batch is left");
}

#[test]
fn postprocessor_that_breaks_its_contract_fails_the_batch() {
    let broken: [fn(&mut Batch, &mut Output) -> Result<()>; 5] = [
        |batch, _| {
            batch.push_message(b"more");
            Ok(())
        },
        |batch, _| {
            batch.retain(|event| event.raw() != Some(b"a"));
            Ok(())
        },
        |batch, _| {
            batch.events_mut().reverse();
            Ok(())
        },
        |batch, output| {
            output.reject(batch.events()[0], Error::bad_data("but it is still there"));
            Ok(())
        },
        |batch, output| {
            output.send(0, batch.clone());
            Ok(())
        },
    ];
    for does in broken {
        let (messages, events, rejected) =
            run(&mut postprocessors(vec![Box::new(Does(does))]), &["a", "b"]);
        assert_eq!((messages.len(), events.len(), rejected.len()), (0, 0, 2));
        assert!(rejected[0].1.contains("the postprocessor `it` "), "{}", rejected[0].1);
    }
}

/// Encodes values with a codec and frames them with `lines`. Returns the number of values that were framed, the number
/// that were rejected, and the number of messages that a receiver reads.
fn framed_by_lines(codec: &str, values: &[Value]) -> (usize, usize, usize) {
    let mut postprocessors = Postprocessors::default();
    postprocessors.push("lines", postprocessor("lines", &json!(null)).unwrap());
    let mut encoder = components::codec(codec, &json!(null)).unwrap().encoder();
    let mut batch = Batch::new();
    values.iter().for_each(|value| batch.push(value).unwrap());
    let encoder: &mut dyn BatchEncoder = &mut encoder;
    let (mut encoded, mut rejected) =
        encoder.encode_batch(&mut batch, &Pool::new(1), postprocessors.terminator());
    rejected.extend(postprocessors.process(&mut encoded, &mut batch));
    assert_eq!(encoded.len(), batch.len());
    let sent: Vec<u8> =
        encoded.events().iter().flat_map(|it| encoded.raw(it).unwrap()).copied().collect();
    let (messages, _) = split(&mut *pre("lines", &json!(null)), &sent, sent.len().max(1));
    (encoded.len(), rejected.len(), messages.len())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a\n\r\",\\\\\\]]{0,6}", any::<String>()]
}

proptest! {
    #[test]
    fn each_framed_value_is_one_line(texts in prop::collection::vec((text(), text()), 1..6)) {
        type Make = fn(&str, &str) -> Value;
        let make: [(&str, Make); 11] = [
            ("json", |one, other| json!({ one: other })),
            ("msgpack", |one, other| json!({ one: [other, one.len()] })),
            ("string", |one, _| json!(one)),
            ("string", |one, other| json!({ one: other })),
            ("binary", |_, other| json!(other)),
            ("csv", |one, other| json!([one, other])),
            ("influx", |one, other| json!({ "measurement": "m", "fields": { "a": one, "b": other } })),
            ("syslog", |one, other| json!({ "structured_data": { "a": { "b": one } }, "msg": other })),
            ("logfmt", |one, other| json!({ "a": one, "b": { "c": other } })),
            ("gelf", |one, other| json!({ "host": one, "short_message": "m", "a": [other] })),
            ("null", |one, _| json!(one)),
        ];
        for (codec, make) in make {
            let values: Vec<_> = texts.iter().map(|(one, other)| make(one, other)).collect();
            let (framed, rejected, messages) = framed_by_lines(codec, &values);
            prop_assert_eq!(framed + rejected, values.len(), "{}: {:?}", codec, &values);
            prop_assert_eq!(messages, framed, "{}: {:?}", codec, &values);
            if codec == "json" {
                prop_assert_eq!(rejected, 0);
            }
        }
    }
}

#[test]
fn message_with_a_line_feed_is_rejected_and_others_are_framed() {
    for codec in ["string", "binary"] {
        let values = [json!("a"), json!("b\nc"), json!("d")];
        assert_eq!(framed_by_lines(codec, &values), (2, 1, 2));
    }
}

#[test]
fn message_with_the_suffix_after_a_step_is_rejected() {
    let mut postprocessors = postprocessors(vec![brackets(), Box::new(Suffix(b"\n"))]);
    let (messages, events, rejected) = run(&mut postprocessors, &["a", "b\nc", "d"]);
    assert_eq!((messages, events), (vec!["[a]\n".to_owned(), "[d]\n".to_owned()], vec![0, 2]));
    let [(1, error)] = &rejected[..] else { panic!("{rejected:?}") };
    assert!(
        error.starts_with("cannot end the message with `it`: it contains a line feed at byte 2")
    );
}
