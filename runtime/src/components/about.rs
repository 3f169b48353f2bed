//! What components are for, in a line.

use serde_json::Value;

use crate::flow::Kind;

/// Of what is built in: components whose configuration does not say it.
const BUILT_IN: &[(Kind, &str, &str)] = &[
    (Kind::Codec, "json", "JSON: a message is a value."),
    (Kind::Codec, "msgpack", "MessagePack: a message is a value."),
    (Kind::Codec, "string", "Text: a message is a string in UTF-8."),
    (Kind::Codec, "binary", "Bytes: a message is a value of bytes."),
    (Kind::Codec, "csv", "Records of comma-separated values."),
    (Kind::Codec, "influx", "The line protocol of InfluxDB."),
    (Kind::Codec, "syslog", "Messages of syslog, RFC 5424 and RFC 3164."),
    (Kind::Codec, "null", "Nothing: every message is `null`."),
    (Kind::Operator, "passthrough", "Passes every event as it is."),
    (Kind::Preprocessor, "remove-empty", "Drops messages without bytes."),
    (Kind::Postprocessor, "lines", "Ends every message with a line feed."),
    (Kind::Postprocessor, "lz4", "Compresses every message by itself."),
];

/// What a component is for, as the schema of its configuration says, or as is known of it: one sentence.
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
    fn every_component_that_is_built_in_says_what_it_is_for() {
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
    fn the_first_sentence_of_a_description_says_what_a_component_is_for() {
        let config = json!({ "description": "Waits 1.5\nseconds. And\nmore.\n\nMore." });
        assert_eq!(about(Kind::Operator, "x", Some(&config)), "Waits 1.5 seconds.");
        assert_eq!(
            about(Kind::Operator, "x", Some(&json!({ "description": "A thing" }))),
            "A thing"
        );
        assert_eq!(about(Kind::Operator, "x", None), "");
    }
}
