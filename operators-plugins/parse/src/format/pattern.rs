//! Regular expressions with named groups.

use std::convert::Infallible;

use regex::{CaptureLocations, Regex};
use regex_syntax::ast::{self, Ast, GroupKind, Span};
use tremor_pdk::{Error, Result, Writer};

use crate::{
    config::Config,
    stop::Stop,
    types::{Type, Types},
};

/// A compiled regular expression, and the fields that its groups become.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    locations: CaptureLocations,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    index: usize,
    name: String,
    of: Type,
}

impl Pattern {
    /// Compiles the pattern of the configuration.
    ///
    /// # Errors
    /// The pattern is missing or invalid, has a group without a name, or `types` names another group.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let Some(pattern) = config.pattern.as_deref() else {
            return Err(Error::configuration(
                "`format: regex` needs a `pattern`, such as `^(?<level>\\w+): (?<text>.*)$`",
            ));
        };
        check_groups(pattern)?;
        let regex = Regex::new(pattern)
            .map_err(|error| Error::configuration(format_args!("invalid `pattern`: {error}")))?;
        let types = Types::new(config.types.as_ref());
        let names = regex.capture_names().enumerate().skip(1);
        let groups: Vec<_> = names
            .filter_map(|(index, name)| {
                let name = name?;
                Some(Group { index, name: name.to_owned(), of: types.of(name) })
            })
            .collect();
        if let Some(name) = types.unknown(|name| groups.iter().any(|group| group.name == name)) {
            return Err(Error::configuration(format_args!(
                "invalid `types`: `pattern` has no group `{name}`"
            )));
        }
        Ok(Self { locations: regex.capture_locations(), regex, groups })
    }

    /// Writes the texts of the groups. Groups that take no part in the match are left out.
    pub(crate) fn pairs(&mut self, text: &str, out: &mut Writer<'_>) -> Result<(), Stop> {
        if self.regex.captures_read(&mut self.locations, text).is_none() {
            return Err(Stop::new(0, "a match of `pattern`"));
        }
        for Group { index, name, of } in &self.groups {
            if let Some((start, end)) = self.locations.get(*index) {
                out.key(name);
                of.write(&text[start..end], start, out)?;
            }
        }
        Ok(())
    }
}

/// Checks the syntax of a pattern, and that all its groups have names.
fn check_groups(pattern: &str) -> Result<()> {
    let parsed = ast::parse::Parser::new().parse(pattern).map_err(|error| {
        let (at, kind) = (error.span().start.offset, error.kind());
        Error::configuration(format_args!(
            "invalid `pattern`: {kind} at byte {at}{}",
            shown(pattern, at)
        ))
    })?;
    let Ok(groups) = ast::visit(&parsed, Groups { unnamed: None, named: 0 });
    if let Some(group) = groups.unnamed {
        let at = group.start.offset;
        return Err(Error::configuration(format_args!(
            "invalid `pattern`: the group at byte {at} has no name{}; begin it with `(?<NAME>`, or with \
             `(?:` if it is not a field",
            shown(pattern, at)
        )));
    }
    if groups.named == 0 {
        return Err(Error::configuration(
            "invalid `pattern`: expected at least one group with the name of a field, such as `(?<level>\\w+)`",
        ));
    }
    Ok(())
}

/// Returns the pattern from the byte `at`, for a message.
fn shown(pattern: &str, at: usize) -> String {
    let rest = pattern.get(at..).unwrap_or_default();
    let end = rest.char_indices().nth(16).map_or(rest.len(), |(end, _)| end);
    if rest.is_empty() { String::new() } else { format!(", before `{}`", &rest[..end]) }
}

/// The first group without a name, and the number of groups with a name.
struct Groups {
    unnamed: Option<Span>,
    named: usize,
}

impl ast::Visitor for Groups {
    type Output = Self;
    type Err = Infallible;

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), Infallible> {
        if let Ast::Group(group) = part {
            match &group.kind {
                GroupKind::CaptureIndex(_) => self.unnamed = self.unnamed.or(Some(group.span)),
                GroupKind::CaptureName { .. } => self.named += 1,
                GroupKind::NonCapturing(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{parsed, parser, try_parser};

    #[test]
    fn groups_become_fields_with_types() {
        let mut parser = parser(json!({
            "format": "regex", "pattern": r"^(?<level>\w+): (?:(?<n>\d+) )?(?P<text>.*)$",
            "types": { "n": "integer" },
        }));
        for (text, expected) in [
            ("warn: 7 left", r#"{"level":"warn","n":7,"text":"left"}"#),
            ("warn: left", r#"{"level":"warn","text":"left"}"#),
        ] {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("", "expected a match of `pattern` at byte 0, found the end of the text"),
            (
                "w: 99999999999999999999 x",
                "expected an integer of at most 64 bits at byte 3, found \"9999999999999999\"…",
            ),
        ] {
            assert_eq!(parsed(&mut parser, text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_in_the_pattern_have_their_position() {
        for (config, expected) in [
            (json!({ "format": "regex" }), "needs a `pattern`"),
            (
                json!({ "format": "regex", "pattern": "a(?<b>c" }),
                "unclosed group at byte 1, before `(?<b>c`",
            ),
            (
                json!({ "format": "regex", "pattern": "(?<a>.)(b)" }),
                "the group at byte 7 has no name, before `(b)`",
            ),
            (json!({ "format": "regex", "pattern": "abc" }), "at least one group with the name"),
            (json!({ "format": "regex", "pattern": "(?<a>.)\\p{Nope}" }), "invalid `pattern`"),
            (
                json!({ "format": "regex", "pattern": "(?<a>.)", "types": { "b": "float" } }),
                "has no group `b`",
            ),
        ] {
            let error = try_parser(config).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
