//! Check of JSON. For any bytes, the decoder accepts the message if and only if `serde_json` does, with the same value.
//! The value is encoded, and the output has to be decoded to the same value.

use serde_json::Value as Judged;
use tremor_abi::{document::Document, value::Value};
use tremor_runtime::codec::{
    Bytes, Nodes, Span,
    json::{DecodeOptions, Decoder, Encoder},
};

/// Options that remove the intended differences to `serde_json`: by default the decoder keeps
/// numbers as text that neither a 64-bit integer nor a float represents, and accepts deeper
/// nesting.
const OPTIONS: DecodeOptions = DecodeOptions { max_depth: 127, nearest_floats: true };

/// Bytes before the message and, in the next constant, bytes after it. They belong to other
/// messages.
const BEFORE: &[u8] = b"\"\\";
const BEHIND: &[u8] = b"]}\"";

/// Checks one message.
///
/// # Panics
/// The decoder and `serde_json` disagree.
pub(crate) fn check(message: &[u8]) {
    let judged = serde_json::from_slice::<Judged>(message);
    let (value, written) = match (read(message), judged) {
        (Ok(read), Ok(judged)) => {
            same(&judged, &read.0);
            read
        }
        (Err(_), Err(_)) => return,
        (ours, judged) => panic!("the codec: {ours:?}, serde_json: {judged:?}"),
    };
    let (again, written_again) = read(&written).expect("the output can be read");
    assert_eq!(format!("{again:?}"), format!("{value:?}"));
    assert_eq!(written_again, written);
    let judged = serde_json::from_slice(&written).expect("`serde_json` reads the output");
    same(&judged, &value);
}

/// Decodes a message that lies between others, and encodes its value again.
fn read(message: &[u8]) -> Result<(Value<'static>, Vec<u8>), String> {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a short message");
    let around = [BEFORE, message, BEHIND].concat();
    let (mut bytes, mut nodes) = (Bytes::from_slice(&around), Nodes::new());
    let span = Span { start: len(BEFORE), len: len(message) };
    let decoded = Decoder::new(OPTIONS).decode(&mut bytes, span, &mut nodes);
    assert_eq!(&bytes[..around.len()], around, "the input stays unchanged");
    let root = decoded.map_err(|error| {
        let position = error.position().unwrap_or_default();
        assert!(position <= message.len(), "{error}, of {} bytes", message.len());
        error.to_string()
    })?;
    let view = Document::validated(&bytes, &nodes, root).expect("a decoded document is valid");
    let (mut written, mut from_view) = (Bytes::new(), Bytes::new());
    let mut encoder = Encoder::default();
    encoder.document(&bytes, &nodes, root, &mut written).expect("a decoded value can be encoded");
    encoder.value(view, &mut from_view).expect("a decoded value can be encoded");
    assert_eq!(written, from_view, "both encoders agree");
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
    assert!(same_kind, "the codec: {ours:?}, serde_json: {judged:?}");
}

/// Compares floats. The decoder returns the float that is nearest to the text. The float of `serde_json` may differ
/// from it by one in the last digit.
fn near(judged: f64, ours: f64) -> bool {
    judged.is_sign_positive() == ours.is_sign_positive()
        && judged.to_bits().abs_diff(ours.to_bits()) <= 1
}
