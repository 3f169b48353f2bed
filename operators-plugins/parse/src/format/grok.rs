//! Grok: regular expressions that are built from named patterns, as in Logstash.
//!
//! The named patterns are those of the crate `grok`. They use lookaround and atomic groups, which
//! the crate `regex` does not have, so they are compiled by `fancy-regex`. A match takes at most
//! [`STEPS`] steps of backtracking.

use std::collections::BTreeMap;

use fancy_regex::{Regex, RegexBuilder};
use grok::parser::{GrokComponent, GrokPatternError, grok_split};
use tremor_pdk::{Error, Result, Writer};

use crate::{
    config::Config,
    stop::Stop,
    types::{Type, Types},
};

/// Maximum number of steps of backtracking in a match, so that no text occupies a thread for long.
const STEPS: usize = 200_000;

/// Maximum length of an expanded pattern in bytes. Patterns that contain others can grow exponentially.
const EXPANDED: usize = 256 << 10;

/// Maximum depth of patterns within patterns.
const DEPTH: usize = 64;

/// A compiled grok pattern, and the fields that its parts become.
#[derive(Debug)]
pub(crate) struct Grok {
    regex: Regex,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    /// Number of the group in the regular expression.
    index: usize,
    name: String,
    of: Type,
}

/// Names of groups in the expanded pattern: this prefix and the position in [`Expansion::fields`].
const PREFIX: &str = "tremor_field_";

/// A pattern that is being expanded to a regular expression.
struct Expansion<'c> {
    own: Option<&'c BTreeMap<String, String>>,
    library: BTreeMap<&'static str, &'static str>,
    regex: String,
    /// Names and types of the parts that become fields.
    fields: Vec<(String, Type)>,
    /// Names of the patterns that are being expanded.
    open: Vec<String>,
}

impl Grok {
    /// Compiles the pattern of the configuration.
    ///
    /// # Errors
    /// The pattern is missing or invalid, uses an unknown pattern, or has no named part.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let Some(pattern) = config.pattern.as_deref() else {
            return Err(Error::configuration(
                "`format: grok` needs a `pattern`, such as `%{IP:client} %{WORD:method}`",
            ));
        };
        let mut expansion = Expansion {
            own: config.definitions.as_ref(),
            library: grok::patterns().iter().copied().collect(),
            regex: String::new(),
            fields: Vec::new(),
            open: Vec::new(),
        };
        expansion.expand(pattern)?;
        let Expansion { regex, fields, .. } = expansion;
        let names = group_names(&regex);
        let regex = RegexBuilder::new(&regex)
            .backtrack_limit(STEPS)
            .ignore_numbered_groups_when_named_groups_exist(true)
            .build()
            .map_err(|error| Error::configuration(format_args!("invalid `pattern`: {error}")))?;
        let types = Types::new(config.types.as_ref());
        let mut groups = Vec::new();
        let mut known = regex.capture_names().skip(1);
        let is_complete = names.len() + 1 == regex.captures_len()
            && names
                .iter()
                .all(|name| known.next().is_some_and(|it| it.is_none_or(|it| it == *name)));
        let names = if is_complete {
            names.into_iter().map(Some).collect()
        } else {
            // The pattern has syntax, such as comments, that only the crate knows. It finds one group for each name.
            regex.capture_names().skip(1).collect::<Vec<_>>()
        };
        for (index, name) in (1..).zip(names) {
            let Some(name) = name else { continue };
            let field = name
                .strip_prefix(PREFIX)
                .and_then(|number| fields.get(number.parse::<usize>().ok()?));
            let (name, of) = field.cloned().unwrap_or_else(|| (name.to_owned(), Type::String));
            let of = if of == Type::String { types.of(&name) } else { of };
            groups.push(Group { index, name, of });
        }
        if groups.is_empty() {
            return Err(Error::configuration(
                "invalid `pattern`: expected at least one part with the name of a field, such as `%{IP:client}`",
            ));
        }
        if let Some(name) = types.unknown(|name| groups.iter().any(|group| group.name == name)) {
            return Err(Error::configuration(format_args!(
                "invalid `types`: `pattern` has no field `{name}`"
            )));
        }
        Ok(Self { regex, groups })
    }

    /// Writes the texts of the named parts. Parts that take no part in the match are left out.
    pub(crate) fn pairs(&self, text: &str, out: &mut Writer<'_>) -> Result<(), Stop> {
        let captures = match self.regex.captures(text) {
            Ok(Some(captures)) => captures,
            Ok(None) => return Err(Stop::new(0, "a match of `pattern`")),
            Err(_) => {
                let expected = format!("a match of `pattern` within {STEPS} steps of backtracking");
                return Err(Stop::new(0, expected));
            }
        };
        for Group { index, name, of } in &self.groups {
            if let Some(found) = captures.get(*index) {
                out.key(name);
                of.write(found.as_str(), found.start(), out)?;
            }
        }
        Ok(())
    }
}

/// Returns the names of the named groups of a regular expression in the order of their numbers. The crate has a single
/// number for each name, but alternatives may have groups with the same name.
fn group_names(regex: &str) -> Vec<&str> {
    let bytes = regex.as_bytes();
    let (mut names, mut at, mut depth) = (Vec::new(), 0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        let rest = &bytes[at..];
        match byte {
            b'\\' => at += 1,
            b'[' => {
                // A `]` at the beginning of a class is a character of the class.
                let negation = usize::from(rest.starts_with(b"^"));
                at += negation + usize::from(rest[negation..].starts_with(b"]"));
                depth += 1;
            }
            b']' => depth = depth.saturating_sub(1),
            b'(' if depth == 0 => {
                let quotes: [(&[u8], u8); 3] = [(b"?<", b'>'), (b"?P<", b'>'), (b"?'", b'\'')];
                let quote = quotes.iter().find(|(open, _)| rest.starts_with(open));
                let Some((open, close)) = quote else { continue };
                let start = at + open.len();
                if matches!(bytes.get(start), Some(b'=' | b'!')) {
                    continue;
                }
                let Some(length) = memchr::memchr(*close, &bytes[start..]) else { continue };
                names.push(&regex[start..start + length]);
                at = start + length;
            }
            _ => {}
        }
    }
    names
}

impl Expansion<'_> {
    /// Appends the regular expression of a pattern.
    fn expand(&mut self, pattern: &str) -> Result<()> {
        for component in grok_split(pattern) {
            match component {
                GrokComponent::RegularExpression { string, .. } => self.regex.push_str(string),
                GrokComponent::PatternError(error) => {
                    let reason = match error {
                        GrokPatternError::InvalidCharacter(c) => {
                            format!("`{c}` is not allowed in `%{{…}}`")
                        }
                        GrokPatternError::InvalidPattern
                        | GrokPatternError::InvalidPatternDefinition => {
                            "expected `%{NAME}`, `%{NAME:field}` or `%{NAME:field:type}`".to_owned()
                        }
                    };
                    return Err(self.invalid(&reason));
                }
                GrokComponent::GrokPattern { range, name, alias, extract, definition, .. } => {
                    let of = Type::of_grok(extract).ok_or_else(|| {
                        self.invalid(&format_args!(
                            "unknown type `{extract}` at byte {}: expected `int`, `float`, `boolean` or `string`",
                            range.start
                        ))
                    })?;
                    if alias.is_empty() {
                        self.regex.push_str("(?:");
                    } else {
                        let group = format!("(?<{PREFIX}{}>", self.fields.len());
                        self.regex.push_str(&group);
                        self.fields.push((alias.to_owned(), of));
                    }
                    let own = self.own.and_then(|own| own.get(name));
                    let known = match own {
                        _ if !definition.is_empty() => definition.to_owned(),
                        Some(own) => own.clone(),
                        None => match self.library.get(name) {
                            Some(known) => (*known).to_owned(),
                            None => {
                                return Err(self.invalid(&format_args!(
                                    "unknown pattern `{name}` at byte {}: define it in `definitions`",
                                    range.start
                                )));
                            }
                        },
                    };
                    self.nested(name, &known)?;
                    self.regex.push(')');
                }
            }
            if self.regex.len() > EXPANDED {
                return Err(self.invalid(&format_args!(
                    "it has more than {EXPANDED} bytes when it is expanded"
                )));
            }
        }
        Ok(())
    }

    fn nested(&mut self, name: &str, pattern: &str) -> Result<()> {
        if self.open.iter().any(|open| open == name) {
            return Err(self.invalid(&format_args!("the pattern `{name}` contains itself")));
        }
        if self.open.len() == DEPTH {
            return Err(self.invalid(&format_args!("patterns are nested more than {DEPTH} times")));
        }
        self.open.push(name.to_owned());
        self.expand(pattern)?;
        self.open.pop();
        Ok(())
    }

    fn invalid(&self, reason: &dyn std::fmt::Display) -> Error {
        let within = match self.open.last() {
            Some(name) => format!(" (in the definition of `{name}`)"),
            None => String::new(),
        };
        Error::configuration(format_args!("invalid `pattern`: {reason}{within}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{
        format::Parser,
        testing::{parsed, try_parser},
    };

    fn parser(mut config: serde_json::Value) -> Result<Parser, String> {
        config["format"] = "grok".into();
        try_parser(config)
    }

    fn value(pattern: &str, text: &str) -> Result<String, String> {
        parsed(&mut parser(json!({ "pattern": pattern })).unwrap(), text)
    }

    #[test]
    fn usual_patterns_match() {
        for (pattern, text, expected) in [
            (
                "%{COMBINEDAPACHELOG}",
                r#"::1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326 "-" "Mozilla/4.08""#,
                r#"{"clientip":"::1","ident":"-","auth":"frank","timestamp":"10/Oct/2000:13:55:36 -0700","verb":"GET","request":"/a.gif","httpversion":"1.0","response":"200","bytes":"2326","referrer":"\"-\"","agent":"\"Mozilla/4.08\""}"#,
            ),
            (
                "%{SYSLOGLINE}",
                "Nov 26 16:20:00 web-1 sshd[4711]: Accepted publickey",
                r#"{"timestamp":"Nov 26 16:20:00","logsource":"web-1","program":"sshd","pid":"4711","message":"Accepted publickey"}"#,
            ),
            ("%{IPV4:a}|%{NUMBER:a:float}", "7.5", r#"{"a":7.5}"#),
            ("%{WORD:verb} %{NUMBER:n:int}", "get 7", r#"{"verb":"get","n":7}"#),
            (
                "(?<id>[0-9A-F]{10}): %{GREEDYDATA:rest}",
                "0123456789: x",
                r#"{"id":"0123456789","rest":"x"}"#,
            ),
            ("%{DAY:day=Tag}", "Tag", r#"{"day":"Tag"}"#),
        ] {
            assert_eq!(value(pattern, text).as_deref(), Ok(expected), "{pattern}");
        }
        let error = value("^%{INT:n}$", "x").unwrap_err();
        assert!(error.starts_with("expected a match of `pattern` at byte 0"), "{error}");
    }

    /// Logstash's regular expressions allow groups with the same name, and its users write them in alternatives.
    #[test]
    fn groups_of_the_same_name_all_count() {
        for (pattern, text, expected) in [
            ("(?<a>x)1|(?<a>y)2", "x1", r#"{"a":"x"}"#),
            ("(?<a>x)1|(?<a>y)2", "y2", r#"{"a":"y"}"#),
            ("(?<a>x)|%{INT:a:int}|(?P<a>z)|(?'a'u)", "7", r#"{"a":7}"#),
            ("(?<a>x)|%{INT:a:int}|(?P<a>z)|(?'a'u)", "z", r#"{"a":"z"}"#),
            ("(?<a>x)|%{INT:a:int}|(?P<a>z)|(?'a'u)", "u", r#"{"a":"u"}"#),
            ("%{WORD:a}=%{INT:b}|%{WORD:a}: %{WORD:b}", "k: v", r#"{"a":"k","b":"v"}"#),
            ("(?<a>x)(?:-(?<a>y))?", "x", r#"{"a":"x"}"#),
            ("(?<a>x)(?:-(?<a>y))?", "x-y", r#"{"a":"y"}"#),
            // Parts that only look like groups.
            (r"(?<=\()(?<a>x)(?<!y)|[](?<b>[^]()]]\((?<a>.)", "](z", r#"{"a":"z"}"#),
            (r"[[:alpha:](?<b>](y)\\(?<a>x)|(?<a>u)", "((", ""),
            (r"[[:alpha:](?<b>](y)\\(?<a>x)|(?<a>u)", r"(y\x", r#"{"a":"x"}"#),
            (r"[[:alpha:](?<b>](y)\\(?<a>x)|(?<a>u)", "u", r#"{"a":"u"}"#),
        ] {
            let found = value(pattern, text).unwrap_or_default();
            assert_eq!(found, expected, "{pattern} {text}");
        }
        let config = json!({
            "pattern": "(%{ONE}|%{TWO})", "types": { "n": "integer" },
            "definitions": { "ONE": "a=(?<n>[0-9]+)", "TWO": "b=(?<n>[0-9]+) %{WORD:w}" },
        });
        let mut parser = parser(config).unwrap();
        for (text, expected) in [("a=1", r#"{"n":1}"#), ("b=2 c", r#"{"n":2,"w":"c"}"#)] {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn all_patterns_of_the_library_compile() {
        let failed: Vec<_> = grok::patterns()
            .iter()
            .filter_map(|(name, _)| {
                parser(json!({ "pattern": format!("%{{{name}:field}}") })).err()
            })
            .collect();
        assert!(grok::patterns().len() > 250, "{}", grok::patterns().len());
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    fn backtracking_is_bounded() {
        let text = "a".repeat(40);
        let error = value("^(?<x>(?=a)(a+)+)b$", &text).unwrap_err();
        assert!(
            error.contains("200000 steps of backtracking") || error.contains("a match of"),
            "{error}"
        );
    }

    #[test]
    fn definitions_and_types_are_configurable() {
        let config = json!({
            "pattern": "%{PAIR} %{ORDER:order}",
            "definitions": { "PAIR": "%{WORD:a}-%{INT:b}", "ORDER": "[0-9]{4}" },
            "types": { "order": "integer" },
        });
        let text = parsed(&mut parser(config).unwrap(), "x-1 0042");
        assert_eq!(text.as_deref(), Ok(r#"{"a":"x","b":"1","order":42}"#));
    }

    #[test]
    fn mistakes_are_rejected() {
        for (config, expected) in [
            (json!({}), "needs a `pattern`"),
            (
                json!({ "pattern": "a %{NOPE:x}" }),
                "unknown pattern `NOPE` at byte 2: define it in `definitions`",
            ),
            (
                json!({ "pattern": "%{A:x}", "definitions": { "A": "b%{B}" } }),
                "unknown pattern `B` at byte 1: define it in `definitions` (in the definition of `A`)",
            ),
            (json!({ "pattern": "%{A:x}", "definitions": { "A": "%{A}" } }), "`A` contains itself"),
            (json!({ "pattern": "%{INT:x:date}" }), "unknown type `date` at byte 0"),
            (json!({ "pattern": "%{INT:x" }), "expected `%{NAME}`"),
            (json!({ "pattern": "%{INT}" }), "expected at least one part with the name"),
            (json!({ "pattern": "%{INT:x} (" }), "invalid `pattern`"),
            (json!({ "pattern": "%{INT:x}", "types": { "y": "float" } }), "has no field `y`"),
        ] {
            let error = parser(config).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let mut definitions = json!({ "P0": "x".repeat(100) });
        for n in 1..20 {
            definitions[format!("P{n}")] = format!("%{{P{0}}}%{{P{0}}}", n - 1).into();
        }
        let error =
            parser(json!({ "pattern": "%{P19:x}", "definitions": definitions })).unwrap_err();
        assert!(error.contains("bytes when it is expanded"), "{error}");
    }
}
