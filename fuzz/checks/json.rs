//! Any bytes as JSON: our decoder takes what `serde_json` takes, for the same value, and what is
//! written of it is read as the same again.

use serde_json::Value as Judged;
use tremor_abi::{document::Document, value::Value};
use tremor_runtime::codec::{
    Bytes, Nodes, Span,
    json::{DecodeOptions, Decoder, Encoder},
};

/// What differs by intention, levelled: our decoder takes integers beyond 64 bits for floats only
/// when asked to, and nests deeper than the judge.
const OPTIONS: DecodeOptions = DecodeOptions { max_depth: 127, big_integers_as_floats: true };

/// Bytes before and behind the message, which belong to its neighbours.
const BEFORE: &[u8] = b"\"\\";
const BEHIND: &[u8] = b"]}\"";

/// # Panics
/// Where decoder and judge differ.
pub(crate) fn check(message: &[u8]) {
    let judged = serde_json::from_slice::<Judged>(message);
    let (value, written) = match (read(message), judged) {
        (Ok(read), Ok(judged)) => {
            same(&judged, &read.0);
            read
        }
        (Err(_), Err(_)) => return,
        (ours, judged) => panic!("ours: {ours:?}, the judge's: {judged:?}"),
    };
    let (again, written_again) = read(&written).expect("it is read as it was written");
    assert_eq!(format!("{again:?}"), format!("{value:?}"));
    assert_eq!(written_again, written);
    let judged = serde_json::from_slice(&written).expect("the judge reads it as well");
    same(&judged, &value);
}

/// The value of a message that lies among others, and how it is written.
fn read(message: &[u8]) -> Result<(Value<'static>, Vec<u8>), String> {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a short message");
    let around = [BEFORE, message, BEHIND].concat();
    let (mut bytes, mut nodes) = (Bytes::from_slice(&around), Nodes::new());
    let span = Span { start: len(BEFORE), len: len(message) };
    let decoded = Decoder::new(OPTIONS).decode(&mut bytes, span, &mut nodes);
    assert_eq!(&bytes[..around.len()], around, "what was there stays as it is");
    let root = decoded.map_err(|error| {
        let position = error.position().unwrap_or_default();
        assert!(position <= message.len(), "{error}, of {} bytes", message.len());
        error.to_string()
    })?;
    let view = Document::validated(&bytes, &nodes, root).expect("the decoder makes documents");
    let (mut written, mut from_view) = (Bytes::new(), Bytes::new());
    let mut encoder = Encoder::default();
    encoder.document(&bytes, &nodes, root, &mut written).expect("what was JSON is JSON");
    encoder.value(view, &mut from_view).expect("what was JSON is JSON");
    assert_eq!(written, from_view, "both ways of writing agree");
    Ok((view.to_value(), written.into()))
}

fn same(judged: &Judged, ours: &Value<'_>) {
    let same_kind = match (judged, ours) {
        (Judged::Null, Value::Null) => true,
        (Judged::Bool(judged), Value::Bool(ours)) => judged == ours,
        (Judged::String(judged), Value::String(ours)) => **judged == **ours,
        (Judged::Number(judged), Value::I64(ours)) => judged.as_i64() == Some(*ours),
        (Judged::Number(judged), Value::U64(ours)) => judged.as_u64() == Some(*ours),
        (Judged::Number(judged), Value::F64(ours)) => {
            judged.is_f64() && judged.as_f64().is_some_and(|judged| near(judged, *ours))
        }
        (Judged::Array(judged), Value::Array(ours)) => {
            judged.iter().zip(ours).for_each(|(judged, ours)| same(judged, ours));
            judged.len() == ours.len()
        }
        (Judged::Object(judged), Value::Object(ours)) => {
            for (key, judged) in judged {
                same(judged, ours.get(key).unwrap_or_else(|| panic!("{key:?} is missing")));
            }
            judged.len() == ours.len()
        }
        _ => false,
    };
    assert!(same_kind, "ours: {ours:?}, the judge's: {judged:?}");
}

/// The judge's floats may be off by one in the last place; ours are the nearest.
fn near(judged: f64, ours: f64) -> bool {
    judged.is_sign_positive() == ours.is_sign_positive()
        && judged.to_bits().abs_diff(ours.to_bits()) <= 1
}
