//! What is built into the runtime: every component of every kind is registered here.
//!
//! Operators and processors are written as a plugin's are, and made as those of a plugin that is linked.
//! Codecs are the runtime's own: they work on whole batches, and leave messages where they lie.

use serde_json::Value as Config;
use tremor_pdk::{Error, NoConfig, Operator, Result};

use self::BuiltIn::{Component, Stateless};
use crate::{
    codec::{Codec, Json, csv, msgpack},
    flow::Kind,
    linked::{self, LinkedComponent},
    operator::{Bucket, Dedupe, Filter, Passthrough, Route, Select, Windows},
    plugin::{ComponentFactory, HostContext, InstanceInfo},
    processor::{Join, RemoveEmpty, base64, compression, length_prefixed, lines},
};

/// A component that is built in.
pub(super) enum BuiltIn {
    Codec {
        name: &'static str,
        config_schema: fn() -> Option<Config>,
        make: fn(&Config) -> Result<Codec>,
    },
    Component(LinkedComponent),
    /// An operator that keeps nothing between batches, so that several are as good as one.
    Stateless(LinkedComponent),
}

macro_rules! codec {
    ($name:literal: $config:ty, $make:expr) => {
        BuiltIn::Codec {
            name: $name,
            config_schema: linked::config_schema::<$config>,
            make: |config| linked::read::<$config>(config).and_then($make),
        }
    };
}

const ALL: &[BuiltIn] = &[
    codec!("json": Json, |options| Ok(options.into())),
    codec!("msgpack": msgpack::DecodeOptions, |decode| Ok(Codec::Msgpack { decode })),
    codec!("string": NoConfig, |_| Ok(Codec::String)),
    codec!("binary": NoConfig, |_| Ok(Codec::Binary)),
    codec!("csv": csv::Options, |it| Ok(Codec::Csv { options: it.checked()?.into() })),
    codec!("influx": NoConfig, |_| Ok(Codec::Influx)),
    codec!("syslog": NoConfig, |_| Ok(Codec::Syslog)),
    codec!("null": NoConfig, |_| Ok(Codec::Null)),
    Component(linked::operators::<Bucket>()),
    Component(linked::operators::<Dedupe>()),
    Stateless(linked::operators::<Filter>()),
    Stateless(linked::operators::<Passthrough>()),
    Stateless(linked::operators::<Route>()),
    Stateless(linked::operators::<Select>()),
    Component(linked::operators::<Windows>()),
    Component(linked::splitters::<lines::Lines>()),
    Component(linked::splitters::<length_prefixed::Split>()),
    Component(linked::splitters::<Join>()),
    Component(linked::preprocessors::<base64::Decode>()),
    Component(linked::preprocessors::<compression::DecompressGzip>()),
    Component(linked::preprocessors::<compression::DecompressZstd>()),
    Component(linked::preprocessors::<compression::DecompressLz4>()),
    Component(linked::preprocessors::<compression::DecompressSnappy>()),
    Component(linked::preprocessors::<compression::DecompressXz>()),
    Component(linked::preprocessors::<compression::DecompressAny>()),
    Component(linked::preprocessors::<RemoveEmpty>()),
    Component(linked::postprocessors::<lines::End>()),
    Component(linked::postprocessors::<length_prefixed::Prepend>()),
    Component(linked::postprocessors::<base64::Encode>()),
    Component(linked::postprocessors::<compression::CompressGzip>()),
    Component(linked::postprocessors::<compression::CompressZstd>()),
    Component(linked::postprocessors::<compression::CompressLz4>()),
    Component(linked::postprocessors::<compression::CompressSnappy>()),
    Component(linked::postprocessors::<compression::CompressXz>()),
];

impl BuiltIn {
    pub(super) fn find(kind: Kind, name: &str) -> Option<&'static Self> {
        ALL.iter().find(|it| it.kind() == kind.as_str() && it.name() == name)
    }

    fn kind(&self) -> &'static str {
        self.component().map_or(Kind::Codec.as_str(), |component| component.kind)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Codec { name, .. } => name,
            Self::Component(component) | Self::Stateless(component) => component.name,
        }
    }

    /// What it is, where it is no codec.
    fn component(&self) -> Option<&LinkedComponent> {
        match self {
            Self::Codec { .. } => None,
            Self::Component(component) | Self::Stateless(component) => Some(component),
        }
    }

    pub(super) fn config_schema(&self) -> Option<Config> {
        match self {
            Self::Codec { config_schema, .. } => config_schema(),
            Self::Component(component) | Self::Stateless(component) => (component.config_schema)(),
        }
    }

    /// Makes an instance, to see whether a configuration is good.
    pub(super) fn check(&self, config: &Config) -> Result<InstanceInfo> {
        match self {
            Self::Codec { make, .. } => make(config).map(|_| InstanceInfo::default()),
            Self::Component(component) | Self::Stateless(component) => {
                let host = HostContext::checking("");
                ComponentFactory::of(*component).check(component.kind, config, &host)
            }
        }
    }
}

/// The names of the components of a kind that are built in.
pub fn built_in_names(kind: Kind) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(move |it| it.kind() == kind.as_str()).map(BuiltIn::name)
}

/// A codec that is built in.
///
/// # Errors
/// Kind unsupported where none has the name, kind configuration where this is none of its.
pub fn codec(name: &str, config: &Config) -> Result<Codec> {
    match BuiltIn::find(Kind::Codec, name) {
        Some(BuiltIn::Codec { make, .. }) => make(config),
        _ => Err(unknown(Kind::Codec, name)),
    }
}

/// An operator that is built in, outside of any flow.
///
/// # Errors
/// As [`codec`].
pub fn operator(name: &str, config: &Config) -> Result<Box<dyn Operator>> {
    let factory = factory(Kind::Operator, name).ok_or_else(|| unknown(Kind::Operator, name))?;
    factory.operator(config, &HostContext::new("", "", ()))
}

/// What makes instances of a component that is built in and no codec.
pub(crate) fn factory(kind: Kind, name: &str) -> Option<ComponentFactory> {
    BuiltIn::find(kind, name)?.component().copied().map(ComponentFactory::of)
}

fn unknown(kind: Kind, name: &str) -> Error {
    let names: Vec<_> = built_in_names(kind).collect();
    Error::unsupported(format_args!(
        "no {kind} `{name}` is built in; expected one of {}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tremor_abi::module::ArtefactKind;
    use tremor_pdk::{ErrorKind, testing::conformance};

    use super::{ALL, BuiltIn, Kind, codec, operator};
    use crate::codec::{Codec, json};

    fn check(kind: Kind, name: &str, config: &Value) -> tremor_pdk::Result<Vec<String>> {
        BuiltIn::find(kind, name).unwrap().check(config).map(|info| info.ports)
    }

    #[test]
    fn kinds_are_called_as_those_of_plugins() {
        let kinds = [
            ArtefactKind::CONNECTOR,
            ArtefactKind::CODEC,
            ArtefactKind::PREPROCESSOR,
            ArtefactKind::POSTPROCESSOR,
            ArtefactKind::OPERATOR,
        ];
        assert_eq!(Kind::ALL.map(Kind::as_str), kinds.map(ArtefactKind::as_str));
    }

    #[test]
    fn every_component_has_a_schema_and_refuses_a_key_that_it_does_not_know() {
        let mut known = Vec::new();
        for it in ALL {
            let named = (it.kind(), it.name());
            assert!(!known.contains(&named), "{named:?} is there twice");
            known.push(named);
            assert_eq!(it.config_schema().unwrap()["additionalProperties"], false, "{named:?}");
            let error = it.check(&json!({ "no such key": 1 })).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{named:?}");
            assert!(error.to_string().contains("`no such key`"), "{named:?}: {error}");
        }
    }

    #[test]
    fn a_name_that_is_not_known_is_an_error_that_says_which_are() {
        let error = operator("filtre", &Value::Null).err().unwrap().to_string();
        assert!(error.starts_with("no operator `filtre` is built in"), "{error}");
        let error = codec("jsno", &Value::Null).unwrap_err().to_string();
        assert!(error.ends_with("json, msgpack, string, binary, csv, influx, syslog, null"));
    }

    #[test]
    fn a_configuration_that_is_wrong_is_an_error_that_names_the_key_and_what_was_expected() {
        for (kind, name, config, expected) in [
            (
                Kind::Codec,
                "json",
                json!({ "max_depth": 0 }),
                "`max_depth`: expected a number from 1 to 512, found 0",
            ),
            (
                Kind::Codec,
                "msgpack",
                json!({ "max_depth": 513 }),
                "`max_depth`: expected a number from 1 to 512, found 513",
            ),
            (
                Kind::Codec,
                "json",
                json!({ "big_integers": "drop" }),
                "`big_integers`: unknown variant `drop`, expected `error` or `float`",
            ),
            (
                Kind::Preprocessor,
                "gzip",
                json!({ "max_memory": 0 }),
                "`max_memory`: expected a number from 1 to 18446744073709551615, found 0",
            ),
            (
                Kind::Postprocessor,
                "zstd",
                json!({ "level": 23 }),
                "`level`: expected a number from 1 to 22, found 23",
            ),
            (
                Kind::Operator,
                "dedupe",
                json!({ "by": ["a"], "within": "0s" }),
                "`within`: expected a time with its unit and above zero",
            ),
            (
                Kind::Operator,
                "filter",
                json!({ "field": "a", "matches": "(" }),
                "`matches`: regex parse error",
            ),
        ] {
            let error = check(kind, name, &config).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{name}");
            assert!(error.to_string().starts_with(expected), "{name}: {error}");
        }
    }

    #[test]
    fn options_of_a_codec_are_heeded() {
        let config = json!({ "sorted_keys": true, "big_integers": "float", "max_depth": 3 });
        let decode = json::DecodeOptions { max_depth: 3, big_integers_as_floats: true };
        let encode = json::EncodeOptions { sorted_keys: true };
        assert_eq!(codec("json", &config), Ok(Codec::Json { decode, encode }));
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
            let ports = check(Kind::Operator, name, &config).unwrap();
            assert_eq!(ports, expected, "{name} {config}");
        }
    }

    #[test]
    fn what_is_built_in_keeps_the_contract_of_plugins() {
        let configurations = [
            ("dedupe", json!({ "by": ["message"], "within": "1s" })),
            ("filter", json!({ "field": "level", "exists": true })),
            (
                "route",
                json!({ "rules": [{ "when": { "field": "level", "exists": true }, "port": "a" }] }),
            ),
            ("select", json!({ "keep": ["level"] })),
            ("window", json!({ "events": 3, "aggregates": { "all": { "function": "count" } } })),
        ];
        for component in ALL.iter().filter_map(BuiltIn::component) {
            let given = configurations.iter().find(|(name, _)| *name == component.name);
            let config = given.map_or_else(|| "{}".to_owned(), |(_, config)| config.to_string());
            let report = conformance::linked(*component, &config);
            let is_made = report.skipped().all(|(check, _)| check != "makes");
            let is_good = is_made && report.faults().next().is_none();
            assert!(is_good, "{} {}:\n{report}", component.kind, component.name);
        }
    }
}
