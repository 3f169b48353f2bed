//! Keys that represent values as bytes, which maps can store and compare.

use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;
use tremor_abi::document::{MAX_DEPTH, NumberForm, Shape};
use tremor_pdk::ValueRef;
use twox_hash::XxHash3_128;

/// Maximum length of a key in bytes. A longer key is replaced by its beginning and its 128-bit hash, so that a map with
/// a limited number of keys takes limited memory.
pub(super) const MAX_LENGTH: usize = 128;

/// A reusable buffer in which the key of one or several values is built.
///
/// Equal values have equal keys, in whatever form they are stored: 1 and 1.0 are equal, and so are objects that differ
/// only in the order of their keys. Values that are not equal have different keys. For keys longer than [`MAX_LENGTH`],
/// this is not certain: two 128-bit hashes, with a seed of this process, may coincide.
pub(super) struct KeyBuffer {
    bytes: Vec<u8>,
    seed: u64,
}

const MISSING: u8 = 0;
const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const INTEGER: u8 = 4;
const LARGE_INTEGER: u8 = 5;
const FLOAT: u8 = 6;
const TEXT: u8 = 7;
const BINARY: u8 = 8;
const ARRAY: u8 = 9;
const OBJECT: u8 = 10;
const DECIMAL: u8 = 11;

impl KeyBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), seed: DefaultHashBuilder::default().hash_one(0) }
    }

    /// Begins a new key.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends a value, or a marker for a missing value.
    #[inline]
    pub(super) fn push(&mut self, value: Option<ValueRef<'_>>) {
        match value {
            None => self.bytes.push(MISSING),
            Some(value) => match value.text_bytes() {
                Some(text) => self.data(TEXT, text),
                None => self.other(value, MAX_DEPTH),
            },
        }
    }

    /// Returns a hash of the values that were appended. The hash is the same in every process.
    pub(super) fn stable_hash(&self) -> u64 {
        u64::try_from(XxHash3_128::oneshot(&self.bytes) >> 64).unwrap_or_default()
    }

    /// Returns the key of the values that were appended.
    #[inline]
    pub(super) fn key(&mut self) -> &[u8] {
        if self.bytes.len() > MAX_LENGTH {
            let hash = XxHash3_128::oneshot_with_seed(self.seed, &self.bytes).to_le_bytes();
            self.bytes.truncate(MAX_LENGTH - hash.len());
            self.bytes.extend_from_slice(&hash);
        }
        &self.bytes
    }

    #[inline]
    fn data(&mut self, kind: u8, data: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&data.len().to_le_bytes());
        self.bytes.extend_from_slice(data);
    }

    fn number(&mut self, kind: u8, bits: u64) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&bits.to_le_bytes());
    }

    fn other(&mut self, value: ValueRef<'_>, depth: usize) {
        if let Some(integer) = value.as_i64() {
            return self.number(INTEGER, integer.cast_unsigned());
        }
        if let Some(integer) = value.as_u64() {
            return self.number(LARGE_INTEGER, integer);
        }
        match value.shape() {
            Shape::Bool(value) => self.bytes.push(if value { TRUE } else { FALSE }),
            Shape::F64(float) => self.form(NumberForm::of_float(float)),
            Shape::Number(text) => self.form(NumberForm::new(text)),
            Shape::String(text) => self.data(TEXT, text.as_bytes()),
            Shape::Bytes(data) => self.data(BINARY, data),
            Shape::Array(array) if depth > 0 => {
                self.bytes.push(ARRAY);
                self.bytes.extend_from_slice(&array.iter().count().to_le_bytes());
                array.iter().for_each(|element| self.other(element, depth - 1));
            }
            Shape::Object(object) if depth > 0 => {
                let mut entries: Vec<_> = object.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                self.bytes.push(OBJECT);
                self.bytes.extend_from_slice(&entries.len().to_le_bytes());
                for (key, value) in entries {
                    self.data(TEXT, key.as_bytes());
                    self.other(value, depth - 1);
                }
            }
            _ => self.bytes.push(NULL),
        }
    }

    /// Appends a number. Numbers of equal value have the same form.
    fn form(&mut self, form: NumberForm) {
        match form {
            NumberForm::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => self.number(INTEGER, value.cast_unsigned()),
                (_, Ok(value)) => self.number(LARGE_INTEGER, value),
                _ => self.data(DECIMAL, value.to_string().as_bytes()),
            },
            NumberForm::Float(value) => self.number(FLOAT, value.to_bits()),
            NumberForm::Decimal(text) => self.data(DECIMAL, text.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tremor_abi::value::Number;
    use tremor_pdk::{Value, ValueRef, literal};

    use super::{KeyBuffer, MAX_LENGTH};

    fn number(text: &'static str) -> Value<'static> {
        Value::Number(Number::new(text).expect("a JSON number"))
    }

    fn key(buffer: &mut KeyBuffer, values: &[Option<&Value<'_>>]) -> Vec<u8> {
        buffer.clear();
        values.iter().for_each(|value| buffer.push(value.map(ValueRef::from)));
        buffer.key().to_vec()
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "that is what is tested")]
    fn keys_are_equal_if_and_only_if_values_are() {
        let values = [
            literal!(null),
            literal!(true),
            literal!(false),
            literal!(0),
            literal!(-0.0),
            literal!(1),
            literal!(1.0),
            literal!(1.5),
            literal!(-1),
            literal!(f64::NAN),
            literal!(-f64::NAN),
            literal!(f64::INFINITY),
            literal!(i64::MIN),
            literal!(i64::MIN as f64),
            literal!(i64::MAX),
            literal!(i64::MAX as f64),
            literal!(i64::MAX as u64 + 1),
            literal!(u64::MAX),
            literal!(u64::MAX as f64),
            literal!(1e300),
            number("1.0"),
            number("15e-1"),
            number("1.50"),
            literal!(0.1),
            number("0.10"),
            number("0.1000000000000000055511151231257827"),
            literal!(9_223_372_036_854_776_000_u64),
            number("9223372036854776e3"),
            number("18446744073709551616"),
            number("18446744073709551617"),
            number("18446744073709551617.0"),
            number("1.50000000000000000001"),
            number("1e400"),
            number("10e399"),
            literal!("1"),
            literal!(""),
            Value::Bytes(b"1".to_vec().into()),
            literal!([]),
            literal!([1]),
            literal!([1.0, null]),
            literal!({}),
            literal!({ "a": 1, "b": [2] }),
            literal!({ "b": [2.0], "a": 1 }),
            literal!({ "a": 1, "b": [3] }),
        ];
        let mut buffer = KeyBuffer::new();
        for a in &values {
            for b in &values {
                let keys = (key(&mut buffer, &[Some(a)]), key(&mut buffer, &[Some(b)]));
                assert_eq!(keys.0 == keys.1, a == b, "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn key_separates_values_and_includes_missing_ones() {
        let (a, ab, b, bc, c) = ("a".into(), "ab".into(), "b".into(), "bc".into(), "c".into());
        let (null, nested) = (literal!(null), literal!(["a", "b"]));
        let mut buffer = KeyBuffer::new();
        let keys = [
            &[Some(&ab), Some(&c)][..],
            &[Some(&a), Some(&bc)],
            &[Some(&a), Some(&b)],
            &[Some(&nested)],
            &[Some(&a), None],
            &[None, Some(&a)],
            &[Some(&a), Some(&null)],
            &[Some(&a)],
            &[],
        ]
        .map(|values| key(&mut buffer, values));
        for (position, a) in keys.iter().enumerate() {
            assert!(!keys[..position].contains(a), "key {position}");
        }
    }

    #[test]
    fn long_key_is_shortened_and_still_distinguishes_values() {
        let mut buffer = KeyBuffer::new();
        let long = |last: char| Value::from("x".repeat(10_000) + &last.to_string());
        let keys = ['a', 'b', 'a'].map(|last| key(&mut buffer, &[Some(&long(last))]));
        assert!(keys.iter().all(|key| key.len() == MAX_LENGTH));
        assert!(keys[0] == keys[2] && keys[0] != keys[1]);
    }
}
