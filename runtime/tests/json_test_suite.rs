//! `JSONTestSuite` through our decoder: what must be accepted (`y_`), what must be rejected (`n_`), and
//! what an implementation may decide (`i_`), where the tables below say what ours decides.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tremor_runtime::codec::{
    Bytes, Nodes, Span,
    json::{DecodeOptions, Decoder, Encoder},
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

/// What the message is written as, or why it is rejected.
fn decode(message: &[u8], options: DecodeOptions) -> Result<String, String> {
    let (mut bytes, mut nodes) = (Bytes::from_slice(message), Nodes::new());
    let span = Span { start: 0, len: u32::try_from(message.len()).expect("a short message") };
    let decoded = Decoder::new(options).decode(&mut bytes, span, &mut nodes);
    let root = decoded.map_err(|error| error.to_string())?;
    let mut out = Bytes::new();
    Encoder::default().document(&bytes, &nodes, root, &mut out).expect("JSON");
    Ok(String::from_utf8(out.into()).expect("JSON is UTF-8"))
}

/// Those of the cases with this prefix of which the decoder's verdict is as said.
fn judged(prefix: &str, accepted: bool, options: DecodeOptions) -> BTreeSet<String> {
    let cases = cases().into_iter().filter(|(name, _)| name.starts_with(prefix));
    let judged = cases.filter(|(_, message)| decode(message, options).is_ok() == accepted);
    judged.map(|(name, _)| name).collect()
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[test]
fn what_is_json_is_accepted() {
    assert_eq!(judged("y_", false, DecodeOptions::default()), BTreeSet::new());
    assert_eq!(judged("y_", true, DecodeOptions::default()).len(), 95);
}

#[test]
fn what_is_not_json_is_rejected() {
    for big_integers_as_floats in [false, true] {
        let options = DecodeOptions { big_integers_as_floats, ..DecodeOptions::default() };
        assert_eq!(judged("n_", true, options), BTreeSet::new());
        assert_eq!(judged("n_", false, options).len(), 188);
    }
}

#[test]
fn what_is_accepted_means_the_same_to_the_judge() {
    for (name, message) in cases().into_iter().filter(|(name, _)| name.starts_with("y_")) {
        let ours = decode(&message, DecodeOptions::default()).expect(&name);
        let ours: serde_json::Value = serde_json::from_str(&ours).expect(&name);
        let judged: serde_json::Value = serde_json::from_slice(&message).expect(&name);
        assert_eq!(ours, judged, "{name}");
    }
}

/// Accepted, with what it is read as: floats too small for a float are zero, and depth has a limit.
const ACCEPTED: &[(&str, &str)] = &[
    ("i_number_double_huge_neg_exp", "[0.0]"),
    ("i_number_real_underflow", "[0.0]"),
    ("i_structure_500_nested_arrays", NESTED),
    ("i_structure_UTF-8_BOM_empty_object", "{}"),
];

const NESTED: &str = "500 arrays in each other";

/// Accepted where an integer beyond 64 bits may become a float.
const ACCEPTED_AS_FLOATS: &[(&str, &str)] = &[
    ("i_number_too_big_neg_int", "[-1.2312312312312312e+29]"),
    ("i_number_too_big_pos_int", "[1e+20]"),
    ("i_number_very_big_negative_int", "[-2.374623746732769e+47]"),
];

/// Other cases are rejected: text that is not UTF-8, half of a surrogate pair, and numbers that no float can hold.
#[test]
fn what_an_implementation_may_decide_is_decided_as_documented() {
    let exact = DecodeOptions::default();
    let floats = DecodeOptions { big_integers_as_floats: true, ..exact };
    let table = |rows: &[&[(&str, &str)]]| -> BTreeSet<String> {
        rows.concat().iter().map(|(name, _)| (*name).to_owned()).collect()
    };
    assert_eq!(judged("i_", true, exact), table(&[ACCEPTED]));
    assert_eq!(judged("i_", true, floats), table(&[ACCEPTED, ACCEPTED_AS_FLOATS]));
    let cases = cases();
    for (options, rows) in [(exact, ACCEPTED), (floats, ACCEPTED_AS_FLOATS)] {
        for (name, expected) in rows {
            let written = decode(&cases[*name], options).expect(name);
            let is_nested = *expected == NESTED && written == nested(500);
            assert!(is_nested || written == *expected, "{name}: {written}");
        }
    }
}
