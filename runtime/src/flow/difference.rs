//! Comparison of two versions of a flow.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Flow;

/// Keys of a connector that are parts of the tasks that feed it, or of the whole flow, so that a change replaces the flow.
const OF_PLAN: [&str; 3] = ["queue", "on_failure", "hang_limit"];
/// Keys of a connector that belong to its links. The connector itself continues if they change.
const OF_LINKS: [&str; 2] = ["err", "dead_letters"];

/// The difference between two versions of a flow.
#[derive(Debug, PartialEq)]
pub(crate) enum Difference {
    Nothing,
    /// Only the specifications of connectors, and links and pipelines differ.
    Parts(ChangedParts),
    /// Something else differs, which the text describes.
    Flow(String),
}

/// Differences that a running flow may adopt.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChangedParts {
    /// Connectors whose specifications differ, in keys on which nothing else depends.
    pub(crate) connectors: Vec<ChangedConnector>,
    /// Descriptions of the differences of links, pipelines and the set of connectors.
    pub(crate) links: Vec<String>,
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
        let is_part = |key: &&String| ["connectors", "links", "pipelines"].contains(&key.as_str());
        if let Some(key) = keys.iter().find(|key| !is_part(key)) {
            return Difference::Flow(format!("`{key}` has changed"));
        }
        if keys.is_empty() {
            return Difference::Nothing;
        }
        let mut parts = ChangedParts::default();
        if keys.iter().any(|key| key == "links") {
            parts.links.push("`links` has changed".to_owned());
        }
        let (is, was) = (&now["pipelines"], &before["pipelines"]);
        let pipelines = changed_keys(is, was).into_iter();
        parts.links.extend(pipelines.map(|name| match (is.get(&name), was.get(&name)) {
            (Some(_), Some(_)) => format!("the pipeline `{name}` has changed"),
            (Some(_), None) => format!("the pipeline `{name}` was added"),
            _ => format!("the pipeline `{name}` was removed"),
        }));
        match compare(&now["connectors"], &before["connectors"], &mut parts) {
            Some(reason) => Difference::Flow(reason),
            None => Difference::Parts(parts),
        }
    }
}

/// Compares the connectors of two versions, and adds the differences to `parts`. Returns a description of a difference
/// that concerns the whole flow, if there is one.
fn compare(now: &Value, before: &Value, parts: &mut ChangedParts) -> Option<String> {
    for name in changed_keys(now, before) {
        let (now, before) = match (now.get(&name), before.get(&name)) {
            (Some(now), Some(before)) => (now, before),
            (is, _) => {
                let change = if is.is_some() { "added" } else { "removed" };
                parts.links.push(format!("the connector `{name}` was {change}"));
                continue;
            }
        };
        let mut keys = changed_keys(now, before);
        if let Some(key) = keys.iter().find(|key| OF_PLAN.contains(&key.as_str())) {
            return Some(format!("`{key}` of `{name}` has changed"));
        }
        let of_links = keys.extract_if(.., |key| OF_LINKS.contains(&key.as_str()));
        parts.links.extend(of_links.map(|key| format!("`{key}` of `{name}` has changed")));
        let of_config = changed_keys(&now["config"], &before["config"]);
        if let Some(at) = keys.iter().position(|key| key == "config" && !of_config.is_empty()) {
            keys.splice(at..=at, of_config.iter().map(|key| format!("config.{key}")));
        }
        if !keys.is_empty() {
            parts.connectors.push(ChangedConnector { name, keys });
        }
    }
    None
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
        ChangedConnector, ChangedParts, Difference,
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
        let connectors =
            |all| Difference::Parts(ChangedParts { connectors: all, links: Vec::new() });
        assert_eq!(
            difference("to: one, size: 1", "size: 2, by: one"),
            connectors(vec![connector("a", &["config.by", "config.size", "config.to"])])
        );
        assert_eq!(
            difference("b: { type: x }", "b: { type: y, codec: json, config: { to: one } }"),
            connectors(vec![connector("b", &["codec", "config.to", "type"])])
        );
    }

    #[test]
    fn changes_of_links_are_described() {
        for (from, to, expected) in [
            ("a -> b", "a -> b, b -> a", "`links` has changed"),
            ("links", "pipelines: { p: {} }\nlinks", "the pipeline `p` was added"),
            ("  b:", "  c: { type: x }\n  b:", "the connector `c` was added"),
            ("b: { type: x", "b: { type: x, err: discard", "`err` of `b` has changed"),
        ] {
            let links = vec![expected.to_owned()];
            let expected = Difference::Parts(ChangedParts { links, ..ChangedParts::default() });
            assert_eq!(difference(from, to), expected);
        }
    }

    #[test]
    fn other_changes_concern_the_whole_flow() {
        for (from, to, expected) in [
            ("connectors", "plugins: [.]\nconnectors", "`plugins` has changed"),
            (
                "b: { type: x",
                "b: { type: x, queue: { max_events: 7 }",
                "`queue` of `b` has changed",
            ),
        ] {
            assert_eq!(difference(from, to), Difference::Flow(expected.to_owned()));
        }
    }
}
