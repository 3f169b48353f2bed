//! A JSON Schema of flow files, for editors.
//!
//! The reader of flow files is what decides. This says the same as far as a schema can: which names exist
//! and what links make of them is beyond it. A test compares the keys of both.

mod embed;

use serde_json::{Map, Value, json};

use self::embed::{REFERENCE, embedded, or_reference};
use super::{Kind, spec::MOST_IN_FLIGHT};

/// What is known of a component.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its kind.
    pub kind: Kind,
    /// The name that flows use.
    pub name: String,
    /// What it is for, in a line.
    pub description: String,
    /// Of a connector: whether it needs a codec (`true`) or takes none (`false`), where it is one of both.
    pub codec: Option<bool>,
    /// The JSON Schema of its configuration; none if any will do.
    pub config: Option<Value>,
}

impl Described {
    /// Where its configuration is in the schema.
    fn id(&self) -> String {
        format!("{}.{}", self.kind, self.name)
    }

    /// What its configuration must be.
    fn config(&self) -> Value {
        let config = reference_to(&self.id());
        if self.needs_config() { config } else { json!({ "anyOf": [config, { "type": "null" }] }) }
    }

    /// Whether it has a key without which it is not made.
    fn needs_config(&self) -> bool {
        let required = self.config.as_ref().and_then(|config| config.get("required"));
        required.and_then(Value::as_array).is_some_and(|required| !required.is_empty())
    }

    /// Its name.
    fn named(&self) -> Value {
        json!({ "const": self.name, "description": self.description })
    }
}

/// The schema (draft 2020-12) of flow files with these components. Of a kind of which there is none, any
/// name and any configuration will do.
pub fn schema(components: &[Described]) -> Value {
    let mut definitions = Map::new();
    for component in components {
        let config = component.config.clone().unwrap_or_else(|| json!({ "type": "object" }));
        let id = component.id();
        let config = embedded(config, &format!("#/$defs/{id}"));
        definitions.insert(id, config);
    }
    let of = |kind| components.iter().filter(move |it| it.kind == kind).collect::<Vec<_>>();
    for kind in Kind::ALL {
        let schema = match kind {
            Kind::Connector => connector(&of(kind)),
            _ => part(&of(kind)),
        };
        definitions.insert(kind.as_str().to_owned(), schema);
    }
    definitions.insert(REFERENCE.to_owned(), embed::reference());
    definitions.insert("pipeline".to_owned(), pipeline());
    definitions.insert("retry".to_owned(), retry());
    let map_of = |kind: &str, about: &str| {
        json!({
            "type": ["object", "null"],
            "propertyNames": { "pattern": NAME },
            "additionalProperties": reference_to(kind),
            "description": about,
        })
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A flow file of tremor",
        "type": "object",
        "additionalProperties": false,
        "required": ["links"],
        "properties": {
            "name": {
                "type": "string",
                "pattern": NAME,
                "description": "The name of the flow. Unless set, that of its file.",
            },
            "plugins": {
                "type": ["array", "null"],
                "items": literal(),
                "description": "Folders and libraries to search for plugins. A relative path starts at \
                                the folder of the flow file.",
            },
            "connectors": map_of(
                "connector",
                "Where events come from and go to: a map from names to connectors.",
            ),
            "pipelines": map_of(
                "pipeline",
                "What is done with events: a map from names to pipelines.",
            ),
            "links": {
                "type": "array",
                "minItems": 1,
                "items": { "type": "string", "pattern": LINK },
                "description": "Which way events go: chains `name[/port] -> name[/port] -> …`.",
            },
        },
        "$defs": definitions,
    })
}

const NAME: &str = "^[A-Za-z_][A-Za-z0-9_-]*$";

/// A chain of two names or more, each with a port or without.
const LINK: &str = r"^\s*[A-Za-z_][A-Za-z0-9_-]*(/[A-Za-z_][A-Za-z0-9_-]*)?\s*(->\s*[A-Za-z_][A-Za-z0-9_-]*(/[A-Za-z_][A-Za-z0-9_-]*)?\s*)+$";

fn reference_to(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

/// A text in which no reference can stand.
fn literal() -> Value {
    json!({ "type": "string", "not": reference_to(REFERENCE) })
}

/// The names of components; any where there are none.
fn names(components: &[&Described]) -> Value {
    match components {
        [] => literal(),
        _ => json!({ "anyOf": components.iter().map(|it| it.named()).collect::<Vec<_>>() }),
    }
}

/// Adds what follows from the type of a component.
fn with_types(mut schema: Value, components: &[&Described]) -> Value {
    let then = |component: &&Described| {
        let mut then = json!({ "properties": { "config": component.config() } });
        let mut required = Vec::new();
        if component.needs_config() {
            required.push("config");
        }
        match component.codec {
            Some(true) => required.push("codec"),
            Some(false) => then["properties"]["codec"] = Value::Bool(false),
            None => {}
        }
        if !required.is_empty() {
            then["required"] = json!(required);
        }
        json!({
            "if": { "properties": { "type": { "const": component.name } }, "required": ["type"] },
            "then": then,
        })
    };
    if !components.is_empty() {
        schema["allOf"] = components.iter().map(then).collect();
    }
    schema
}

fn connector(components: &[&Described]) -> Value {
    let mut connector = map(json!({
        "type": described(names(components), "The name of the connector's type."),
        "config": { "description": "The configuration of the connector." },
        "codec": described(reference_to("codec"), "How bytes become values, and values bytes."),
        "preprocessors": list_of(
            "preprocessor",
            "What cuts and transforms bytes before the codec decodes them, in order.",
        ),
        "postprocessors": list_of(
            "postprocessor",
            "What frames and transforms bytes after the codec has encoded them, in order.",
        ),
        "reconnect": described(reference_to("retry"), "When to connect again."),
        "retry": described(
            reference_to("retry"),
            "When to deliver again what the peer could not take.",
        ),
        "restart": section("How often the connector is restarted after it has failed.", json!({
            "attempts": count(0, "How many restarts there may be; 5 unless set."),
            "within": time("The time that restarts are counted in; 1m unless set."),
        })),
        "call_limit": time(
            "How long a call to the connector may hold a thread of the runtime before the connector is \
             restarted; 1s unless set.",
        ),
        "hang_limit": time(
            "How long such a call may take to return before the flow fails; 1m unless set.",
        ),
        "on_failure": described(
            or_reference(&json!({ "enum": ["continue", "exit"] })),
            "What becomes of the other flows of the process when the connector has failed for good; \
             `continue` unless set.",
        ),
        "in_flight": described(
            or_reference(&json!({ "type": "integer", "minimum": 1, "maximum": MOST_IN_FLIGHT })),
            "Maximum number of deliveries that the sink has in flight; 1 unless set, or what the sink asks for.",
        ),
        "ordered": described(
            or_reference(&json!({ "type": "boolean" })),
            "Whether batches of one stream are delivered one after the other; true unless set, or what the sink \
             asks for.",
        ),
        "batch": section("Puts batches together for the sink, and takes large ones apart.", json!({
            "max_events": count(1, "Events that a delivery has at most; 1000 unless set."),
            "max_bytes": bytes("Bytes that a delivery has at most, unless one event has more; 1MiB unless set."),
            "linger": time("How long an event waits for others at most; 50ms unless set."),
        })),
        "pull": section("How much the source is asked for at a time.", json!({
            "max_events": count(1, "Events that a pull may bring."),
        })),
        "queue": section("Bounds of the queue before the sink.", json!({
            "max_events": count(1, "Events that may wait; 256 unless set."),
            "max_bytes": bytes("Bytes that may wait; 4MiB unless set."),
        })),
        "err": err(),
        "dead_letters": dead_letters(),
    }));
    connector["required"] = json!(["type"]);
    with_types(connector, components)
}

/// A codec, a processor or an operator: its name, its name with its configuration, or at length.
fn part(components: &[&Described]) -> Value {
    let alone: Vec<_> = components.iter().copied().filter(|it| !it.needs_config()).collect();
    let by_name: Map<_, _> = components.iter().map(|it| (it.name.clone(), it.config())).collect();
    let is_open = components.is_empty();
    let alone = if is_open || !alone.is_empty() { names(&alone) } else { Value::Bool(false) };
    let mut at_length = map(json!({
        "type": names(components),
        "config": { "description": "Its configuration." },
    }));
    at_length["required"] = json!(["type"]);
    json!({ "anyOf": [
        alone,
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": by_name,
            "additionalProperties": is_open,
            "not": { "anyOf": [{ "required": ["type"] }, { "required": ["config"] }] },
        },
        with_types(at_length, components),
    ] })
}

fn pipeline() -> Value {
    map(json!({
        "operators": list_of("operator", "What events run through, in order."),
        "err": err(),
        "dead_letters": dead_letters(),
    }))
}

fn retry() -> Value {
    map(json!({
        "attempts": count(0, "How many attempts may follow one that has failed; no limit unless set."),
        "backoff": time("The longest wait before the first further attempt; 100ms unless set."),
        "max_backoff": time("The longest wait between two attempts."),
    }))
}

/// A map of these keys, and no others.
fn map(keys: Value) -> Value {
    let mut map = json!({ "type": "object", "additionalProperties": false });
    map["properties"] = keys;
    map
}

fn section(about: &str, keys: Value) -> Value {
    described(map(keys), about)
}

fn list_of(kind: &str, about: &str) -> Value {
    json!({ "type": ["array", "null"], "items": reference_to(kind), "description": about })
}

fn time(about: &str) -> Value {
    let time = json!({ "type": "string", "pattern": r"^[0-9]+\s*(ms|s|m|h)$" });
    described(or_reference(&time), about)
}

fn bytes(about: &str) -> Value {
    let bytes = json!({
        "type": ["integer", "string"],
        "minimum": 1,
        "pattern": r"^[0-9]+\s*(B|kB|MB|GB|KiB|MiB|GiB)$",
    });
    described(or_reference(&bytes), about)
}

fn err() -> Value {
    let choice = json!({ "enum": ["dead_letter", "discard"] });
    described(
        or_reference(&choice),
        "What becomes of an event that cannot be handled, where nothing is linked to the port `err`.",
    )
}

fn dead_letters() -> Value {
    let about = "Bytes of the original event that a dead letter contains; 4KiB unless set, and at most 16MiB.";
    section("Dead letters of this component.", json!({ "max_bytes": bytes(about) }))
}

fn count(least: u64, about: &str) -> Value {
    described(or_reference(&json!({ "type": "integer", "minimum": least })), about)
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}

#[cfg(test)]
mod tests;
