//! One-line descriptions of components.

use serde_json::Value;

use crate::flow::Kind;

/// Descriptions of built-in components whose configurations have no description.
const BUILT_IN: &[(Kind, &str, &str)] = &[
    (Kind::Codec, "json", "JSON: a message is a value."),
    (Kind::Codec, "msgpack", "MessagePack: a message is a value."),
    (Kind::Codec, "string", "Text: a message is a string in UTF-8."),
    (Kind::Codec, "binary", "Bytes: a message is a value of bytes."),
    (Kind::Codec, "csv", "Records of comma-separated values."),
    (Kind::Codec, "influx", "The line protocol of InfluxDB."),
    (Kind::Codec, "syslog", "Messages of syslog, RFC 5424 and RFC 3164."),
    (Kind::Codec, "logfmt", "Lines of pairs such as `level=warn`."),
    (Kind::Codec, "gelf", "Messages of Graylog, GELF 1.1."),
    (Kind::Codec, "null", "No data: every message is `null`."),
    (Kind::Operator, "passthrough", "Passes every event unchanged."),
    (
        Kind::Preprocessor,
        "cri",
        "Reads log lines of containers in Kubernetes, and joins the parts of long lines.",
    ),
    (
        Kind::Preprocessor,
        "docker",
        "Reads log lines of Docker's driver `json-file`, and joins the parts of long lines.",
    ),
    (Kind::Preprocessor, "remove-empty", "Drops empty messages."),
    (Kind::Postprocessor, "lz4", "Compresses every message by itself."),
];

/// Returns the purpose of a component in one sentence. The sentence comes from the table, or from the description in
/// the schema of the configuration.
pub(super) fn about(kind: Kind, name: &str, config: Option<&Value>) -> String {
    let known = BUILT_IN.iter().find(|(of, built_in, _)| (*of, *built_in) == (kind, name));
    if let Some((.., known)) = known {
        return (*known).to_owned();
    }
    let described = config.and_then(|config| config.get("description")?.as_str());
    let words: Vec<_> = described.unwrap_or_default().split_whitespace().collect();
    let end = words.iter().position(|word| word.ends_with('.')).map_or(words.len(), |at| at + 1);
    words[..end].join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tremor_pdk::NoConfig;

    use super::about;
    use crate::{
        components::{BuiltIn, built_in_names},
        flow::Kind,
        linked::config_schema,
    };

    #[test]
    fn every_built_in_component_has_a_description() {
        let of_no_config = about(Kind::Operator, "", config_schema::<NoConfig>().as_ref());
        for kind in Kind::ALL {
            for name in built_in_names(kind) {
                let config = BuiltIn::find(kind, name).and_then(BuiltIn::config_schema);
                let about = about(kind, name, config.as_ref());
                assert!(about.ends_with('.') && about != of_no_config, "{kind} {name}: {about}");
            }
        }
    }

    #[test]
    fn description_is_the_first_sentence_of_the_schema() {
        let config = json!({ "description": "Waits 1.5\nseconds. And\nmore.\n\nMore." });
        assert_eq!(about(Kind::Operator, "x", Some(&config)), "Waits 1.5 seconds.");
        assert_eq!(
            about(Kind::Operator, "x", Some(&json!({ "description": "A thing" }))),
            "A thing"
        );
        assert_eq!(about(Kind::Operator, "x", None), "");
    }
}
