//! Check of MessagePack. For any bytes, the decoder accepts the message if and only if `rmpv` does, with the same
//! value, except for data that the decoder rejects by design. The value is encoded, and the output has to be decoded to
//! the same value.

use rmpv::Value as Judged;
use tremor_abi::{
    document::Document,
    literal,
    value::{Array, Object, Value},
};
use tremor_runtime::codec::{
    Bytes, Nodes, Span,
    msgpack::{DecodeOptions, Decoder, Encoder},
};

const MAX_DEPTH: usize = 100;

const BEFORE: &[u8] = b"\xdc";
const BEHIND: &[u8] = b"\xc0\xc0\xc0";

/// Checks one message.
///
/// # Panics
/// The decoder and `rmpv` disagree.
pub(crate) fn check(message: &[u8]) {
    let mut rest = message;
    let judged = rmpv::decode::read_value(&mut rest);
    let (value, written) = match (read(message), judged) {
        (Ok(read), Ok(judged)) => {
            assert!(rest.is_empty(), "{} bytes follow the value", rest.len());
            let expected = expected(&judged, 0).expect("a decoded value can be converted");
            assert_eq!(format!("{:?}", read.0), format!("{expected:?}"));
            read
        }
        (Err(_), Err(_)) => return,
        // `rmpv` reads the unused format byte 0xc1 as nil.
        (Err(error), Ok(_)) if error.starts_with("invalid MessagePack format 0xc1 ") => return,
        (Err(_), Ok(_)) if !rest.is_empty() => return,
        (Err(error), Ok(judged)) => {
            assert!(expected(&judged, 0).is_none(), "{error}: {judged:?}");
            return;
        }
        (Ok(read), Err(error)) => panic!("the codec: {read:?}, rmpv: {error}"),
    };
    let (again, written_again) = read(&written).expect("the output can be read");
    // Do not compare with the message: an object that represents an extension may have its keys in another order.
    assert_eq!(again, value);
    assert_eq!(written_again, written);
}

/// Decodes a message that lies between others, and encodes its value again.
fn read(message: &[u8]) -> Result<(Value<'static>, Vec<u8>), String> {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a short message");
    let around = [BEFORE, message, BEHIND].concat();
    let (mut bytes, mut nodes) = (Bytes::from_slice(&around), Nodes::new());
    let span = Span { start: len(BEFORE), len: len(message) };
    let mut decoder = Decoder::new(DecodeOptions { max_depth: MAX_DEPTH });
    let decoded = decoder.decode(&mut bytes, span, &mut nodes);
    assert_eq!(&bytes[..around.len()], around, "the input stays unchanged");
    let root = decoded.map_err(|error| {
        assert!((bytes.len(), nodes.len()) == (around.len(), 0), "an error leaves no output");
        let position = error.position().unwrap_or_default();
        assert!(position <= message.len(), "{error}, of {} bytes", message.len());
        error.to_string()
    })?;
    let view = Document::validated(&bytes, &nodes, root).expect("a decoded document is valid");
    let (mut written, mut from_view) = (Bytes::new(), Bytes::new());
    Encoder::default()
        .document(&bytes, &nodes, root, &mut written)
        .expect("any value can be encoded");
    Encoder::default().value(view, &mut from_view).expect("any value can be encoded");
    assert_eq!(written, from_view, "both encoders agree");
    Ok((view.to_value(), written.into()))
}

/// Returns the expected value for a value of `rmpv` that is nested in `depth` containers. Returns `None` if the decoder
/// rejects the value by design: because of keys that are not text, text that is not UTF-8, or too deep nesting.
fn expected(judged: &Judged, depth: usize) -> Option<Value<'static>> {
    let deeper = depth + if matches!(judged, Judged::Ext(..)) { 2 } else { 1 };
    let is_container = matches!(judged, Judged::Array(_) | Judged::Map(_) | Judged::Ext(..));
    if is_container && deeper > MAX_DEPTH {
        return None;
    }
    Some(match judged {
        Judged::Nil => Value::Null,
        Judged::Boolean(value) => Value::Bool(*value),
        Judged::Integer(value) => match value.as_i64() {
            Some(value) => Value::I64(value),
            None => Value::U64(value.as_u64()?),
        },
        Judged::F32(value) => Value::F64(f64::from(*value)),
        Judged::F64(value) => Value::F64(*value),
        Judged::String(text) => Value::from(text.as_str()?.to_owned()),
        Judged::Binary(data) => Value::Bytes(data.clone().into()),
        Judged::Array(elements) => {
            let elements = elements.iter().map(|element| expected(element, deeper));
            Value::Array(elements.collect::<Option<Vec<_>>>().map(Array::from)?)
        }
        Judged::Map(pairs) => {
            let mut object = Object::new();
            for (key, value) in pairs {
                let Judged::String(key) = key else { return None };
                object.insert(key.as_str()?.to_owned(), expected(value, deeper)?);
            }
            Value::Object(object)
        }
        Judged::Ext(kind, data) => extension(*kind, data),
    })
}

/// Returns the value of an extension, according to the specification of timestamps.
fn extension(kind: i8, data: &[u8]) -> Value<'static> {
    let number =
        |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let timestamp = match (kind, data.len()) {
        (-1, 4) => Some((number(data), 0)),
        (-1, 8) => Some((number(data) & ((1 << 34) - 1), number(data) >> 34)),
        (-1, 12) => Some((number(&data[4..]), number(&data[..4]))),
        _ => None,
    };
    match timestamp {
        Some((seconds, nanoseconds)) if nanoseconds < 1_000_000_000 => {
            let seconds = seconds.cast_signed();
            literal!({ "$timestamp": { "seconds": seconds, "nanoseconds": nanoseconds } })
        }
        _ => literal!({ "$ext": { "type": kind, "data": data.to_vec() } }),
    }
}
