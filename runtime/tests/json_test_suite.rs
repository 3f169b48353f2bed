//! Runs `JSONTestSuite` with the project's decoder. Messages with the prefix `y_` have to be accepted and those with
//! `n_` rejected. An implementation may accept or reject those with `i_`; the tables below list what this decoder does.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tremor_abi::batch::Pool;
use tremor_pdk::{Batch, EventRef};
use tremor_runtime::{
    codec::{
        Bytes, Nodes, Span,
        json::{DecodeOptions, Decoder, Encoder},
    },
    components,
};

#[derive(Deserialize)]
#[serde(untagged)]
enum Case {
    Text(String),
    Bytes(Vec<u8>),
}

fn cases() -> BTreeMap<String, Vec<u8>> {
    let cases: BTreeMap<String, Case> =
        serde_json::from_str(include_str!("../../tests/fixtures/json_test_suite/cases.json"))
            .expect("the cases");
    let bytes = |case| match case {
        Case::Text(text) => text.into_bytes(),
        Case::Bytes(bytes) => bytes,
    };
    let mut cases: BTreeMap<_, _> =
        cases.into_iter().map(|(name, case)| (name, bytes(case))).collect();
    let large = [
        ("n_structure_100000_opening_arrays", "[".repeat(100_000)),
        ("n_structure_open_array_object", "[{\"\":".repeat(50_000) + "\n"),
    ];
    cases.extend(large.map(|(name, text)| (name.to_owned(), text.into_bytes())));
    assert_eq!(cases.len(), 318, "all of the suite");
    cases
}

/// Decodes a message, and returns it encoded again, or the error.
fn decode(message: &[u8], options: DecodeOptions) -> Result<String, String> {
    let (mut bytes, mut nodes) = (Bytes::from_slice(message), Nodes::new());
    let span = Span { start: 0, len: u32::try_from(message.len()).expect("a short message") };
    let decoded = Decoder::new(options).decode(&mut bytes, span, &mut nodes);
    let root = decoded.map_err(|error| error.to_string())?;
    let mut out = Bytes::new();
    Encoder::default().document(&bytes, &nodes, root, &mut out).expect("JSON");
    Ok(String::from_utf8(out.into()).expect("JSON is UTF-8"))
}

/// Returns the cases with this prefix that the decoder accepts if `accepted` is set, and otherwise those that it
/// rejects.
fn judged(prefix: &str, accepted: bool, options: DecodeOptions) -> BTreeSet<String> {
    let cases = cases().into_iter().filter(|(name, _)| name.starts_with(prefix));
    let judged = cases.filter(|(_, message)| decode(message, options).is_ok() == accepted);
    judged.map(|(name, _)| name).collect()
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[test]
fn valid_json_is_accepted() {
    assert_eq!(judged("y_", false, DecodeOptions::default()), BTreeSet::new());
    assert_eq!(judged("y_", true, DecodeOptions::default()).len(), 95);
}

#[test]
fn invalid_json_is_rejected() {
    for nearest_floats in [false, true] {
        let options = DecodeOptions { nearest_floats, ..DecodeOptions::default() };
        assert_eq!(judged("n_", true, options), BTreeSet::new());
        assert_eq!(judged("n_", false, options).len(), 188);
    }
}

#[test]
fn accepted_json_equals_value_of_serde_json() {
    for (name, message) in cases().into_iter().filter(|(name, _)| name.starts_with("y_")) {
        let ours = decode(&message, DecodeOptions::default()).expect(&name);
        let ours: serde_json::Value = serde_json::from_str(&ours).expect(&name);
        let judged: serde_json::Value = serde_json::from_slice(&message).expect(&name);
        assert_eq!(ours, judged, "{name}");
    }
}

/// Optional cases that are accepted, apart from numbers, with their values.
const ACCEPTED: &[(&str, &str)] =
    &[("i_structure_500_nested_arrays", NESTED), ("i_structure_UTF-8_BOM_empty_object", "{}")];

const NESTED: &str = "500 arrays in each other";

/// Optional cases of numbers that are within the range of floats.
const WITHIN_FLOATS: &[&str] = &[
    "i_number_double_huge_neg_exp",
    "i_number_real_underflow",
    "i_number_too_big_neg_int",
    "i_number_too_big_pos_int",
    "i_number_very_big_negative_int",
];

/// The optional cases that are rejected have text that is not UTF-8, or half of a surrogate pair.
#[test]
fn optional_cases_are_decided_as_documented() {
    let exact = DecodeOptions::default();
    let mut others = judged("i_", true, exact);
    others.retain(|name| !name.starts_with("i_number_"));
    assert_eq!(others, ACCEPTED.iter().map(|(name, _)| (*name).to_owned()).collect());
    let cases = cases();
    for (name, expected) in ACCEPTED {
        let written = decode(&cases[*name], exact).expect(name);
        let is_nested = *expected == NESTED && written == nested(500);
        assert!(is_nested || written == *expected, "{name}: {written}");
    }
}

#[test]
fn optional_numbers_pass_through_unchanged() {
    let numbers = cases().into_iter().filter(|(name, _)| name.starts_with("i_number_"));
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(numbers.len(), 10);
    for (name, message) in numbers {
        let written = decode(&message, DecodeOptions::default()).expect(&name);
        assert_eq!(written.as_bytes(), message.trim_ascii(), "{name}");
    }
}

#[test]
fn optional_numbers_are_limited_if_read_as_floats() {
    let floats = DecodeOptions { nearest_floats: true, ..DecodeOptions::default() };
    let accepted = judged("i_number_", true, floats);
    assert_eq!(accepted, WITHIN_FLOATS.iter().map(|name| (*name).to_owned()).collect());
}

/// Returns the message as it leaves unedited, or `None` if it is rejected.
fn passed_through(message: &[u8]) -> Option<Vec<u8>> {
    let codec = components::codec("json", &serde_json::Value::Null).expect("a codec");
    let mut batch = Batch::new();
    batch.push_message(message);
    codec.decoder().decode_batch(&mut batch);
    let (encoded, rejected) = codec.encoder().encode_batch(&mut batch, &Pool::new(1));
    assert!(rejected.is_empty(), "{rejected:?}");
    encoded.first().and_then(EventRef::raw).map(<[u8]>::to_vec)
}

/// Messages with line breaks between tokens and messages with duplicate keys are encoded instead.
#[test]
fn accepted_messages_pass_through_byte_for_byte() {
    let (mut passed, mut encoded) = (0, Vec::new());
    for (name, message) in cases() {
        let Some(text) = passed_through(&message) else { continue };
        let came = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&message).trim_ascii();
        if came.contains(&b'\n') || name.contains("duplicated_key") {
            let value = |text| serde_json::from_slice::<serde_json::Value>(text).expect(&name);
            assert_eq!(value(&text), value(came), "{name}");
            encoded.push(name);
        } else {
            assert_eq!(text, came, "{name}");
        }
        passed += 1;
    }
    assert_eq!(passed, 95 + ACCEPTED.len() + 10, "`y_`, and the accepted ones of `i_`");
    assert_eq!(encoded.len(), 4, "{encoded:?}");
}
