//! References in values: `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}`.

mod environment;

pub use self::environment::Environment;
pub(crate) use self::environment::Missing;

use super::suggest::quote;

/// A part of the text of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    Text(&'t str),
    Reference(Reference<'t>),
}

/// Reference in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference<'t> {
    /// Text of the reference from `$` to `}`.
    pub(crate) written: &'t str,
    /// Start of the reference, in characters from the start of the text.
    pub(crate) at: usize,
    pub(crate) to: To<'t>,
}

/// Target of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To<'t> {
    Variable { name: &'t str, default: Option<&'t str> },
    File(&'t str),
}

/// Syntax error in a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Start of the reference, in characters from the start of the text.
    pub(crate) at: usize,
    /// Length of the reference, in characters.
    pub(crate) width: usize,
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

const FORMS: &str = "write `${env:NAME}`, `${env:NAME:-default}` or `${file:PATH}`; `$${` stands for \
                     the characters `${`";

/// Splits the text of a value at its references. `$${` is replaced by `${`.
///
/// # Errors
/// Returns the first syntax error.
pub(crate) fn split(text: &str) -> Result<Vec<Part<'_>>, Malformed> {
    let mut parts = Vec::new();
    let mut rest = text;
    // Position up to which characters were counted. The first value is in bytes, the second one in characters.
    let mut counted = (0, 0);
    while let Some(dollar) = next(rest) {
        let (before, from) = rest.split_at(dollar);
        if let Some(after) = from.strip_prefix("$$") {
            // `$${` is an escaped `${`, so the first `$` is dropped.
            parts.extend([Part::Text(before), Part::Text("${")]);
            rest = &after["{".len()..];
            continue;
        }
        parts.push(Part::Text(before));
        let start = text.len() - from.len();
        counted = (start, counted.1 + text[counted.0..start].chars().count());
        let at = counted.1;
        let Some(end) = from.find('}') else {
            let message = "expected `}` after `${`, found the end of the text".to_owned();
            return Err(Malformed { at, width: from.chars().count(), message, help: FORMS });
        };
        let (written, after) = from.split_at(end + 1);
        let to = to(&written["${".len()..written.len() - 1]).map_err(|(message, help)| {
            Malformed { at, width: written.chars().count(), message, help }
        })?;
        parts.push(Part::Reference(Reference { written, at, to }));
        rest = after;
    }
    parts.push(Part::Text(rest));
    parts.retain(|part| *part != Part::Text(""));
    Ok(parts)
}

/// Returns the position of the next `${` or `$${`, in bytes.
fn next(text: &str) -> Option<usize> {
    let brace = text.find("${")?;
    Some(if text[..brace].ends_with('$') { brace - 1 } else { brace })
}

fn to(inside: &str) -> Result<To<'_>, (String, &'static str)> {
    let wrong = |message: String| (message, FORMS);
    let Some((kind, of)) = inside.split_once(':') else {
        return Err(wrong(format!(
            "expected `env:` or `file:` after `${{`, found {}",
            quote(inside)
        )));
    };
    match kind {
        "env" => {
            let (name, default) = match of.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (of, None),
            };
            if !is_variable(name) {
                let message = format!("expected the name of a variable, found {}", quote(name));
                return Err((
                    message,
                    "a name consists of letters, digits and `_`, and does not start with a digit",
                ));
            }
            if default.is_some_and(|default| default.contains("${")) {
                let message = "the default of a reference contains another reference".to_owned();
                return Err((
                    message,
                    "a default is plain text; set the variable where the flow runs",
                ));
            }
            Ok(To::Variable { name, default })
        }
        "file" if of.is_empty() => {
            Err(wrong("expected a path after `file:`, found nothing".into()))
        }
        "file" => Ok(To::File(of)),
        _ => Err(wrong(format!("expected `env:` or `file:` after `${{`, found {}", quote(kind)))),
    }
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::{Part, Reference, To, split};

    /// Returns the parts of a text, with references in angle brackets.
    fn parts(text: &str) -> Vec<String> {
        let shown = |part: &Part<'_>| match part {
            Part::Text(text) => (*text).to_owned(),
            Part::Reference(Reference { at, to: To::Variable { name, default }, .. }) => {
                format!("<{at} env {name} {}>", default.unwrap_or("none"))
            }
            Part::Reference(Reference { at, to: To::File(path), .. }) => {
                format!("<{at} file {path}>")
            }
        };
        split(text).unwrap_or_else(|error| panic!("{error:?}")).iter().map(shown).collect()
    }

    #[test]
    fn references_can_be_anywhere_in_a_text() {
        assert_eq!(parts("plain $ {x} $x"), ["plain $ {x} $x"]);
        assert_eq!(parts("${env:A}"), ["<0 env A none>"]);
        assert_eq!(
            parts("ä${env:A_1}b${file:../x y}"),
            ["ä", "<1 env A_1 none>", "b", "<12 file ../x y>"]
        );
        assert_eq!(parts("${env:A:-}${env:B:-a:-b $c}"), ["<0 env A >", "<10 env B a:-b $c>"]);
        assert!(parts("").is_empty());
    }

    #[test]
    fn text_with_many_references_is_split_in_one_pass() {
        let text = "ä${env:A}".repeat(100_000);
        let parts = split(&text).expect("references");
        let Some(Part::Reference(last)) = parts.last() else { panic!("{:?}", parts.last()) };
        assert_eq!((parts.len(), last.at), (200_000, 9 * 100_000 - 8));
    }

    #[test]
    fn two_dollars_are_replaced_by_one() {
        assert_eq!(parts("$${env:A}"), ["${", "env:A}"]);
        assert_eq!(parts("a$${b${env:C}"), ["a", "${", "b", "<5 env C none>"]);
        assert_eq!(parts("$$ $$$"), ["$$ $$$"]);
    }

    #[test]
    fn malformed_reference_is_an_error_with_its_position() {
        for (text, at, width, message) in [
            ("a ${env:A", 2, 7, "expected `}` after `${`, found the end of the text"),
            ("${}", 0, 3, "expected `env:` or `file:` after `${`, found ``"),
            ("${HOME}", 0, 7, "expected `env:` or `file:` after `${`, found `HOME`"),
            ("x${vault:a}", 1, 10, "expected `env:` or `file:` after `${`, found `vault`"),
            ("${env:1A}", 0, 9, "expected the name of a variable, found `1A`"),
            ("${env:}", 0, 7, "expected the name of a variable, found ``"),
            ("${env:A-b}", 0, 10, "expected the name of a variable, found `A-b`"),
            ("${file:}", 0, 8, "expected a path after `file:`, found nothing"),
            ("${env:A:-${env:B}}", 0, 17, "the default of a reference contains another reference"),
        ] {
            let error = split(text).expect_err(text);
            assert_eq!((error.at, error.width, &*error.message), (at, width, message), "{text}");
        }
    }
}
