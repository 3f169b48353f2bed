//! Comparison of two versions of a flow.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Flow;

/// Keys of a connector on which other parts of the plan of a flow depend, so that a change replaces the whole flow.
const OF_PLAN: [&str; 5] = ["queue", "err", "dead_letters", "on_failure", "hang_limit"];

/// The difference between two versions of a flow.
#[derive(Debug, PartialEq)]
pub(crate) enum Difference {
    Nothing,
    /// Only the specifications of these connectors differ, in keys on which nothing else depends.
    Connectors(Vec<ChangedConnector>),
    /// Something else differs, which the text describes.
    Flow(String),
}

/// A connector whose specification differs.
#[derive(Debug, PartialEq)]
pub(crate) struct ChangedConnector {
    pub(crate) name: String,
    /// Keys of the specification that differ. A key of the configuration follows `config.`.
    pub(crate) keys: Vec<String>,
}

impl Flow {
    /// Compares the flow with an earlier version. Comments, formatting and the order of keys are not compared, and
    /// neither are the contents of files to which the flow refers.
    pub(crate) fn difference(&self, earlier: &Self) -> Difference {
        if self.folder() != earlier.folder() {
            return Difference::Flow("its file is in another folder".to_owned());
        }
        let (now, before) = (&*self.content.0, &*earlier.content.0);
        let keys = changed_keys(now, before);
        match keys.iter().find(|key| *key != "connectors") {
            Some(key) => Difference::Flow(format!("`{key}` has changed")),
            None if keys.is_empty() => Difference::Nothing,
            None => compare(&now["connectors"], &before["connectors"]),
        }
    }
}

/// Compares the connectors of two versions.
fn compare(now: &Value, before: &Value) -> Difference {
    let mut connectors = Vec::new();
    for name in changed_keys(now, before) {
        let (now, before) = match (now.get(&name), before.get(&name)) {
            (Some(now), Some(before)) => (now, before),
            (Some(_), None) => {
                return Difference::Flow(format!("the connector `{name}` was added"));
            }
            _ => return Difference::Flow(format!("the connector `{name}` was removed")),
        };
        let mut keys = changed_keys(now, before);
        if let Some(key) = keys.iter().find(|key| OF_PLAN.contains(&key.as_str())) {
            return Difference::Flow(format!("`{key}` of `{name}` has changed"));
        }
        let of_config = changed_keys(&now["config"], &before["config"]);
        if let Some(at) = keys.iter().position(|key| key == "config" && !of_config.is_empty()) {
            keys.splice(at..=at, of_config.iter().map(|key| format!("config.{key}")));
        }
        connectors.push(ChangedConnector { name, keys });
    }
    Difference::Connectors(connectors)
}

/// Returns the keys whose values differ, in alphabetical order. A value that is not a map has no keys.
fn changed_keys(now: &Value, before: &Value) -> Vec<String> {
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
    };
    let all = keys(now).union(&keys(before)).cloned().collect::<Vec<_>>();
    all.into_iter().filter(|key| now.get(key) != before.get(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Environment, Limits, parse},
        ChangedConnector, Difference,
    };

    const BEFORE: &str = "
connectors:
  a: { type: x, config: { to: one, size: 1 } }
  b: { type: x }
links: [a -> b]
";

    /// Compares a version of the flow, in which `from` is replaced by `to`, with the original one.
    fn difference(from: &str, to: &str) -> Difference {
        let flow = |path: &str, text: String| {
            let draft = parse(path, text, &Limits::default(), &Environment::default()).unwrap();
            draft.finish().unwrap()
        };
        assert!(BEFORE.contains(from));
        flow("f", BEFORE.replace(from, to)).difference(&flow("f", BEFORE.to_owned()))
    }

    fn connector(name: &str, keys: &[&str]) -> ChangedConnector {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        ChangedConnector { name: name.to_owned(), keys }
    }

    #[test]
    fn changed_connectors_are_named_with_their_keys() {
        assert_eq!(difference("links", "# A comment\nlinks"), Difference::Nothing);
        assert_eq!(
            difference("to: one, size: 1", "size: 2, by: one"),
            Difference::Connectors(vec![connector(
                "a",
                &["config.by", "config.size", "config.to"]
            )])
        );
        assert_eq!(
            difference("b: { type: x }", "b: { type: y, codec: json, config: { to: one } }"),
            Difference::Connectors(vec![connector("b", &["codec", "config.to", "type"])])
        );
    }

    #[test]
    fn other_changes_concern_the_whole_flow() {
        for (from, to, expected) in [
            ("a -> b", "a -> b, b -> a", "`links` has changed"),
            ("links", "pipelines: { p: {} }\nlinks", "`pipelines` has changed"),
            ("  b:", "  c: { type: x }\n  b:", "the connector `c` was added"),
            (
                "b: { type: x",
                "b: { type: x, queue: { max_events: 7 }",
                "`queue` of `b` has changed",
            ),
            ("b: { type: x", "b: { type: x, err: discard", "`err` of `b` has changed"),
        ] {
            assert_eq!(difference(from, to), Difference::Flow(expected.to_owned()));
        }
    }
}
