//! Schemas of configurations within the schema of flow files: with references in place of values.

use serde_json::{Map, Value, json};

/// The definition of a text with a reference.
pub(super) const REFERENCE: &str = "reference";

/// Keywords whose values are maps of schemas.
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose values are lists of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose values are schemas.
const SCHEMAS: [&str; 9] = [
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
];

/// A text with a reference in it.
pub(super) fn reference() -> Value {
    json!({
        "type": "string",
        "pattern": r"(^|[^$])\$\{(env|file):[^}]+\}",
        "description": "`${env:NAME}`, `${env:NAME:-default}` or `${file:PATH}`",
    })
}

/// What a schema allows, or a reference.
pub(super) fn or_reference(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "$ref": format!("#/$defs/{REFERENCE}") }] })
}

/// The schema of a configuration, for a place in another schema: `at` is its JSON pointer there.
pub(super) fn embedded(mut schema: Value, at: &str) -> Value {
    if let Value::Object(map) = &mut schema {
        map.remove("$schema");
        map.remove("$id");
    }
    adapt(&mut schema, at);
    schema
}

fn adapt(schema: &mut Value, at: &str) {
    let Value::Object(map) = schema else { return };
    // With references in them, alternatives may no longer exclude each other.
    if let Some(alternatives) = map.remove("oneOf")
        && let Some(clash) = map.insert("anyOf".to_owned(), alternatives)
    {
        let both = json!([{ "anyOf": clash }]);
        merge(map, "allOf", both);
    }
    if let Some(Value::String(reference)) = map.get_mut("$ref")
        && let Some(rest) = reference.strip_prefix('#')
    {
        *reference = format!("{at}{rest}");
    }
    for (keyword, value) in map {
        let (keyword, is_value) = (keyword.as_str(), ["properties", "patternProperties"]);
        match value {
            Value::Object(schemas) if MAPS.contains(&keyword) => {
                for schema in schemas.values_mut() {
                    adapt(schema, at);
                    if is_value.contains(&keyword) {
                        let_refer(schema);
                    }
                }
            }
            Value::Array(schemas) if LISTS.contains(&keyword) => {
                schemas.iter_mut().for_each(|schema| adapt(schema, at));
                if keyword == "prefixItems" {
                    schemas.iter_mut().for_each(let_refer);
                }
            }
            schema if SCHEMAS.contains(&keyword) => {
                adapt(schema, at);
                if ["items", "additionalProperties", "unevaluatedProperties"].contains(&keyword) {
                    let_refer(schema);
                }
            }
            _ => {}
        }
    }
}

/// Adds to a list of schemas.
fn merge(map: &mut Map<String, Value>, keyword: &str, more: Value) {
    match (map.get_mut(keyword), more) {
        (Some(Value::Array(there)), Value::Array(more)) => there.extend(more),
        (_, more) => _ = map.insert(keyword.to_owned(), more),
    }
}

/// Lets a reference stand for a value, unless any text is one, or only a list or a map.
fn let_refer(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.is_empty() || matches!(map.get("type").and_then(Value::as_str), Some("object" | "array"))
    {
        return;
    }
    // These say something to people, and are looked for beside the value.
    let about: Map<_, _> = ["title", "description", "default", "examples", "deprecated"]
        .into_iter()
        .filter_map(|keyword| map.remove_entry(keyword))
        .collect();
    // Any text is one already.
    if *schema != json!({ "type": "string" }) {
        *schema = or_reference(schema);
    }
    if let Value::Object(map) = schema {
        map.extend(about);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::embedded;

    #[test]
    fn values_may_be_references_and_lists_and_maps_may_not() {
        let schema = json!({
            "$schema": "x",
            "type": "object",
            "properties": {
                "port": { "type": "integer", "description": "A port." },
                "list": { "type": "array", "items": { "$ref": "#/$defs/Mode" } },
                "any": true,
                "text": { "type": "string", "description": "A text." },
            },
            "additionalProperties": false,
            "$defs": { "Mode": { "oneOf": [{ "const": "a" }, { "const": "b" }] } },
        });
        let reference = json!({ "$ref": "#/$defs/reference" });
        let expected = json!({
            "type": "object",
            "properties": {
                "port": { "anyOf": [{ "type": "integer" }, reference], "description": "A port." },
                "list": {
                    "type": "array",
                    "items": { "anyOf": [{ "$ref": "#/$defs/x.y/$defs/Mode" }, reference] },
                },
                "any": true,
                "text": { "type": "string", "description": "A text." },
            },
            "additionalProperties": false,
            "$defs": { "Mode": { "anyOf": [{ "const": "a" }, { "const": "b" }] } },
        });
        assert_eq!(embedded(schema, "#/$defs/x.y"), expected);
    }
}
