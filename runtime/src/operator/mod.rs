//! Operators: what a pipeline does to events.

mod batch;
mod bounded;
mod bucket;
mod condition;
mod dedupe;
mod field;
mod filter;
mod key;
mod passthrough;
mod period;
mod route;
mod select;
#[cfg(test)]
mod testing;
mod window;

use schemars::JsonSchema;
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value as Config;
use tremor_pdk::Operator;

/// An operator of the runtime's own.
trait BuiltIn: Operator + Sized {
    /// What flow files say about it.
    type Config: DeserializeOwned + JsonSchema;
    /// Whether it keeps nothing between batches, so that several are as good as one.
    const STATELESS: bool = false;

    /// Makes one.
    ///
    /// # Errors
    /// What is wrong with the configuration, in a sentence.
    fn new(config: Self::Config) -> Result<Self, String>;

    /// The ports that its events leave by besides `out` and `err`, in the order of its numbers for
    /// them.
    fn ports(config: &Self::Config) -> Vec<String> {
        let _ = config;
        Vec::new()
    }
}

/// A [`BuiltIn`], its type forgotten.
struct Entry {
    name: &'static str,
    is_stateless: bool,
    make: fn(&Config) -> Result<Box<dyn Operator>, String>,
    ports: fn(&Config) -> Result<Vec<String>, String>,
    schema: fn() -> Config,
}

impl Entry {
    const fn of<O: BuiltIn>(name: &'static str) -> Self {
        Self {
            name,
            is_stateless: O::STATELESS,
            make: |config| Ok(Box::new(O::new(read::<O>(config)?)?)),
            ports: |config| Ok(O::ports(&read::<O>(config)?)),
            schema: || schemars::schema_for!(O::Config).to_value(),
        }
    }
}

fn read<O: BuiltIn>(config: &Config) -> Result<O::Config, String> {
    // A flow that says nothing of the configuration means an empty one.
    let empty = Config::Object(serde_json::Map::new());
    let config = if config.is_null() { &empty } else { config };
    O::Config::deserialize(config).map_err(|error| error.to_string())
}

const BUILT_IN: [Entry; 8] = [
    Entry::of::<batch::Batching>("batch"),
    Entry::of::<bucket::Bucket>("bucket"),
    Entry::of::<dedupe::Dedupe>("dedupe"),
    Entry::of::<filter::Filter>("filter"),
    Entry::of::<passthrough::Passthrough>("passthrough"),
    Entry::of::<route::Route>("route"),
    Entry::of::<select::Select>("select"),
    Entry::of::<window::Windows>("window"),
];

/// The names that flow files know operators by.
pub const OPERATORS: &[&str] = &{
    let mut names = [""; BUILT_IN.len()];
    let mut position = 0;
    while position < names.len() {
        names[position] = BUILT_IN[position].name;
        position += 1;
    }
    names
};

fn entry(name: &str) -> Option<&'static Entry> {
    BUILT_IN.iter().find(|entry| entry.name == name)
}

/// An operator by the name that flow files know it by.
///
/// # Errors
/// What is wrong with the name or the configuration, in a sentence.
pub fn operator(name: &str, config: &Config) -> Result<Box<dyn Operator>, String> {
    match entry(name) {
        Some(entry) => (entry.make)(config),
        None => Err(format!("there is no operator `{name}`; there are {OPERATORS:?}")),
    }
}

/// The ports by which events leave an operator besides `out` and `err`: what its events are sent
/// out of by position. None for a name that is not known.
///
/// # Errors
/// As [`operator`].
pub(crate) fn ports(name: &str, config: &Config) -> Result<Vec<String>, String> {
    entry(name).map_or_else(|| Ok(Vec::new()), |entry| (entry.ports)(config))
}

/// Whether the operator of that name keeps nothing between batches.
pub(crate) fn is_stateless(name: &str) -> bool {
    entry(name).is_some_and(|entry| entry.is_stateless)
}

/// The JSON Schema of an operator's configuration.
pub fn schema(name: &str) -> Option<Config> {
    entry(name).map(|entry| (entry.schema)())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{OPERATORS, operator, ports, schema};

    #[test]
    fn every_operator_has_a_schema_of_its_name() {
        for name in OPERATORS {
            assert_eq!(schema(name).unwrap()["title"], *name);
        }
        assert!(schema("nothing").is_none());
    }

    #[test]
    fn an_unknown_operator_is_an_error_that_names_those_there_are() {
        let error = operator("filtre", &json!({})).err().unwrap();
        assert!(error.contains("`filtre`") && error.contains("\"filter\""), "{error}");
    }

    #[test]
    fn an_unknown_key_is_an_error_in_every_configuration() {
        for name in OPERATORS {
            let error = operator(name, &json!({ "no such key": 1 })).err().unwrap();
            assert!(error.contains("`no such key`"), "{name}: {error}");
        }
    }

    #[test]
    fn ports_beside_out_and_err_follow_from_the_configuration() {
        let rule = |port| json!({ "when": { "field": "a", "exists": true }, "port": port });
        for (name, config, expected) in [
            ("filter", json!({ "field": "a", "exists": true }), &[][..]),
            ("bucket", json!({}), &["overflow"]),
            ("dedupe", json!({ "by": ["id"], "within": "1s" }), &[]),
            (
                "dedupe",
                json!({ "by": ["id"], "within": "1s", "duplicates": "port" }),
                &["duplicates"],
            ),
            ("window", json!({ "events": 2, "aggregates": {} }), &["late"]),
            (
                "route",
                json!({ "rules": [rule("b"), rule("out"), rule("a"), rule("b")],
                "default": "c" }),
                &["b", "a", "c"],
            ),
        ] {
            assert_eq!(ports(name, &config).unwrap(), expected, "{name} {config}");
        }
    }
}
