//! Values of a configuration that no message may contain. The schema of the configuration marks these values.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    super::yaml::{Data, Node},
    schemas,
};
use crate::redact;

/// Secrecy of a value and of all values below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Secrecy {
    /// Messages may contain the value.
    #[default]
    Open,
    /// Messages may contain the parts that are in the flow file, but not the values of variables.
    Variables,
    /// No message may contain the value.
    Secret,
}

impl Secrecy {
    /// Returns the secrecy that this schema states itself. Schemas to which it refers are not considered.
    fn of(schema: &Value) -> Self {
        if schema.get("writeOnly") == Some(&Value::Bool(true)) {
            Self::Secret
        } else if schema.get("x-secret").and_then(Value::as_str) == Some("variables") {
            Self::Variables
        } else {
            Self::Open
        }
    }
}

/// Keeps the secret values of a configuration out of all messages.
///
/// If there is no schema, the values of all variables are secret. Call this before any message about the configuration
/// is created.
pub(in crate::flow) fn keep(config: &Node, schema: Option<&Value>) {
    collect(config, schema, &mut |secret| redact::keep(secret));
}

fn collect(node: &Node, schema: Option<&Value>, take: &mut impl FnMut(&str)) {
    let Some(root) = schema else { return take_all(node, Secrecy::Variables, take) };
    schemas::walk(node, root, &mut |node, schemas| {
        let secrecy = schemas.iter().map(|schema| Secrecy::of(schema)).max().unwrap_or_default();
        if secrecy != Secrecy::Open {
            take_all(node, secrecy, take);
        }
        secrecy != Secrecy::Secret
    });
}

fn take_all(node: &Node, secrecy: Secrecy, take: &mut impl FnMut(&str)) {
    node.scalars(&mut |scalar| {
        let (text, is_number) = match &scalar.data {
            Data::Number(number) => (Cow::Owned(number.to_string()), true),
            Data::Exact(text) => (Cow::Borrowed(&**text), true),
            Data::Text(text) => (Cow::Borrowed(&**text), false),
            // Booleans are not kept secret, because too many messages contain `true`.
            _ => return,
        };
        scalar.variables.iter().flat_map(|values| values.iter()).for_each(|value| take(value));
        // A message may show a number in another form than the variable, for example `4.2` instead of `4.20`.
        if secrecy == Secrecy::Secret || is_number && scalar.variables.is_some() {
            take(&text);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use serde_json::{Value, json};

    use super::collect;
    use crate::flow::{self, Environment, Limits};

    /// Returns the secrets of a configuration in YAML, each once.
    ///
    /// The variable `A` has the value `value-of-A`, and so on for other names. Only `N` has a number as its value.
    fn secrets(config: &str, schema: Option<&Value>) -> Vec<String> {
        secrets_of(
            &format!("connectors: {{ a: {{ type: x, config: {config} }} }}\nlinks: [a -> a]"),
            schema,
        )
    }

    fn secrets_of(text: &str, schema: Option<&Value>) -> Vec<String> {
        let variable = |name: &str| {
            let number = name == "N";
            Some(OsString::from(if number {
                "4.20".to_owned()
            } else {
                format!("value-of-{name}")
            }))
        };
        let environment = Environment::default().variables(&variable);
        let draft = flow::parse("f", text, &Limits::default(), &environment).expect("YAML");
        let flow = draft.finish().expect("a valid flow");
        let mut found = Vec::new();
        let node = flow.spec.connectors[0].component.config.node().expect("a configuration");
        collect(node, schema, &mut |secret| found.push(secret.to_owned()));
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn values_of_marked_keys_are_secret() {
        let schema = json!({
            "properties": {
                "host": { "type": "string" },
                "password": { "type": "string", "writeOnly": true },
                "pin": { "writeOnly": true },
                "auth": { "anyOf": [{ "$ref": "#/$defs/Auth" }, { "type": "null" }] },
                "list": { "items": { "properties": { "key": { "writeOnly": true } } } },
            },
            "$defs": { "Auth": { "oneOf": [
                { "properties": { "bearer": { "writeOnly": true } } },
                { "properties": { "basic": { "properties": { "user": {}, "password": { "writeOnly": true } } } } },
            ] } },
        });
        let found = |config: &str| secrets(config, Some(&schema));
        assert_eq!(found("{ host: '${env:HOST}', other: '${env:B}' }"), [""; 0]);
        assert_eq!(found("{ password: literal, host: shown }"), ["literal"]);
        assert_eq!(found("{ password: 'Bearer ${env:A}' }"), ["Bearer value-of-A", "value-of-A"]);
        assert_eq!(found("{ auth: { bearer: '${env:A}' } }"), ["value-of-A"]);
        assert_eq!(found("{ auth: { basic: { user: '${env:U}', password: p } } }"), ["p"]);
        assert_eq!(found("{ list: [{ key: one }, { key: two, name: three }] }"), ["one", "two"]);
        assert_eq!(found("{ pin: 1234, password: true }"), ["1234"]);
        assert_eq!(found("{ password: '${env:NAME:-default}' }"), ["value-of-NAME"]);
    }

    #[test]
    fn variables_in_marked_maps_are_secret() {
        let schema = json!({ "properties": { "headers": {
            "x-secret": "variables", "additionalProperties": { "type": "string" },
        } } });
        let config =
            "{ headers: { accept: text/plain, token: 'Bearer ${env:A}' }, host: '${env:B}' }";
        assert_eq!(secrets(config, Some(&schema)), ["value-of-A"]);
    }

    #[test]
    fn variables_are_secret_without_a_schema() {
        assert_eq!(secrets("{ a: 'x ${env:A}', b: literal }", None), ["value-of-A"]);
    }

    #[test]
    fn number_of_variable_is_secret_as_written_and_as_read() {
        let schema = json!({ "properties": { "pin": { "writeOnly": true } } });
        // Within braces, a reference would need quotes, and its value would then be a text.
        let config = "\n      pin: ${env:N}\n";
        let text = format!("connectors:\n  a:\n    type: x\n    config:{config}links: [a -> a]");
        assert_eq!(secrets_of(&text, Some(&schema)), ["4.2", "4.20"]);
    }

    #[test]
    fn schema_that_refers_to_itself_is_visited_once() {
        let level = |next: usize| {
            let next = json!({ "$ref": format!("#/$defs/{next}") });
            json!({ "allOf": [next.clone(), next] })
        };
        let mut levels: Vec<Value> = (1..40).map(level).collect();
        levels.push(json!({ "$ref": "#", "properties": { "a": { "writeOnly": true } } }));
        let levels = levels.into_iter().enumerate().map(|(at, level)| (at.to_string(), level));
        let levels: serde_json::Map<_, _> = levels.collect();
        let schema = json!({ "$ref": "#/$defs/0", "$defs": levels });
        assert_eq!(secrets("{ a: one }", Some(&schema)), ["one"]);
    }
}
