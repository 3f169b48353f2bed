//! Registry of all built-in components.
//!
//! Operators and processors implement the same traits as those of plugins, and are created in the same way as those of
//! linked plugins. Codecs implement an interface that only the runtime has, because they work on whole batches and
//! leave messages where they are in the batch.

use serde_json::Value as Config;
use tremor_pdk::{Error, NoConfig, Operator, Result};

use self::BuiltIn::Component;
use crate::{
    codec::{Codec, Json, Msgpack, csv, logfmt, syslog},
    flow::Kind,
    linked::{self, LinkedComponent},
    operator::{Bucket, Dedupe, Filter, Passthrough, Route, Sample, Select, Set, Unnest, Windows},
    plugin::{ComponentFactory, HostContext, InstanceInfo},
    processor::{
        Join, RemoveEmpty, base64, compression,
        container::{Cri, Docker},
        csv_records,
        decode_text::DecodeText,
        gelf_chunks::GelfChunks,
        json_values::JsonValues,
        length_prefixed, lines,
        multiline::Multiline,
        syslog_frames::SyslogFrames,
    },
};

/// Built-in component.
pub(super) enum BuiltIn {
    Codec {
        name: &'static str,
        config_schema: fn() -> Option<Config>,
        make: fn(&Config) -> Result<Codec>,
    },
    Component(LinkedComponent),
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
    codec!("msgpack": Msgpack, |options| Ok(options.into())),
    codec!("string": NoConfig, |_| Ok(Codec::String)),
    codec!("binary": NoConfig, |_| Ok(Codec::Binary)),
    codec!("csv": csv::Options, |it| Ok(Codec::Csv { options: it.checked()?.into() })),
    codec!("influx": NoConfig, |_| Ok(Codec::Influx)),
    codec!("syslog": syslog::Options, |options| Ok(Codec::Syslog { options })),
    codec!("logfmt": logfmt::Options, |options| Ok(Codec::Logfmt { options })),
    codec!("gelf": NoConfig, |_| Ok(Codec::Gelf)),
    codec!("null": NoConfig, |_| Ok(Codec::Null)),
    Component(linked::operators::<Bucket>()),
    Component(linked::operators::<Dedupe>()),
    Component(linked::operators::<Filter>()),
    Component(linked::operators::<Passthrough>()),
    Component(linked::operators::<Route>()),
    Component(linked::operators::<Sample>()),
    Component(linked::operators::<Select>()),
    Component(linked::operators::<Set>()),
    Component(linked::operators::<Unnest>()),
    Component(linked::operators::<Windows>()),
    Component(linked::splitters::<lines::Lines>()),
    Component(linked::splitters::<length_prefixed::Split>()),
    Component(linked::splitters::<SyslogFrames>()),
    Component(linked::splitters::<JsonValues>()),
    Component(linked::splitters::<csv_records::CsvRecords>()),
    Component(linked::preprocessors::<DecodeText>()),
    Component(linked::preprocessors::<Cri>()),
    Component(linked::preprocessors::<Docker>()),
    Component(linked::preprocessors::<Multiline>()),
    Component(linked::preprocessors::<GelfChunks>()),
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
    Component(linked::postprocessors::<csv_records::End>()),
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

    /// Returns whether there is a built-in component with this kind, as in metadata, and this name.
    pub(super) fn exists(kind: &str, name: &str) -> bool {
        ALL.iter().any(|it| it.kind() == kind && it.name() == name)
    }

    fn kind(&self) -> &'static str {
        self.component().map_or(Kind::Codec.as_str(), |component| component.kind)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Codec { name, .. } => name,
            Self::Component(component) => component.name,
        }
    }

    /// Returns the linked component, or `None` for a codec.
    fn component(&self) -> Option<&LinkedComponent> {
        match self {
            Self::Codec { .. } => None,
            Self::Component(component) => Some(component),
        }
    }

    /// Returns whether this is a stateless operator.
    pub(super) fn is_stateless(&self) -> bool {
        self.component().is_some_and(|component| component.stateless)
    }

    pub(super) fn config_schema(&self) -> Option<Config> {
        match self {
            Self::Codec { config_schema, .. } => config_schema(),
            Self::Component(component) => (component.config_schema)(),
        }
    }

    /// Creates an instance to check whether a configuration is valid.
    pub(super) fn check(&self, config: &Config) -> Result<InstanceInfo> {
        match self {
            Self::Codec { make, .. } => make(config).map(|_| InstanceInfo::default()),
            Self::Component(component) => {
                let host = HostContext::checking("");
                ComponentFactory::of(*component).check(component.kind, config, &host)
            }
        }
    }
}

/// Returns the names of the built-in components of a kind.
pub fn built_in_names(kind: Kind) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(move |it| it.kind() == kind.as_str()).map(BuiltIn::name)
}

/// Creates a built-in codec.
///
/// # Errors
/// Kind unsupported if there is no such codec, and kind configuration if the configuration is invalid.
pub fn codec(name: &str, config: &Config) -> Result<Codec> {
    match BuiltIn::find(Kind::Codec, name) {
        Some(BuiltIn::Codec { make, .. }) => make(config),
        _ => Err(unknown(Kind::Codec, name)),
    }
}

/// Creates a built-in operator outside of any flow.
///
/// # Errors
/// Kind unsupported if there is no such operator, and kind configuration if the configuration is invalid.
pub fn operator(name: &str, config: &Config) -> Result<Box<dyn Operator>> {
    let factory = factory(Kind::Operator, name).ok_or_else(|| unknown(Kind::Operator, name))?;
    factory.operator(config, &HostContext::new("", "", ()))
}

/// Returns the factory of a built-in component other than a codec.
pub(crate) fn factory(kind: Kind, name: &str) -> Option<ComponentFactory> {
    BuiltIn::find(kind, name)?.component().copied().map(ComponentFactory::of)
}

fn unknown(kind: Kind, name: &str) -> Error {
    let names: Vec<_> = built_in_names(kind).collect();
    Error::unsupported(format_args!(
        "unknown built-in {kind} `{name}`: expected one of {}",
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
    fn kinds_have_the_same_names_as_those_of_plugins() {
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
    fn components_have_schemas_and_reject_unknown_keys() {
        let mut known = Vec::new();
        for it in ALL {
            let named = (it.kind(), it.name());
            assert!(!known.contains(&named), "{named:?} is listed twice");
            known.push(named);
            assert_eq!(it.config_schema().unwrap()["additionalProperties"], false, "{named:?}");
            let error = it.check(&json!({ "no such key": 1 })).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{named:?}");
            assert!(error.to_string().contains("`no such key`"), "{named:?}: {error}");
        }
    }

    #[test]
    fn error_of_unknown_name_lists_known_ones() {
        let error = operator("filtre", &Value::Null).err().unwrap().to_string();
        assert!(error.starts_with("unknown built-in operator `filtre`"), "{error}");
        let error = codec("jsno", &Value::Null).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "json, msgpack, string, binary, csv, influx, syslog, logfmt, gelf, null"
            )
        );
    }

    #[test]
    fn error_of_invalid_configuration_names_key() {
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
                json!({ "numbers": "drop" }),
                "`numbers`: unknown variant `drop`, expected `exact` or `float`",
            ),
            (
                Kind::Preprocessor,
                "gzip",
                json!({ "max_memory": 0 }),
                "`max_memory`: expected a number of bytes, 1 or more, ",
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
    fn options_of_codec_are_applied() {
        let config = json!({ "sorted_keys": true, "numbers": "float", "max_depth": 3 });
        let decode = json::DecodeOptions { max_depth: 3, nearest_floats: true };
        let encode = json::EncodeOptions { sorted_keys: true, canonical: false };
        assert_eq!(codec("json", &config), Ok(Codec::Json { decode, encode }));
    }

    #[test]
    fn further_ports_follow_from_configuration() {
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
    fn built_in_components_keep_the_contract_of_plugins() {
        let configurations = [
            ("decode-text", json!({ "encoding": "utf-16" })),
            ("dedupe", json!({ "by": ["message"], "within": "1s" })),
            ("filter", json!({ "field": "level", "exists": true })),
            (
                "route",
                json!({ "rules": [{ "when": { "field": "level", "exists": true }, "port": "a" }] }),
            ),
            ("multiline", json!({ "preset": "all" })),
            ("sample", json!({ "every": 2 })),
            ("select", json!({ "keep": ["level"] })),
            ("set", json!({ "edits": [{ "field": "level", "value": 1 }] })),
            ("unnest", json!({ "field": "level", "others": "pass" })),
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
