//! Checks of functions that parse a text to nested values.

use std::borrow::Cow;

use vrl::value::Value;

use super::{
    Arguments, Checked, ELEMENT, FIELD, MOST_LEVELS, MOST_STEPS, OBJECT, at_most, count, expands,
    fits, texts::separated,
};

/// Maximum bytes of a text that is parsed in quadratic time.
const MOST_QUADRATIC: usize = 256 << 10;

/// Maximum number of spaces that follow one another in CEF, for each of which the following ones are read again.
const MOST_SPACES: usize = 1_000;

/// Maximum number of attributes of an element, each of which is compared with the others.
const MOST_ATTRIBUTES: usize = 1_000;

/// Maximum number of aliases in YAML, each of which may repeat an anchor that contains other aliases. The crate limits
/// the repetitions to 100 for each event of the parser.
const ALIAS_FACTOR: usize = 100;

/// Returns the memory of the values that JSON, or a similar text, is parsed to.
fn structured(text: &[u8]) -> usize {
    let (mut bytes, mut quote, mut is_escaped) = (text.len(), false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = quote,
            b'"' => quote = !quote,
            _ if quote => {}
            b'{' => bytes += OBJECT,
            b'[' => bytes += ELEMENT,
            b',' => bytes += FIELD,
            _ => {}
        }
    }
    bytes
}

pub(crate) fn parse_json(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    expands(text.len(), OBJECT / 2, || structured(text))
}

/// The parser looks at all open brackets for each token.
pub(crate) fn parse_yaml(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    let brackets = count(text, |byte| byte == b'[' || byte == b'{');
    let steps = brackets.saturating_mul(text.len());
    at_most(steps, MOST_STEPS, "brackets multiplied by the bytes of the text")?;
    let has_aliases = text.contains(&b'*') && text.contains(&b'&');
    let factor = if has_aliases { ALIAS_FACTOR } else { 1 };
    expands(text.len(), OBJECT * factor, || {
        let values = count(text, |byte| b"\n,:-?[*".contains(&byte)) + 1;
        let objects = count(text, |byte| b"{\n-".contains(&byte));
        factor.saturating_mul(values * FIELD + objects * OBJECT) + text.len()
    })
}

/// Any byte from 0xa0 may begin a map, and any other byte may be a value.
pub(crate) fn parse_cbor(arguments: &Arguments<'_>) -> Checked {
    let data = arguments.bytes("value");
    expands(data.len(), OBJECT, || {
        let maps = count(data, |byte| (0xa0..=0xbf).contains(&byte));
        maps * OBJECT + data.len() * ELEMENT
    })
}

/// The memory of a message depends on its fields. A byte usually takes far less.
pub(crate) fn parse_proto(arguments: &Arguments<'_>) -> Checked {
    fits(arguments.bytes("value").len().saturating_mul(128))
}

pub(crate) fn parse_csv(arguments: &Arguments<'_>) -> Checked {
    let delimiter = arguments.bytes("delimiter").first().copied().unwrap_or(b',');
    separated(arguments.bytes("value"), |byte| byte == delimiter)
}

pub(crate) fn parse_tokens(arguments: &Arguments<'_>) -> Checked {
    separated(arguments.bytes("value"), |byte| b" \t\"[]".contains(&byte))
}

/// Each parameter becomes a field.
pub(crate) fn parse_query(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    expands(text.len(), FIELD, || (count(text, |byte| byte == b'&') + 1) * FIELD + text.len())
}

/// The text is searched from each field on for the delimiter of a key and its value, which may be far behind fields
/// without one.
pub(crate) fn parse_key_value(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    at_most(text.len(), MOST_QUADRATIC, "bytes of the text")?;
    if text.len().saturating_mul(text.len()) <= MOST_STEPS {
        return Ok(None);
    }
    let delimiter = |name, unless_set| {
        let delimiter = arguments.get(name).and_then(Value::to_str_lossy);
        delimiter.unwrap_or(Cow::Borrowed(unless_set))
    };
    let of_values = delimiter("key_value_delimiter", "=");
    let of_fields = delimiter("field_delimiter", " ");
    let text = String::from_utf8_lossy(text);
    let fields = |part: &str| part.matches(&*of_fields).count() + 1;
    let steps = text.split(&*of_values).map(|part| part.len().saturating_mul(fields(part)));
    let steps = steps.fold(0, usize::saturating_add);
    at_most(steps, MOST_STEPS, "steps of the search for the delimiter of a value")
}

pub(crate) fn parse_cef(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    at_most(text.len(), MOST_QUADRATIC, "bytes of the text")?;
    let words = text.split(|byte| !b" |".contains(byte));
    at_most(words.map(<[u8]>::len).max().unwrap_or(0), MOST_SPACES, "spaces in a row")
}

/// Elements of structured data become objects.
pub(crate) fn parse_syslog(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    expands(text.len(), OBJECT / 2, || {
        count(text, |byte| byte == b'[') * OBJECT
            + count(text, |byte| byte == b'=') * FIELD
            + text.len()
    })
}

/// A pattern may parse nested values and lists in the text.
pub(crate) fn parse_grok(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    expands(text.len(), OBJECT / 2, || {
        structured(text) + count(text, |byte| b" ,;=|&".contains(&byte)) * FIELD
    })
}

/// Each field of a line becomes an object with a copy of the name and the tags of the line.
pub(crate) fn parse_influxdb(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    let line = |line: &[u8]| {
        let series = line.windows(2).position(|it| it[0] != b'\\' && it[1] == b' ');
        let series = series.map_or(line.len(), |position| position + 1);
        let fields = count(&line[series..], |byte| byte == b'=');
        fields.saturating_mul(3 * OBJECT + series.saturating_mul(FIELD / 4))
    };
    let lines = text.split(|byte| *byte == b'\n').map(line);
    fits(lines.fold(0, usize::saturating_add))
}

pub(crate) fn parse_ruby_hash(arguments: &Arguments<'_>) -> Checked {
    let text = arguments.bytes("value");
    levels(text)?;
    expands(text.len(), OBJECT / 2, || {
        count(text, |byte| byte == b'{') * OBJECT
            + count(text, |byte| b",[".contains(&byte)) * FIELD
    })
}

/// Returns an error if brackets and braces are nested too deeply. Those in quoted text do not count.
fn levels(text: &[u8]) -> Checked {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for byte in text {
        match (quote, byte) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MOST_LEVELS {
            return at_most(depth, MOST_LEVELS, "nested levels");
        }
    }
    Ok(None)
}

pub(crate) fn parse_xml(arguments: &Arguments<'_>) -> Checked {
    let value = arguments.get("value").and_then(Value::to_str_lossy).unwrap_or_default();
    let (mut depth, mut elements, mut attributes, mut rest) =
        (0_usize, 0_usize, 0_usize, &value[..]);
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let opaque = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>")];
        if let Some((begin, end)) = opaque.iter().find(|(begin, _)| rest.starts_with(begin)) {
            let inner = &rest[begin.len()..];
            rest = inner.find(end).map_or("", |position| &inner[position..]);
        } else if rest.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else {
            let (end, found) = tag(rest);
            at_most(found, MOST_ATTRIBUTES, "attributes of an element")?;
            // An element without a body contains no others.
            depth += usize::from(!rest[..end].ends_with('/'));
            at_most(depth, MOST_LEVELS, "nested elements")?;
            elements += 1;
            attributes += found;
            rest = &rest[end..];
        }
    }
    // An element may have a text before and after each of its elements.
    let [prefix, key] = ["attr_prefix", "text_key"].map(|name| arguments.bytes(name).len());
    let elements = elements.saturating_mul(2 * OBJECT + 2 * key);
    fits(elements.saturating_add(attributes.saturating_mul(FIELD + prefix)))
}

/// Returns the position of the `>` that ends a tag, and the number of attributes of the tag. Values of attributes may
/// contain this character.
fn tag(text: &str) -> (usize, usize) {
    let (mut quote, mut attributes) = (None, 0);
    let end = text.bytes().position(|byte| {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'=') => attributes += 1,
            _ => {}
        }
        quote.is_none() && byte == b'>'
    });
    (end.unwrap_or(text.len()), attributes)
}
