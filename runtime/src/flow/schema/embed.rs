//! Embeds the schemas of configurations in the schema of flow files, in which references may replace values.

use serde_json::{Map, Value, json};

/// Name of the definition of a text that contains a reference.
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

/// Returns the schema of a text that contains a reference.
pub(super) fn reference() -> Value {
    json!({
        "type": "string",
        "pattern": r"(^|[^$])\$\{(env|file):[^}]+\}",
        "description": "`${env:NAME}`, `${env:NAME:-default}` or `${file:PATH}`",
    })
}

/// Returns a schema that accepts the values of `schema` and references.
pub(super) fn or_reference(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "$ref": format!("#/$defs/{REFERENCE}") }] })
}

/// Prepares the schema of a configuration for being embedded in another schema at the location `at`, a JSON pointer.
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
    // A reference fits several alternatives, so `oneOf` would reject it.
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
                        allow_reference(schema);
                    }
                }
            }
            Value::Array(schemas) if LISTS.contains(&keyword) => {
                schemas.iter_mut().for_each(|schema| adapt(schema, at));
                if keyword == "prefixItems" {
                    schemas.iter_mut().for_each(allow_reference);
                }
            }
            schema if SCHEMAS.contains(&keyword) => {
                adapt(schema, at);
                if ["items", "additionalProperties", "unevaluatedProperties"].contains(&keyword) {
                    allow_reference(schema);
                }
            }
            _ => {}
        }
    }
}

/// Appends schemas to the list of a keyword.
fn merge(map: &mut Map<String, Value>, keyword: &str, more: Value) {
    match (map.get_mut(keyword), more) {
        (Some(Value::Array(there)), Value::Array(more)) => there.extend(more),
        (_, more) => _ = map.insert(keyword.to_owned(), more),
    }
}

/// Makes the schema accept a reference instead of a value, unless it accepts any text already, or only lists or maps.
fn allow_reference(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.is_empty() || matches!(map.get("type").and_then(Value::as_str), Some("object" | "array"))
    {
        return;
    }
    // Editors expect these annotations next to the value, not within an alternative.
    let about: Map<_, _> = ["title", "description", "default", "examples", "deprecated"]
        .into_iter()
        .filter_map(|keyword| map.remove_entry(keyword))
        .collect();
    // A schema that accepts any text accepts references already.
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
    fn values_but_not_lists_and_maps_may_be_references() {
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
