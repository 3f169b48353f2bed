//! The few elements of XML that responses of S3 consist of. Attributes and nested elements of the same name do not
//! occur in these responses.

use std::borrow::Cow;

/// Returns the contents of each element `name`, in order.
pub(super) fn elements<'x>(xml: &'x str, name: &str) -> impl Iterator<Item = &'x str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(&open)?;
            let tag = &rest[at + open.len()..];
            let end = tag.find('>')?;
            rest = &tag[end + 1..];
            // The name of another element may begin with this name.
            if !tag.starts_with(['>', ' ', '\t', '\r', '\n', '/']) {
                continue;
            }
            if tag[..end].ends_with('/') {
                return Some("");
            }
            let length = rest.find(&close)?;
            let content = &rest[..length];
            rest = &rest[length + close.len()..];
            return Some(content);
        }
    })
}

/// Returns the text of the first element `name`.
pub(super) fn text<'x>(xml: &'x str, name: &str) -> Option<Cow<'x, str>> {
    elements(xml, name).next().map(unescape)
}

/// Replaces the references of a text, such as `&amp;` and `&#34;`. Unknown references are kept.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').filter(|end| *end <= 10);
        match end.and_then(|end| Some((end, reference(&rest[1..end])?))) {
            Some((end, char)) => {
                out.push(char);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out.into()
}

/// Returns the character of a reference, which is given without `&` and `;`.
fn reference(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// Appends `text` to the content of an element.
pub(super) fn escape(text: &str, out: &mut String) {
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{elements, escape, text};

    #[test]
    fn elements_are_found_by_their_whole_name() {
        let xml = "<?xml version=\"1.0\"?>\n<R xmlns=\"x\"><Keys>no</Keys><Key>a&amp;b&#x2F;</Key>\
                   <Key/><Key\n>c</Key></R>";
        assert_eq!(elements(xml, "Key").collect::<Vec<_>>(), ["a&amp;b&#x2F;", "", "c"]);
        assert_eq!(text(xml, "Key").unwrap(), "a&b/");
        assert_eq!(elements(xml, "R").next().map(str::len), Some(xml.len() - 39));
        assert_eq!(text(xml, "UploadId"), None);
    }

    #[test]
    fn malformed_text_has_no_elements() {
        for xml in
            ["", "<", "<Key", "<Key>", "<Key>a", "<Key>a</Ke", "Key>a</Key>", "<<Key", "<Key/"]
        {
            assert_eq!(text(xml, "Key"), None, "{xml}");
        }
        assert_eq!(text("<Key>&;&x;&#1114112;&</Key>", "Key").unwrap(), "&;&x;&#1114112;&");
    }

    proptest! {
        #[test]
        fn escaped_text_is_read_unchanged(value in any::<String>()) {
            let mut xml = "<A><Key>".to_owned();
            escape(&value, &mut xml);
            xml.push_str("</Key></A>");
            prop_assert_eq!(text(&xml, "Key").unwrap(), value);
        }

        #[test]
        fn any_text_can_be_searched(xml in "[<>/ Ka&;#x1é]{0,40}") {
            let _ = text(&xml, "K").map(|it| it.len());
            prop_assert!(elements(&xml, "K").count() <= 20);
        }
    }
}
