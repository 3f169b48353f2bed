//! Encoding of messages.

use tremor_abi::{
    document::{MAX_DEPTH, Shape, ValueRef},
    value::Value,
};

use super::timestamp;
use crate::codec::{Error, buffer::Bytes, flattened::Keys, json, raw};

/// Keys of the format whose values are text.
const TEXTS: [&str; 3] = ["host", "short_message", "full_message"];

/// Appends the message of a value. After an error, the caller has to discard the appended bytes.
pub(in crate::codec) fn encode(
    json: &mut json::Encoder,
    value: ValueRef<'_>,
    out: &mut Bytes,
) -> Result<(), Error> {
    let Shape::Object(object) = value.shape() else {
        return Err(Error::expected("an object", value.shape()));
    };
    for key in ["host", "short_message"] {
        if object.get(key).is_none_or(ValueRef::is_null) {
            let missing = Error::bad_data(format!("expected text as `{key}`, found no such field"));
            return Err(missing.with_remedy("set it with the operator `set`"));
        }
    }
    // The keys of an object differ, so two fields can only get the same name from `_` before it or from nesting.
    let is_ambiguous = |(key, value): (&str, ValueRef<'_>)| {
        key.starts_with('_') || matches!(value.shape(), Shape::Object(_))
    };
    let names = object.iter().any(is_ambiguous).then(Keys::default);
    let mut message = Message { json, out, name: String::new(), names };
    message.append("{\"version\":\"1.1\"");
    for (key, value) in object {
        if !value.is_null() {
            message.field(key, value)?;
        }
    }
    message.append("}");
    let Message { out, names, .. } = message;
    names.map_or(Ok(()), |mut names| names.check(out))
}

struct Message<'o> {
    json: &'o mut json::Encoder,
    out: &'o mut Bytes,
    /// Name of the current additional field.
    name: String,
    /// Names of the additional fields, if one of them can occur twice.
    names: Option<Keys>,
}

impl Message<'_> {
    fn append(&mut self, text: &str) {
        self.out.extend_from_copy_slice(text.as_bytes());
    }

    fn key(&mut self, key: &str) {
        self.append(",\"");
        self.append(key);
        self.append("\":");
    }

    fn field(&mut self, key: &str, value: ValueRef<'_>) -> Result<(), Error> {
        let shape = value.shape();
        let wrong = |expected: &str| {
            Err(Error::expected(format_args!("{expected} as `{key}`"), value.shape()))
        };
        match key {
            "version" => {}
            "timestamp" => {
                let Some(timestamp) = value.whole().and_then(|it| i64::try_from(it).ok()) else {
                    return wrong("ns since the Unix epoch below 2^63");
                };
                self.key(key);
                timestamp::write(timestamp, self.out);
            }
            "level" => {
                let Some(level) = value.whole().filter(|level| (0..8).contains(level)) else {
                    return wrong("a number from 0 to 7");
                };
                self.key(key);
                self.append(itoa::Buffer::new().format(level));
            }
            _ if TEXTS.contains(&key) => {
                self.key(key);
                if matches!(shape, Shape::String(_)) {
                    self.json.value(value, self.out)?;
                } else {
                    self.append("\"");
                    if !raw::append_scalar(shape, self.out) {
                        return wrong("text");
                    }
                    self.append("\"");
                }
            }
            _ => {
                self.name.clear();
                if !key.starts_with('_') {
                    self.name.push('_');
                }
                self.additional(key, value, MAX_DEPTH)?;
            }
        }
        Ok(())
    }

    /// Appends an additional field, or those of an object. The name of the field is `self.name` followed by `key`.
    fn additional(&mut self, key: &str, value: ValueRef<'_>, depth: usize) -> Result<(), Error> {
        let before = self.name.len();
        self.name.push_str(key);
        match value.shape() {
            Shape::Null => {}
            Shape::Object(object) if depth > 0 => {
                self.name.push('_');
                for (key, value) in object {
                    self.additional(key, value, depth - 1)?;
                }
            }
            shape => self.value(shape, value)?,
        }
        self.name.truncate(before);
        Ok(())
    }

    fn value(&mut self, shape: Shape<'_>, value: ValueRef<'_>) -> Result<(), Error> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if self.name.len() < 2 || self.name == "_id" || !self.name.bytes().all(is_of_name) {
            return Err(Error::bad_data(format!(
                "invalid name {:?} of an additional field: expected ASCII letters and digits, `_`, \
                 `.` and `-`, and not `_id`",
                self.name
            ))
            .with_remedy("rename the field with the operator `select`"));
        }
        let name = std::mem::take(&mut self.name);
        self.key(&name);
        if let Some(names) = &mut self.names {
            // A quotation mark and a colon follow the name.
            let end = self.out.len() - 2;
            names.add(end - name.len()..end);
        }
        self.name = name;
        match shape {
            Shape::Bool(value) => self.append(if value { "\"true\"" } else { "\"false\"" }),
            Shape::Array(_) | Shape::Object(_) => {
                let mut text = Bytes::new();
                self.json.value(value, &mut text)?;
                let text = String::from_utf8_lossy(&text);
                self.json.value(Value::from(&*text).view(), self.out)?;
            }
            _ => self.json.value(value, self.out)?,
        }
        Ok(())
    }
}
