//! Conversion of a configuration from the form in which the host passes it to the type of the component.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tremor_abi::{
    document::reader,
    value::{Value, to_value},
};

use crate::{Error, Result};

/// The configuration of a component that has nothing to configure.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// Converts a configuration. A missing configuration is treated as an empty configuration. In a field of the type
/// [`Value`], each number keeps its value, and each object the order of its keys. A field of another type gets the
/// nearest float of a number that no 64-bit integer or float represents exactly.
///
/// # Errors
/// Returns an error of the kind configuration with the key, the value that was found and the value that was expected.
/// The host adds the name of the component.
pub fn read<C: DeserializeOwned>(config: impl Serialize) -> Result<C> {
    let config = match to_value(&config).map_err(Error::configuration)? {
        Value::Null => Value::object(),
        config => config,
    };
    serde_path_to_error::deserialize(reader(config.view())).map_err(|error| {
        let key = error.path().to_string();
        let error = Error::configuration(error.into_inner());
        // The path `.` stands for the whole configuration, so there is no key to name.
        if key == "." { error } else { error.context(format_args!("`{key}`")) }
    })
}

/// Returns the text of a configuration key that is used unchanged, such as a path or a URL: `{{name}}` becomes `{name}`.
///
/// Call this in the constructor for each key in which an author of a flow may expect that a placeholder such as
/// `{hostname}` is replaced. All other braces are kept, for example those of JSON and of `{a,b}`.
///
/// ```
/// # use tremor_pdk::without_placeholders;
/// assert_eq!(without_placeholders("path", "logs/{a,b}/{{c}}.log")?, "logs/{a,b}/{c}.log");
/// let error = without_placeholders("path", "logs/{hostname}.log").unwrap_err();
/// assert!(error.to_string().contains("`${env:HOSTNAME}`"));
/// # Ok::<_, tremor_pdk::Error>(())
/// ```
///
/// # Errors
/// Returns an error of the kind configuration if the text has a placeholder. The error does not contain the other text,
/// which may be secret.
pub fn without_placeholders(key: &str, text: &str) -> Result<String> {
    let mut plain = String::with_capacity(text.len());
    match scan(text, &mut plain) {
        Some(name) => Err(has_placeholder(key, name)),
        None => Ok(plain),
    }
}

/// Returns the first placeholder of a text without its braces, such as `host` in `logs/{host}.log`. Braces that
/// [`without_placeholders`] keeps are not placeholders.
///
/// The runtime warns of placeholders in keys in which nothing replaces them.
#[must_use]
pub fn placeholder(text: &str) -> Option<&str> {
    scan(text, &mut String::new())
}

/// Appends the text up to the first placeholder to `plain`. Returns the placeholder without its braces.
fn scan<'t>(text: &'t str, plain: &mut String) -> Option<&'t str> {
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        if let Some(name) = from.strip_prefix("{{").and_then(name_at)
            && let Some(after) = from[2 + name.len()..].strip_prefix("}}")
        {
            plain.extend(["{", name, "}"]);
            rest = after;
            continue;
        }
        if let Some(name) = name_at(&from[1..]).filter(|_| !plain.ends_with('$')) {
            return Some(name);
        }
        plain.push('{');
        rest = &from[1..];
    }
    plain.push_str(rest);
    None
}

/// Like [`without_placeholders`], for the value of the header `name` in the key `headers`. The value of a header whose
/// name stands for credentials is returned unchanged, because a token or a password may contain any braces.
///
/// # Errors
/// Returns the errors of [`without_placeholders`].
pub fn header_without_placeholders(name: &str, value: &str) -> Result<String> {
    if names_credentials(name) {
        return Ok(value.to_owned());
    }
    without_placeholders(&format!("headers.{name}"), value)
}

/// Returns whether the name of a header stands for credentials, such as `authorization` and `x-api-key`. The value of
/// such a header is neither a template nor text with placeholders, because a token or a password may contain any braces.
#[must_use]
pub fn names_credentials(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    CREDENTIALS.iter().any(|word| lower.contains(word))
}

/// Parts of the names of headers whose values are credentials, such as `proxy-authorization` and `x-api-key`.
const CREDENTIALS: [&str; 7] =
    ["auth", "cookie", "credential", "key", "password", "secret", "token"];

/// Like [`without_placeholders`], for a key whose value is a path.
///
/// # Errors
/// Returns the errors of [`without_placeholders`].
pub fn path_without_placeholders(key: &str, path: PathBuf) -> Result<PathBuf> {
    match path.to_str() {
        Some(text) => Ok(without_placeholders(key, text)?.into()),
        None => Ok(path),
    }
}

/// Returns the name of the placeholder whose text after `{` begins with `rest`, such as `hostname`, `%file.name` or
/// `host:-none`. Returns `None` if the braces contain anything else.
fn name_at(rest: &str) -> Option<&str> {
    let (inside, _) = rest.split_once('}')?;
    let name = inside.split_once(":-").map_or(inside, |(name, _)| name);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || "_%.".contains(c));
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "_%.-".contains(c));
    // Identifiers of 16 bytes are often written in braces.
    let is_uuid = name.len() == 36 && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    (begins && is_name && !is_uuid).then_some(inside)
}

fn has_placeholder(key: &str, name: &str) -> Error {
    let is_variable = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let variable = if is_variable { name.to_ascii_uppercase() } else { "NAME".to_owned() };
    Error::configuration(format!(
        "`{key}`: nothing replaces `{{{name}}}`, because this key has no placeholders; write `${{env:{variable}}}` for \
         a variable of the environment, or `{{{{{name}}}}}` for the text `{{{name}}}`"
    ))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};
    use tremor_abi::{literal, value::Number};

    use super::{header_without_placeholders, placeholder, read, without_placeholders};

    #[derive(Debug, Default, Deserialize, PartialEq, Eq)]
    #[serde(default, deny_unknown_fields)]
    struct Config {
        addresses: Vec<Address>,
    }

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    struct Address {
        port: u16,
    }

    #[test]
    fn error_names_the_key_and_the_expected_value() {
        let error = |config: Value| read::<Config>(config).unwrap_err().to_string();
        let ports = json!({ "addresses": [{ "port": 1 }, { "port": "ftp" }] });
        let expected = "`addresses[1].port`: invalid type: string \"ftp\", expected u16";
        assert_eq!(error(ports), expected);
        assert_eq!(error(json!({ "addresses": [{}] })), "`addresses[0]`: missing field `port`");
        assert!(error(json!({ "adresses": [] })).contains("expected `addresses`"));
        assert_eq!(error(json!(true)), "invalid type: boolean `true`, expected struct Config");
    }

    #[test]
    fn constants_keep_their_numbers_and_the_order_of_keys() {
        #[derive(Deserialize)]
        struct Constant {
            value: tremor_abi::value::Value<'static>,
            rate: f64,
        }
        let number = |text: &'static str| {
            tremor_abi::value::Value::Number(Number::new(text).expect("a JSON number"))
        };
        let pi = number("3.14159265358979323846");
        let config = literal!({
            "value": { "b": pi.clone(), "a": number("1e400"), "c": [1, 2.0] }, "rate": pi,
        });
        let Constant { value, rate } = read(&config).unwrap();
        let expected = r#"{"b":3.14159265358979323846,"a":1e400,"c":[1,2.0]}"#;
        assert_eq!(value.to_string(), expected);
        assert!((rate - std::f64::consts::PI).abs() < f64::EPSILON);
    }

    #[test]
    fn placeholders_are_rejected_and_other_braces_are_kept() {
        for text in [
            "out.log",
            r#"{"a": {"b": 1}}"#,
            r#"{"host":{"name":"x"}}"#,
            "logs/{a,b}.log",
            "a{}b{",
            "x{2}",
            "{3F2504E0-4F89-11D3-9A0C-0305E82C3301}",
            "{F3504E02-4F89-11D3-9A0C-0305E82C3301}",
            "a%7Bhost%7D",
            "${host}",
            "}{",
            "{ host }",
        ] {
            assert_eq!(without_placeholders("path", text).unwrap(), text);
        }
        for (text, name) in [
            ("out/{hostname}.log", "hostname"),
            ("{%file.name}", "%file.name"),
            ("a{b}", "b"),
            ("{{b}", "b"),
            ("{host:-none}", "host:-none"),
            ("{.a.b-c}", ".a.b-c"),
        ] {
            let error = without_placeholders("path", text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`path`: nothing replaces `{{{name}}}`")),
                "{error}"
            );
        }
        assert_eq!(placeholder("a/{{x}}/{b}/{c}"), Some("b"));
        assert_eq!(placeholder("a/{{x}}/{b,c}"), None);
        let written = without_placeholders("path", "a/{{hostname}}-{{x:-y}}").unwrap();
        assert_eq!(written, "a/{hostname}-{x:-y}");
    }

    #[test]
    fn credentials_in_headers_are_used_unchanged() {
        for name in ["Authorization", "proxy-authorization", "X-Api-Key", "cookie"] {
            for text in ["Bearer s3{cret}x", "Bearer s3{{cret}}x"] {
                assert_eq!(header_without_placeholders(name, text).unwrap(), text);
            }
        }
        let error = header_without_placeholders("X-Host", "{hostname}").unwrap_err().to_string();
        assert!(error.starts_with("`headers.X-Host`: nothing replaces `{hostname}`"), "{error}");
    }

    #[test]
    fn missing_configuration_is_read_as_empty() {
        assert_eq!(read::<Config>(Value::Null).unwrap(), Config::default());
    }
}
