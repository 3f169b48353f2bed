//! The codec `keyvalue`, a simple form of logfmt.
//!
//! A message is a list of pairs with spaces in between: `key=value`, `key="a value"` with the escapes `\"` and `\\`, or
//! only `key`. A message decodes to an object. Values are strings, and `true` for a key without a value. Objects whose
//! values are scalars can be encoded.

use tremor_pdk::{NoConfig, Shape, prelude::*};

/// Decodes and encodes pairs of keys and values.
#[derive(Default)]
pub struct KeyValue {
    /// Last quoted value that was decoded, without its escapes.
    unescaped: String,
}

impl Component for KeyValue {
    const NAME: &str = "keyvalue";
    const DESCRIPTION: &str = "Pairs of keys and values: level=warn msg=\"disk full\".";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self::default())
    }
}

impl Codec for KeyValue {
    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()> {
        let text = std::str::from_utf8(message).map_err(Error::bad_data)?;
        value.begin_object();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let end = rest.find(['=', ' ']).unwrap_or(rest.len());
            let (key, behind) = rest.split_at(end);
            if key.is_empty() {
                let at = text.len() - rest.len();
                return Err(Error::bad_data(format!("expected a key at byte {at}")));
            }
            value.key(key);
            rest = match behind.strip_prefix('=') {
                None => {
                    value.bool(true);
                    behind
                }
                Some(quoted) if quoted.starts_with('"') => {
                    let behind = self.quoted(&quoted[1..]).ok_or_else(|| {
                        Error::bad_data(format!("the value of `{key}` has no closing quote"))
                    })?;
                    value.str(&self.unescaped);
                    behind
                }
                Some(plain) => {
                    let (plain, behind) = plain.split_at(plain.find(' ').unwrap_or(plain.len()));
                    value.str(plain);
                    behind
                }
            }
            .trim_start();
        }
        value.end_object();
        Ok(())
    }

    fn encode(&mut self, value: ValueRef<'_>, message: &mut Message<'_>) -> Result<()> {
        let Some(object) = value.as_object() else {
            return Err(Error::bad_data(format!("expected an object, found {value}")));
        };
        for (position, (key, value)) in object.iter().enumerate() {
            if key.is_empty() || key.contains(['=', ' ', '"', '\n']) {
                return Err(Error::bad_data(format!("cannot write the key `{key}`")));
            }
            if position > 0 {
                message.push(b' ');
            }
            message.extend_from_slice(key.as_bytes());
            match value.shape() {
                Shape::Bool(true) => {}
                Shape::String(text) => {
                    message.push(b'=');
                    push_text(text, message);
                }
                Shape::Array(_) | Shape::Object(_) | Shape::Bytes(_) => {
                    return Err(Error::bad_data(format!("cannot write `{key}`: {value}")));
                }
                _ => message.extend_from_slice(format!("={value}").as_bytes()),
            }
        }
        Ok(())
    }
}

impl KeyValue {
    /// Reads a quoted value, whose opening quote precedes `text`, into `unescaped`. Returns the text after the closing
    /// quote, or `None` if there is no closing quote.
    fn quoted<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        self.unescaped.clear();
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => return Some(&text[at + 1..]),
                '\\' => self.unescaped.push(characters.next()?.1),
                _ => self.unescaped.push(character),
            }
        }
        None
    }
}

fn push_text(text: &str, message: &mut Message<'_>) {
    let is_plain = !text.is_empty() && !text.contains(['=', ' ', '"', '\\']);
    if is_plain {
        return message.extend_from_slice(text.as_bytes());
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    message.extend_from_slice(format!("\"{escaped}\"").as_bytes());
}
