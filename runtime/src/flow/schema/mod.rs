//! JSON Schema of flow files, for editors.
//!
//! The reader of flow files decides what is valid. The schema describes the same rules as far as a schema can: it does
//! not check which names exist, or whether links are possible. A test compares the keys of the schema with those of the
//! reader.

mod embed;

use serde_json::{Map, Value, json};

use self::embed::{REFERENCE, embedded, or_reference};
use super::{Kind, WhenFull, spec::MOST_IN_FLIGHT};

/// Description of a component.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Kind of the component.
    pub kind: Kind,
    /// Name of the component in flow files.
    pub name: String,
    /// Purpose of the component, in one line.
    pub description: String,
    /// For a connector, `Some(true)` if it needs a codec, `Some(false)` if it accepts none, and `None` if a codec is
    /// optional.
    pub codec: Option<bool>,
    /// JSON Schema of the configuration; `None` accepts any configuration.
    pub config: Option<Value>,
}

impl Described {
    /// Returns the name of the definition of this component's configuration.
    fn id(&self) -> String {
        format!("{}.{}", self.kind, self.name)
    }

    /// Returns the schema that the value of `config` has to fit.
    fn config(&self) -> Value {
        let config = reference_to(&self.id());
        if self.needs_config() { config } else { json!({ "anyOf": [config, { "type": "null" }] }) }
    }

    /// Returns whether the configuration has a required key.
    fn needs_config(&self) -> bool {
        let required = self.config.as_ref().and_then(|config| config.get("required"));
        required.and_then(Value::as_array).is_some_and(|required| !required.is_empty())
    }

    /// Returns the schema that accepts the name of the component.
    fn named(&self) -> Value {
        json!({ "const": self.name, "description": self.description })
    }
}

/// Returns the JSON Schema (draft 2020-12) of flow files with these components.
///
/// If there are no components of a kind, any name and any configuration of that kind is accepted.
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
                "description": "The name of the flow; the name of its file unless set.",
            },
            "plugins": {
                "type": ["array", "null"],
                "items": literal(),
                "description": "Folders and libraries to search for plugins. A relative path is resolved \
                                against the folder of the flow file.",
            },
            "connectors": map_of(
                "connector",
                "Connectors by name: the sources and sinks of events.",
            ),
            "pipelines": map_of(
                "pipeline",
                "Pipelines by name, which process events.",
            ),
            "links": {
                "type": "array",
                "minItems": 1,
                "items": { "type": "string", "pattern": LINK },
                "description": "Links, along which events flow: chains `name[/port] -> name[/port] -> …`.",
            },
        },
        "$defs": definitions,
    })
}

const NAME: &str = "^[A-Za-z_][A-Za-z0-9_-]*$";

/// Pattern of a chain of at least two names, each with or without a port.
const LINK: &str = r"^\s*[A-Za-z_][A-Za-z0-9_-]*(/[A-Za-z_][A-Za-z0-9_-]*)?\s*(->\s*[A-Za-z_][A-Za-z0-9_-]*(/[A-Za-z_][A-Za-z0-9_-]*)?\s*)+$";

fn reference_to(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

/// Returns the schema of a text that contains no reference.
fn literal() -> Value {
    json!({ "type": "string", "not": reference_to(REFERENCE) })
}

/// Returns the schema of the names of components. It accepts any name if there are no components.
fn names(components: &[&Described]) -> Value {
    match components {
        [] => literal(),
        _ => json!({ "anyOf": components.iter().map(|it| it.named()).collect::<Vec<_>>() }),
    }
}

/// Adds the conditions that depend on the type of a component.
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
        "codec": described(reference_to("codec"), "Codec, which decodes bytes to values and encodes values to bytes."),
        "preprocessors": list_of(
            "preprocessor",
            "Preprocessors, which split and transform bytes before the codec decodes them, in order.",
        ),
        "postprocessors": list_of(
            "postprocessor",
            "Postprocessors, which frame and transform bytes after the codec has encoded them, in order.",
        ),
        "reconnect": described(reference_to("retry"), "Reconnection after the connection was lost."),
        "retry": described(
            reference_to("retry"),
            "Retries of deliveries that the peer could not accept.",
        ),
        "restart": section("Limit of the restarts of a connector that failed.", json!({
            "attempts": count(0, "Maximum number of restarts within `within`; 5 unless set."),
            "within": time("Period in which restarts are counted; 1m unless set."),
        })),
        "call_limit": time(
            "Maximum time that a call to the connector may block a thread of the runtime. After a longer call the \
             connector is restarted; 1s unless set.",
        ),
        "hang_limit": time(
            "Maximum time that a call may block its thread. If it has not returned by then, the flow fails; 1m unless set.",
        ),
        "isolation": described(
            or_reference(&json!({ "enum": ["process", "none"] })),
            "`process` runs the plugin of the connector in a process of its own, so that a crash ends only that \
             process; `none` unless set.",
        ),
        "memory": bytes(
            "Maximum memory of the process of the plugin, with `isolation: process`; 256MiB unless set.",
        ),
        "on_failure": described(
            or_reference(&json!({ "enum": ["continue", "exit"] })),
            "Treatment of the other flows of the process when the connector has failed permanently: they `continue`, \
             or drain and `exit`; `continue` unless set.",
        ),
        "in_flight": described(
            or_reference(&json!({ "type": "integer", "minimum": 1, "maximum": MOST_IN_FLIGHT })),
            "Maximum number of deliveries that the sink has in flight; 1 unless set, or what the sink asks for.",
        ),
        "ordered": described(
            or_reference(&json!({ "type": "boolean" })),
            "`true` to deliver the batches of one stream one after the other; `true` unless set, or what the sink \
             asks for.",
        ),
        "batch": section("Joins small batches for the sink, and splits large ones.", json!({
            "max_events": count(1, "Maximum number of events of a delivery; 1000 unless set."),
            "max_bytes": bytes("Maximum bytes of a delivery, unless a single event is larger; 1MiB unless set."),
            "linger": time("Maximum time that an event waits for others; 50ms unless set."),
        })),
        "pull": section("Limits of a single read from the source.", json!({
            "max_events": count(1, "Maximum number of events that a pull may return."),
        })),
        "queue": section("Limits of the queue before the sink.", json!({
            "max_events": count(1, "Maximum number of waiting events; 256 unless set."),
            "max_bytes": bytes("Maximum bytes of waiting events; 4MiB unless set."),
            "disk": disk(),
            "when_full": described(
                or_reference(&json!({ "enum": WhenFull::WORDS.map(|(word, _)| word) })),
                "Treatment of events for which the queue has no capacity: the sources wait (`block`), the batch that \
                 does not fit is dropped (`drop_newest`), or those that have waited longest are dropped \
                 (`drop_oldest`) or sent to the port `err` (`dead_letter`); `block` unless set. With another value \
                 than `block`, sources never wait for this sink.",
            ),
        })),
        "err": err(),
        "dead_letters": dead_letters(),
    }));
    connector["required"] = json!(["type"]);
    with_types(connector, components)
}

fn disk() -> Value {
    let mut disk = section(
        "Keeps waiting events on disk, so that the sources are acknowledged when the sink is down, and no acknowledged \
         event is lost.",
        json!({
            "path": described(
                json!({ "type": "string", "minLength": 1 }),
                "Folder of the queue, relative to the folder of the flow file. It is created if it is missing.",
            ),
            "max_bytes": bytes("Maximum bytes of all files of the queue, at least 1MiB. An event has at most a sixteenth."),
            "identify": described(
                or_reference(&json!({ "type": "boolean" })),
                "`true` to add `%queue` to the metadata: the number of an event in the queue, by which a peer recognises \
                 repeated ones; `false` unless set.",
            ),
        }),
    );
    disk["required"] = json!(["path", "max_bytes"]);
    disk
}

/// Returns the schema of a codec, a processor or an operator, which can be written in three forms.
fn part(components: &[&Described]) -> Value {
    let name_only: Vec<_> = components.iter().copied().filter(|it| !it.needs_config()).collect();
    let by_name: Map<_, _> = components.iter().map(|it| (it.name.clone(), it.config())).collect();
    let is_open = components.is_empty();
    let name_only =
        if is_open || !name_only.is_empty() { names(&name_only) } else { Value::Bool(false) };
    let mut in_full = map(json!({
        "type": names(components),
        "config": { "description": "The configuration of the component." },
    }));
    in_full["required"] = json!(["type"]);
    json!({ "anyOf": [
        name_only,
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": by_name,
            "additionalProperties": is_open,
            "not": { "anyOf": [{ "required": ["type"] }, { "required": ["config"] }] },
        },
        with_types(in_full, components),
    ] })
}

fn pipeline() -> Value {
    map(json!({
        "operators": list_of("operator", "Operators that process the events, in order."),
        "err": err(),
        "dead_letters": dead_letters(),
    }))
}

fn retry() -> Value {
    map(json!({
        "attempts": count(0, "Maximum number of further attempts after a failed one; no limit unless set."),
        "backoff": time("Maximum wait before the first further attempt; 100ms unless set."),
        "max_backoff": time("Maximum wait between two attempts."),
    }))
}

/// Returns the schema of a map with these keys and no others.
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
        "Treatment of an event that cannot be processed, if nothing is linked to the port `err`.",
    )
}

fn dead_letters() -> Value {
    let about = "Maximum bytes of the original event that a dead letter contains; 4KiB unless set, and at most 16MiB.";
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
