//! The artefacts that the cases can use, with schemas like those of plugins.

use std::{path::PathBuf, sync::LazyLock};

use schemars::{JsonSchema, schema_for};
use serde_json::Value;
use tremor_pdk::{Error, Result, Sides, units::MessageBytes};
use tremor_runtime::flow::{Flow, Kind, Lookup, Resolver};

/// A resolver of a few artefacts, for which no library exists.
pub(crate) struct Artefacts;

pub(crate) type Artefact = (Kind, &'static str, Option<Value>);

static ARTEFACTS: LazyLock<Vec<Artefact>> = LazyLock::new(|| {
    let of = |schema: schemars::Schema| Some(schema.to_value());
    vec![
        (Kind::Connector, "file", of(schema_for!(File))),
        (Kind::Connector, "tcp", of(schema_for!(Tcp))),
        (Kind::Connector, "sender", of(schema_for!(Sender))),
        (Kind::Connector, "stdio", of(schema_for!(Nothing))),
        (Kind::Connector, "bench", None),
        (Kind::Codec, "json", of(schema_for!(Json))),
        (Kind::Codec, "string", of(schema_for!(Nothing))),
        (Kind::Preprocessor, "lines", of(schema_for!(Lines))),
        (Kind::Postprocessor, "lines", of(schema_for!(Lines))),
        (Kind::Operator, "passthrough", of(schema_for!(Nothing))),
        (Kind::Operator, "filter", of(schema_for!(Filter))),
        (Kind::Operator, "route", of(schema_for!(Route))),
    ]
});

/// Returns all artefacts, with their schemas.
pub(crate) fn all() -> impl Iterator<Item = Artefact> {
    ARTEFACTS.iter().cloned()
}

impl Resolver for Artefacts {
    fn find(&self, kind: Kind, name: &str) -> Lookup {
        if (kind, name) == (Kind::Connector, "outdated") {
            return Lookup::Unusable("it was built for version 3 of the interface".to_owned());
        }
        ARTEFACTS
            .iter()
            .find(|(known_kind, known, _)| (*known_kind, *known) == (kind, name))
            .map_or(Lookup::Unknown, |(.., schema)| Lookup::Known { schema: schema.clone() })
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        ARTEFACTS
            .iter()
            .filter(|(known_kind, ..)| *known_kind == kind)
            .map(|(_, name, _)| (*name).to_owned())
            .collect()
    }

    fn searched(&self) -> Vec<PathBuf> {
        vec!["plugins".into(), "../target/release".into()]
    }

    fn check(&self, _: &Flow, kind: Kind, name: &str, config: &Value) -> Result<()> {
        match (kind, name, config["field"].as_str()) {
            (Kind::Operator, "filter", Some("(")) => {
                Err(Error::configuration("`field`: expected `)`, found the end"))
            }
            _ => Ok(()),
        }
    }

    fn sides(&self, _: &Flow, connector: &str, config: &Value) -> Option<Sides> {
        let reads = config["mode"].as_str()? == "read";
        (connector == "file").then(|| Sides::new(reads, !reads))
    }

    fn ports(&self, _: &Flow, operator: &str, config: &Value) -> Vec<String> {
        let routes = config["routes"].as_object().filter(|_| operator == "route");
        routes.into_iter().flatten().map(|(route, _)| route.clone()).collect()
    }
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Nothing {}

#[allow(dead_code)] // Only the schema of this type is used, as of the types below.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct File {
    /// Path of the file,
    /// relative to the flow file.
    ///
    /// More about it.
    path: String,
    /// The way in which the file is opened.
    mode: Mode,
    #[serde(default)]
    follow: bool,
    /// Bytes to read at a time.
    #[schemars(range(min = 512, max = 16_777_216))]
    chunk: Option<u32>,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// Reads from the start.
    Read,
    Write,
    Append,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Tcp {
    addresses: Vec<Address>,
    tls: Option<Tls>,
    framing: Option<Framing>,
    #[schemars(length(min = 1))]
    greeting: Option<String>,
    ratio: Option<f64>,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Address {
    host: String,
    port: u16,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Tls {
    certificate: String,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[serde(tag = "by", rename_all = "lowercase", deny_unknown_fields)]
enum Framing {
    Length { bytes: u8 },
    Separator { text: String },
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Json {
    #[serde(default)]
    sort_keys: bool,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Lines {
    /// The longest line in bytes.
    max_length: Option<MessageBytes>,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Filter {
    field: String,
    equals: Option<String>,
}

#[allow(dead_code)]
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Route {
    routes: std::collections::BTreeMap<String, String>,
}

/// A connector that sends events to a target.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct Sender {
    url: String,
    topic: tremor_pdk::template::Template,
    headers: std::collections::BTreeMap<String, String>,
    other: String,
    missing: Option<Missing>,
    #[schemars(extend("pattern" = "^.+:[0-9]+$"))]
    to: Option<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
#[serde(rename_all = "lowercase")]
enum Missing {
    /// The event passes.
    Skip,
    /// The event fails.
    Err,
    /// The event gets these fields.
    Default(std::collections::BTreeMap<String, String>),
}
