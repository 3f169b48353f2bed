//! Configurations for the checks: a valid configuration that is derived from a schema, and many that are usually
//! invalid.

use serde_json::{Map, Value as Json, json};

/// Maximum depth to which a schema is followed, because schemas may be recursive.
const DEPTH: usize = 16;

/// File name that [`working`] sets for all keys that name files.
pub const FILE: &str = "verify.txt";

/// Returns a configuration that is probably valid: the first example of the schema, or, without examples, a
/// configuration with only the required keys.
pub fn working(schema: Option<&Json>) -> Json {
    schema.map_or(Json::Null, |schema| minimal(schema, schema, "", DEPTH))
}

fn minimal(root: &Json, schema: &Json, key: &str, depth: usize) -> Json {
    // The schema of a key may have examples beside a reference to the schema of its type.
    let own = schema;
    let schema = resolved(root, schema);
    let given =
        [own, schema].map(|it| [&it["examples"][0], &it["default"], &it["const"], &it["enum"][0]]);
    if let Some(given) = given.into_iter().flatten().find(|given| !given.is_null()) {
        return given.clone();
    }
    let Some(depth) = depth.checked_sub(1) else { return Json::Null };
    for choice in ["oneOf", "anyOf", "allOf"] {
        let choices = schema[choice].as_array().into_iter().flatten();
        let mut choices = choices.filter(|choice| choice["type"] != "null");
        if let Some(choice) = choices.next() {
            return minimal(root, choice, key, depth);
        }
    }
    let kinds =
        schema["type"].as_array().map_or_else(|| vec![&schema["type"]], |all| all.iter().collect());
    let kind = kinds.into_iter().filter_map(Json::as_str).find(|kind| *kind != "null");
    match kind {
        Some("object") => {
            let mut object = Map::new();
            for key in schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str)
            {
                let value = minimal(root, &schema["properties"][key], key, depth);
                object.insert(key.to_owned(), value);
            }
            Json::Object(object)
        }
        Some("array") => {
            let items = schema["minItems"].as_u64().unwrap_or(0).min(16);
            (0..items).map(|_| minimal(root, &schema["items"], key, depth)).collect()
        }
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1).max(1)),
        Some("number") => json!(schema["minimum"].as_f64().unwrap_or(1.0).max(1.0)),
        Some("boolean") => json!(false),
        _ if schema["format"].is_string() && schema["format"] != "template" => {
            json!(formatted(&schema["format"]))
        }
        _ if schema["maxLength"].as_u64() == Some(1) => json!("v"),
        _ if ["path", "file"].iter().any(|word| key.contains(word)) => json!(FILE),
        _ => json!("verify"),
    }
}

/// Returns a text that is valid for a `format` of JSON Schema.
fn formatted(format: &Json) -> &'static str {
    match format.as_str().unwrap_or_default() {
        "ip" | "ipv4" => "127.0.0.1",
        "ipv6" => "::1",
        "uri" | "url" => "http://127.0.0.1:9/",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "date" => "2000-01-01",
        "date-time" => "2000-01-01T00:00:00Z",
        _ => "verify",
    }
}

fn resolved<'s>(root: &'s Json, mut schema: &'s Json) -> &'s Json {
    for _ in 0..DEPTH {
        let Some(path) = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) else {
            break;
        };
        let Some(found) = root.pointer(path) else { break };
        schema = found;
    }
    schema
}

/// A key that no component has.
pub(super) const UNKNOWN: &str = "no_component_has_this_key";

/// Returns the configuration with an additional unknown key.
pub(super) fn with_unknown_key(config: &Json) -> Json {
    let mut config = config.as_object().cloned().unwrap_or_default();
    config.insert(UNKNOWN.to_owned(), json!(1));
    Json::Object(config)
}

/// Returns unusual configurations, each with a description. A component may accept or reject them, but must not panic.
pub(super) fn hostile(schema: Option<&Json>, config: &Json) -> Vec<(String, Json)> {
    let mut all = vec![
        ("an empty configuration".to_owned(), json!({})),
        ("text for a configuration".to_owned(), json!("text")),
        ("a number for a configuration".to_owned(), json!(7)),
        ("a list for a configuration".to_owned(), json!([1, 2])),
    ];
    let mut keys: Vec<&str> = Vec::new();
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    keys.extend(properties.into_iter().flat_map(|keys| keys.keys().map(String::as_str)));
    keys.extend(config.as_object().into_iter().flat_map(|keys| keys.keys().map(String::as_str)));
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let mut without = config.as_object().cloned().unwrap_or_default();
        without.remove(key);
        all.push((format!("no `{key}`"), Json::Object(without.clone())));
        for (what, value) in values() {
            let mut with = without.clone();
            with.insert(key.to_owned(), value);
            all.push((format!("{what} for `{key}`"), Json::Object(with)));
        }
    }
    all
}

/// Returns values that few keys accept, each with a description.
fn values() -> Vec<(&'static str, Json)> {
    let deep = (0..100).fold(json!(null), |value, _| json!([value]));
    vec![
        ("null", json!(null)),
        ("empty text", json!("")),
        ("text of control characters", json!("\u{0}\n\u{7f}\u{feff}")),
        ("1 MiB of text", json!("x".repeat(1 << 20))),
        ("0", json!(0)),
        ("-1", json!(-1)),
        ("2^64 - 1", json!(u64::MAX)),
        ("1e300", json!(1e300)),
        ("true", json!(true)),
        ("an empty list", json!([])),
        ("an empty map", json!({})),
        ("100 nested lists", deep),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{FILE, hostile, with_unknown_key, working};
    use crate::{
        ChunkBytes,
        metadata::{FieldPath, Text},
        units::{Interval, Size},
    };

    #[test]
    fn minimal_configuration_has_only_required_keys() {
        let schema = json!({
            "type": "object", "required": ["path", "many", "mode", "of", "maybe"],
            "properties": {
                "path": { "type": "string" },
                "many": { "type": "integer", "minimum": 3 },
                "mode": { "$ref": "#/$defs/Mode" },
                "of": { "type": "array", "minItems": 2, "items": { "type": "boolean" } },
                "maybe": { "anyOf": [{ "type": "null" }, { "type": "string" }] },
                "further": { "type": "string" },
            },
            "$defs": { "Mode": { "oneOf": [{ "const": "read" }, { "const": "write" }] } },
        });
        let least = json!({
            "path": FILE, "many": 3, "mode": "read", "of": [false, false], "maybe": "verify",
        });
        assert_eq!(working(Some(&schema)), least);
    }

    /// A configuration with a required key of each key type of the kit.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Kit {
        interval: Interval,
        size: Size,
        field: FieldPath,
        text: Text,
        chunk: ChunkBytes,
        address: std::net::IpAddr,
    }

    #[test]
    fn minimal_configuration_of_kit_types_is_accepted() {
        let schema = serde_json::to_value(schemars::schema_for!(Kit)).unwrap();
        let config = working(Some(&schema));
        crate::config::read::<Kit>(config.clone())
            .unwrap_or_else(|error| panic!("{config}: {error}"));
    }

    #[test]
    fn first_example_is_preferred() {
        let schema = json!({ "type": "object", "examples": [{ "a": 1 }, { "a": 2 }] });
        assert_eq!(working(Some(&schema)), json!({ "a": 1 }));
        assert_eq!(working(None), Json::Null);
    }

    #[test]
    fn recursive_schema_has_a_minimal_configuration() {
        let schema = json!({ "type": "object", "required": ["next"],
            "properties": { "next": { "$ref": "#" } } });
        assert!(working(Some(&schema))["next"]["next"].is_object());
    }

    #[test]
    fn every_key_is_removed_and_given_unexpected_values() {
        let schema = json!({ "properties": { "a": {}, "b": {} } });
        let all = hostile(Some(&schema), &json!({ "b": 1, "c": 2 }));
        for key in ["a", "b", "c"] {
            assert!(
                all.iter()
                    .any(|(what, config)| *what == format!("no `{key}`")
                        && config.get(key).is_none())
            );
            assert!(
                all.iter().filter(|(_, config)| config.get(key) == Some(&json!(-1))).count() == 1
            );
        }
        assert_eq!(with_unknown_key(&json!({ "a": 1 })).as_object().unwrap().len(), 2);
    }
}
