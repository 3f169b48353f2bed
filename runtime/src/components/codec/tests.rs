use std::sync::Arc;

use tremor_abi::{
    ByteBuffer,
    batch::{HostBatch, Payload, Pool},
};
use tremor_pdk::{Batch, Document, Error, ErrorKind, Output, Result};

use super::{Maker, PluginCodec};
use crate::{
    clock::Clock,
    codec::{MakeCodec, Terminator},
    dynamic::DynCodec,
    watchdog::Calls,
};

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

    let codec = PluginCodec::new(Maker {
        connector: "output".to_owned(),
        part: "codec `x`".to_owned(),
        make: Box::new(move || Ok(Box::new(Codec(encode)))),
        calls: Arc::<Calls>::default(),
        clock: Clock::simulated(0),
    });
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
