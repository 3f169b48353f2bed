//! Tests that compare the codecs with independent implementations: `serde_json` for JSON, and `rmpv` for MessagePack.

use proptest::prelude::*;
use serde_json::Value as Json;
use tremor_runtime::codec::{Bytes, Error, Nodes, Span, json, msgpack};

fn len(message: &[u8]) -> u32 {
    u32::try_from(message.len()).expect("a short message")
}

/// Decodes JSON and encodes the result.
fn through_json(message: &[u8]) -> Result<Vec<u8>, Error> {
    let options = json::DecodeOptions { nearest_floats: true, ..Default::default() };
    let (mut bytes, mut nodes) = (Bytes::from_slice(message), Nodes::new());
    let span = Span { start: 0, len: len(message) };
    let root = json::Decoder::new(options).decode(&mut bytes, span, &mut nodes)?;
    let mut out = Bytes::new();
    json::Encoder::default().document(&bytes, &nodes, root, &mut out)?;
    Ok(out.into())
}

/// Decodes MessagePack and encodes the result.
fn through_msgpack(message: &[u8]) -> Result<Vec<u8>, Error> {
    let mut decoder = msgpack::Decoder::new(msgpack::DecodeOptions::default());
    let (mut bytes, mut nodes) = (Bytes::from_slice(message), Nodes::new());
    let span = Span { start: 0, len: len(message) };
    let root = decoder.decode(&mut bytes, span, &mut nodes)?;
    let mut out = Bytes::new();
    msgpack::Encoder::default().document(&bytes, &nodes, root, &mut out)?;
    Ok(out.into())
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ -~]{0,40}", 1 => any::<String>(), 1 => "[\"\\\\\n\t\u{0}é€😀]{0,9}"]
}

fn any_json() -> impl Strategy<Value = Json> {
    let finite = any::<f64>().prop_filter("JSON has finite numbers", |float| float.is_finite());
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        finite.prop_map(Json::from),
        any_text().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 100, 10, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..10).prop_map(Json::from),
            prop::collection::vec((any_text(), inner), 0..40)
                .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
        ]
    })
}

fn any_msgpack() -> impl Strategy<Value = rmpv::Value> {
    let data = || prop::collection::vec(any::<u8>(), 0..40);
    let kind =
        any::<i8>().prop_filter("timestamps are written in their smallest form", |k| *k != -1);
    let leaf = prop_oneof![
        Just(rmpv::Value::Nil),
        any::<bool>().prop_map(rmpv::Value::from),
        any::<i64>().prop_map(rmpv::Value::from),
        (-300_i64..300).prop_map(rmpv::Value::from),
        any::<u64>().prop_map(rmpv::Value::from),
        any::<f64>()
            .prop_filter("NaN is not equal to itself", |f| !f.is_nan())
            .prop_map(rmpv::Value::F64),
        any_text().prop_map(rmpv::Value::from),
        data().prop_map(rmpv::Value::Binary),
        (kind, data()).prop_map(|(kind, data)| rmpv::Value::Ext(kind, data)),
    ];
    leaf.prop_recursive(5, 100, 20, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(rmpv::Value::Array),
            prop::collection::btree_map(any_text(), inner, 0..20).prop_map(|pairs| {
                rmpv::Value::Map(
                    pairs.into_iter().map(|(key, value)| (key.into(), value)).collect(),
                )
            }),
        ]
    })
}

/// Returns messages in which some bytes were changed.
fn damaged(message: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let syntax = prop::sample::select(&b"{}[]:,\"\\ue0-.1 n\x00\xff\xc2\n"[..]);
    let byte = prop_oneof![2 => syntax, 1 => any::<u8>()];
    let damage = prop::collection::vec((any::<prop::sample::Index>(), byte), 0..3);
    (message, damage).prop_map(|(mut message, damage)| {
        for (index, byte) in damage {
            let index = index.index(message.len());
            message[index] = byte;
        }
        message
    })
}

proptest! {
    #[test]
    fn json_round_trip_matches_serde_json(value in any_json(), pretty in any::<bool>()) {
        let plain = serde_json::to_string(&value).expect("JSON");
        let message =
            if pretty { serde_json::to_string_pretty(&value).expect("JSON") } else { plain.clone() };
        let back = through_json(message.as_bytes()).expect("JSON");
        prop_assert_eq!(String::from_utf8(back).expect("UTF-8"), plain);
    }

    #[test]
    fn json_is_accepted_exactly_if_serde_json_accepts_it(message in damaged(
        any_json().prop_map(|value| value.to_string().into_bytes())
    )) {
        let judged = serde_json::from_slice::<Json>(&message);
        let ours = through_json(&message);
        prop_assert_eq!(ours.is_ok(), judged.is_ok(), "{:?} and {:?}", ours, judged);
    }

    #[test]
    fn msgpack_round_trip_matches_rmpv(value in any_msgpack()) {
        let mut message = Vec::new();
        rmpv::encode::write_value(&mut message, &value).expect("any value");
        let back = through_msgpack(&message).expect("MessagePack");
        let judged = rmpv::decode::read_value(&mut &back[..]).expect("MessagePack");
        prop_assert_eq!(judged, value);
        prop_assert_eq!(back, message);
    }

    #[test]
    fn accepted_msgpack_is_accepted_by_rmpv(message in damaged(
        any_msgpack().prop_map(|value| {
            let mut message = Vec::new();
            rmpv::encode::write_value(&mut message, &value).expect("any value");
            message
        })
    )) {
        if through_msgpack(&message).is_ok() {
            let mut rest = &message[..];
            prop_assert!(rmpv::decode::read_value(&mut rest).is_ok());
            prop_assert!(rest.is_empty());
        }
    }
}
