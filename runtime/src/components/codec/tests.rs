use std::sync::{Arc, Mutex};

use tremor_abi::{
    ByteBuffer,
    batch::{HostBatch, Payload, Pool},
    document::Node,
};
use tremor_pdk::{Batch, Document, Error, ErrorKind, Output, Result};

use super::{Maker, PluginCodec};
use crate::{
    clock::Clock,
    codec::{Decoded, MakeCodec, Terminator},
    dynamic::DynCodec,
    watchdog::Calls,
};

fn maker<C: DynCodec + 'static>(
    make: impl Fn() -> C + Send + Sync + 'static,
) -> Maker<Box<dyn DynCodec>> {
    Maker {
        connector: "output".to_owned(),
        part: "codec `x`".to_owned(),
        make: Box::new(move || Ok(Box::new(make()))),
        calls: Arc::<Calls>::default(),
        clock: Clock::simulated(0),
    }
}

/// Encodes the events of a batch with a codec that `encode` implements. Returns the messages, and the errors.
fn encoded(
    texts: &[&str],
    encode: fn(&str, &mut ByteBuffer) -> Result<()>,
) -> (Vec<String>, Vec<String>) {
    struct Codec(fn(&str, &mut ByteBuffer) -> Result<()>);

    impl DynCodec for Codec {
        fn decode(&mut self, _: &mut Batch, _: &mut Output) -> Result<()> {
            unreachable!("the tests only encode")
        }

        fn encode(
            &mut self,
            batch: &mut Batch,
            encoded: &mut Batch,
            output: &mut Output,
        ) -> Result<()> {
            let mut failed = None;
            let rejected = batch.encode_into(encoded, |payload, bytes| {
                let value = match payload {
                    Payload::Document { bytes, nodes, root, .. } => {
                        Document::new(bytes, nodes).root(root)
                    }
                    Payload::Value(value) => value,
                };
                let result = self.0(value.as_str().unwrap_or_default(), bytes);
                if let Err(error) = &result
                    && error.kind() == ErrorKind::PANICKED
                {
                    failed = Some(error.clone());
                }
                result
            });
            output.reject_all(rejected);
            failed.map_or_else(|| encoded.validate().map(|_| ()), Err)
        }
    }

    let codec = PluginCodec::new(maker(move || Codec(encode)));
    let mut encoder = codec.encoder().unwrap();
    let mut batch = Batch::new();
    texts.iter().for_each(|text| batch.push(text).unwrap());
    let (encoded, rejected) =
        encoder.encode_batch(&mut batch, &Pool::new(1), &Terminator::default());
    assert_eq!(encoded.len(), batch.len());
    let text = |event| String::from_utf8(encoded.raw(event).unwrap().to_vec()).unwrap();
    let errors = rejected.iter().map(|it| it.error.to_string());
    (encoded.events().iter().map(text).collect(), errors.collect())
}

/// The codec appends a comma to each character and removes the last comma, as codecs often do. With kits before 2.1 it
/// could remove the last byte of the message before an empty one.
#[test]
fn message_whose_bytes_another_removed_is_encoded_again() {
    let commas = |text: &str, bytes: &mut ByteBuffer| {
        for character in text.chars() {
            bytes.extend_from_copy_slice(format!("{character},").as_bytes());
        }
        bytes.pop();
        Ok(())
    };
    for texts in [&["ab", "", "cd"][..], &["", "ab", ""], &["ab", ""]] {
        let (messages, errors) = encoded(texts, commas);
        assert_eq!(errors, Vec::<String>::new(), "{texts:?}");
        let joined = |text: &&str| text.chars().map(String::from).collect::<Vec<_>>().join(",");
        assert_eq!(messages, texts.iter().map(joined).collect::<Vec<_>>());
    }
}

/// A run of bad events is not the end of the codec, but ends the attempts for its batch.
#[test]
fn events_after_eight_panics_in_a_row_are_not_encoded() {
    let encode = |text: &str, bytes: &mut ByteBuffer| {
        if text == "bad" {
            return Err(Error::panicked("oh"));
        }
        bytes.extend_from_copy_slice(text.as_bytes());
        Ok(())
    };
    for (bad, good) in [(7, true), (8, false)] {
        let mut texts = vec!["bad"; bad];
        texts.extend(["a", "b"]);
        let (messages, errors) = encoded(&texts, encode);
        assert_eq!(messages, if good { vec!["a", "b"] } else { vec![] });
        let skipped = errors.iter().filter(|it| it.contains("on 8 messages in a row")).count();
        assert_eq!((errors.len(), skipped), if good { (7, 0) } else { (10, 2) });
    }
}

#[test]
fn call_that_fails_costs_only_the_events_that_fail_alone() {
    let encode = |text: &str, bytes: &mut ByteBuffer| {
        if text == "bad" {
            return Err(Error::panicked("oh"));
        }
        bytes.extend_from_copy_slice(text.as_bytes());
        Ok(())
    };
    let (messages, errors) = encoded(&["a", "bad", "b", "bad", "c"], encode);
    assert_eq!(messages, ["a", "b", "c"]);
    assert_eq!(errors, ["oh", "oh"]);
}

/// A codec that panics for several events, and records the size of the batch of each call for a single event.
#[derive(Clone, Default)]
struct Sizes(Arc<Mutex<Vec<usize>>>);

impl Sizes {
    fn record(&self, batch: &Batch) -> Result<()> {
        if batch.len() > 1 {
            return Err(Error::panicked("several"));
        }
        self.0.lock().unwrap().push(batch.bytes().len());
        Ok(())
    }
}

impl DynCodec for Sizes {
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.record(batch)?;
        output.reject_all(batch.decode_with(|bytes, nodes, span| {
            if &bytes[span.range()] == b"bad" {
                return Err(Error::bad_data("bad"));
            }
            let root = u32::try_from(nodes.len()).unwrap();
            nodes.push(Node::string(span.start.into(), span.len));
            Ok(root)
        }));
        Ok(())
    }

    fn encode(&mut self, batch: &mut Batch, encoded: &mut Batch, _: &mut Output) -> Result<()> {
        self.record(batch)?;
        batch.encode_into(encoded, |_, bytes| {
            bytes.extend_from_copy_slice(b"encoded");
            Ok(())
        });
        Ok(())
    }
}

/// A call takes time linear in the size of its batch, so a call for one event must not get the bytes of all events.
#[test]
fn events_that_are_processed_alone_are_in_small_batches() {
    let sizes = Sizes::default();
    let make = sizes.clone();
    let codec = PluginCodec::new(maker(move || make.clone()));
    let mut batch = Batch::new();
    for number in 0..100 {
        batch.stream(number).push_message(if number == 7 { b"bad" } else { b"text" });
    }
    let Decoded { rejected, discarded } = codec.decoder().unwrap().decode_batch(&mut batch);
    assert_eq!((rejected.len(), rejected[0].event.stream, discarded), (1, 7, 0));
    assert_eq!(batch.original(&rejected[0].event), b"bad");
    let values = batch.iter().map(|it| it.value().unwrap().as_str().unwrap().to_owned());
    assert_eq!(values.collect::<Vec<_>>(), ["text"; 99]);
    let streams: Vec<_> = batch.events().iter().map(|it| it.stream).collect();
    assert_eq!(streams, (0..100).filter(|it| *it != 7).collect::<Vec<_>>());
    let (pool, terminator) = (Pool::new(1), Terminator::default());
    let (encoded, rejected) = codec.encoder().unwrap().encode_batch(&mut batch, &pool, &terminator);
    assert_eq!((encoded.len(), batch.len(), rejected.len()), (99, 99, 0));
    assert!(encoded.events().iter().all(|it| encoded.raw(it) == Some(b"encoded")));
    let sizes = sizes.0.lock().unwrap();
    assert_eq!(sizes.len(), 199);
    assert!(sizes.iter().all(|bytes| *bytes <= 4), "{sizes:?}");
}

/// The remaining messages are decoded by later calls.
#[test]
fn messages_are_decoded_alone_until_the_batch_is_heavy() {
    let codec = PluginCodec::new(maker(Sizes::default));
    let mut batch = Batch::new();
    (0..8).for_each(|number| batch.stream(number).push_message(&vec![b'x'; 1 << 20]));
    assert_eq!(codec.decoder().unwrap().decode_batch(&mut batch).rejected.len(), 0);
    let left = batch.take_undecoded().unwrap();
    assert_eq!((batch.len(), left.len()), (1, 7), "the batch was heavy before");
    assert_eq!(left.events()[0].stream, 1);
}
