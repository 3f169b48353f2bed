//! Texts with the values of fields, such as `{host}/{%file.name}`.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use tremor_pdk::{EventRef, PathError, Shape, ValueRef};

use super::field::Field;

/// A text in which fields in braces are replaced by their values. `{{` and `}}` are braces of the text.
///
/// `{FIELD:-DEFAULT}` is replaced by the default if the event has no text for the field. Values that have text are
/// texts, numbers and truth values. Without a default, a template with such a field has no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Box<[Part]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Field { field: Field, default: Option<Box<str>> },
}

/// A syntax error of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateError {
    /// Offset of the error, in bytes from the start of the text.
    offset: usize,
    expected: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid template: expected {} at offset {}", self.expected, self.offset)
    }
}

impl std::error::Error for TemplateError {}

/// A field that a template needs, but that has no text in an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoText<'t> {
    field: &'t Field,
    /// Type of the value, or `None` if the event does not have the field.
    found: Option<&'static str>,
}

impl fmt::Display for NoText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.unwrap_or("no such field");
        write!(f, "expected text, a number or a truth value as `{}`, found {found}", self.field)
    }
}

impl Template {
    /// Appends the text of the template for an event. After an error, `out` is unchanged.
    ///
    /// # Errors
    /// Returns the first field that has neither text nor a default.
    pub(crate) fn render<'t>(
        &'t self,
        event: EventRef<'_>,
        out: &mut String,
    ) -> Result<(), NoText<'t>> {
        let before = out.len();
        for part in &self.0 {
            let (field, default) = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Field { field, default } => (field, default),
            };
            let shape = field.get(event).map(ValueRef::shape);
            if shape.is_some_and(|shape| push(shape, out)) {
                continue;
            }
            match default {
                Some(default) => out.push_str(default),
                None => {
                    out.truncate(before);
                    return Err(NoText { field, found: shape.map(|found| found.name()) });
                }
            }
        }
        Ok(())
    }

    /// Returns the fields that the template reads.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Field { field, .. } => Some(field),
        })
    }
}

/// Appends text, a number or a truth value. Returns `false` for a value of another type.
#[inline]
fn push(value: Shape<'_>, out: &mut String) -> bool {
    match value {
        Shape::String(text) | Shape::Number(text) => out.push_str(text),
        Shape::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        Shape::I64(number) => out.push_str(itoa::Buffer::new().format(number)),
        Shape::U64(number) => out.push_str(itoa::Buffer::new().format(number)),
        Shape::F64(number) if number.is_finite() => {
            out.push_str(zmij::Buffer::new().format_finite(number));
        }
        _ => return false,
    }
    true
}

/// Returns the length of the path at the start of `text`: up to `}` or `:` outside of quotes, or the whole text.
fn path_length(text: &str) -> usize {
    let (mut in_quotes, mut is_escaped) = (false, false);
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            b'}' | b':' if !in_quotes => return position,
            _ => {}
        }
    }
    text.len()
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let error =
            |offset, expected: &str| TemplateError { offset, expected: expected.to_owned() };
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut at = 0;
        while let Some(length) = text[at..].find(['{', '}']) {
            plain.push_str(&text[at..at + length]);
            at += length;
            let rest = &text[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push_str(&rest[..1]);
                at += 2;
                continue;
            }
            if rest.starts_with('}') {
                return Err(error(at, "`}}` for a brace of the text, or `{` before the field"));
            }
            let start = at + 1;
            let end = start + path_length(&text[start..]);
            let field: Field = text[start..end]
                .parse()
                .map_err(|invalid: PathError| error(start + invalid.offset, invalid.expected))?;
            if start == end {
                return Err(error(start, "a field, or `{{` for a brace of the text"));
            }
            let (default, behind) = match text[end..].strip_prefix(":-") {
                None => (None, end),
                Some(default) => {
                    let behind = default.find('}').map_or(text.len(), |length| end + 2 + length);
                    (Some(text[end + 2..behind].into()), behind)
                }
            };
            if !text[behind..].starts_with('}') {
                return Err(error(behind, "`}` after the field, or `:-` and a default"));
            }
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain).into()));
            }
            parts.push(Part::Field { field, default });
            at = behind + 1;
        }
        plain.push_str(&text[at..]);
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Ok(Self(parts.into()))
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format_args!("`{text}`: {error}")))
    }
}

impl JsonSchema for Template {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A text with fields in braces, such as `{host}/{%file.name}` or \
                `{level:-none}` with a default; `{{` and `}}` are braces.",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tremor_pdk::{Batch, literal};

    use super::Template;

    fn rendered(template: &str) -> Result<String, String> {
        let mut batch = Batch::new();
        let event = json!({
            "host": "h", "n": -3, "big": u64::MAX, "f": 1.5, "yes": true, "none": null,
            "list": ["first"], "odd}:- key": "odd", "object": {},
        });
        batch.push(&event).unwrap();
        batch.last_mut().unwrap().set_metadata(literal!({ "file": { "name": "x.log" } }));
        let template: Template = template.parse().map_err(|error| format!("{error}"))?;
        let mut out = "before ".to_owned();
        let result = template.render(batch.get(0).unwrap(), &mut out);
        let text = out.strip_prefix("before ").unwrap().to_owned();
        result.map(|()| text.clone()).map_err(|error| {
            assert_eq!(text, "");
            error.to_string()
        })
    }

    #[test]
    fn fields_are_replaced_by_their_text() {
        for (template, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{host}/{%file.name}", "h/x.log"),
            ("{.host} {n} {big} {f} {yes}", "h -3 18446744073709551615 1.5 true"),
            ("{{{host}}} }}{{", "{h} }{"),
            ("{\"odd}:- key\"}!", "odd!"),
            ("{list[0]}", "first"),
            ("{x:-none} {none:-}{host:-other}{object:-a:-b}", "none ha:-b"),
            ("ä{host}ä", "ähä"),
        ] {
            assert_eq!(rendered(template).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn field_without_text_or_default_is_an_error() {
        for (template, field, found) in [
            ("a{x}", "x", "no such field"),
            ("{host}{%x.y}", "%x.y", "no such field"),
            ("{none}", "none", "null"),
            ("{list}", "list", "an array"),
            ("{object}", "object", "an object"),
        ] {
            let expected =
                format!("expected text, a number or a truth value as `{field}`, found {found}");
            assert_eq!(rendered(template), Err(expected), "{template}");
        }
    }

    #[test]
    fn syntax_error_has_its_position() {
        for (template, offset) in [
            ("{host", 5),
            ("a}", 1),
            ("ab{}", 3),
            ("{a..b}", 2),
            ("{host:x}", 5),
            ("{host:-x", 8),
            ("{%a b}", 3),
            ("{\"a}", 1),
            ("{host}{", 7),
        ] {
            let error = template.parse::<Template>().unwrap_err();
            assert_eq!(error.offset, offset, "{template}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_template_panics(text in "[a{}:\\-.%\"\\\\\\[\\]0ä]{0,16}") {
            let _ = rendered(&text);
        }

        #[test]
        fn escaped_text_is_itself(text in "[a{}ä ]{0,16}") {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(rendered(&escaped), Ok(text));
        }
    }
}
