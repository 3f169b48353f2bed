//! The codec `logfmt`.
//!
//! A message is a list of pairs with spaces in between: `key=value`, `key="a value"` with `\"` and
//! `\\` for what they stand for, or `key` alone. It decodes to an object: values are strings, and
//! `true` where there is a key alone. An object whose values are scalars can be encoded.

use tremor_pdk::{NoConfig, Shape, prelude::*};

/// The codec. The buffer is for strings with escapes.
#[derive(Default)]
pub struct Logfmt {
    unescaped: String,
}

impl Component for Logfmt {
    const NAME: &str = "logfmt";
    const DESCRIPTION: &str = "Pairs of keys and values: level=warn msg=\"disk full\".";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self::default())
    }
}

impl Codec for Logfmt {
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

    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()> {
        let Some(object) = value.as_object() else {
            return Err(Error::bad_data(format!("logfmt holds objects, not {value}")));
        };
        for (position, (key, value)) in object.iter().enumerate() {
            if key.is_empty() || key.contains(['=', ' ', '"', '\n']) {
                return Err(Error::bad_data(format!("logfmt cannot hold the key `{key}`")));
            }
            if position > 0 {
                message.push(b' ');
            }
            message.extend_from_copy_slice(key.as_bytes());
            match value.shape() {
                Shape::Bool(true) => {}
                Shape::String(text) => {
                    message.push(b'=');
                    push_text(text, message);
                }
                Shape::Array(_) | Shape::Object(_) | Shape::Bytes(_) => {
                    return Err(Error::bad_data(format!("logfmt cannot hold `{key}`: {value}")));
                }
                _ => message.extend_from_copy_slice(format!("={value}").as_bytes()),
            }
        }
        Ok(())
    }
}

impl Logfmt {
    /// Reads a quoted value up to its closing quote; gives what is behind that.
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

fn push_text(text: &str, message: &mut ByteBuffer) {
    let is_plain = !text.is_empty() && !text.contains(['=', ' ', '"', '\\']);
    if is_plain {
        return message.extend_from_copy_slice(text.as_bytes());
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    message.extend_from_copy_slice(format!("\"{escaped}\"").as_bytes());
}
