//! Positions of sources within their inputs: a position has to be the start of a message, or a later run begins within
//! one. A source that stores positions finds the ends of messages by a terminator, and its preprocessors have to find the
//! same ends.

use serde_json::Value as Config;

use super::BuiltIn;
use crate::flow::{self, Component, Connector, Flow, Kind};

/// Preprocessors whose input is lines.
const OF_LINES: [&str; 5] = ["cri", "docker", "join", "multiline", "remove-empty"];

/// Checks that the first preprocessor of a source finds the ends of messages that the positions of the source refer to.
///
/// The schema of a connector marks the key that makes the source store positions, such as `checkpoint`, with
/// `"x-message-end": KEY`. The key with this name contains the terminator of messages, and is empty if the source stores
/// no position within an input.
///
/// # Errors
/// The preprocessor finds other ends, or is part of a plugin and the flow does not set the terminator.
pub(super) fn check(
    flow: &Flow,
    connector: &Connector,
    schema: &Config,
) -> Result<(), flow::Diagnostic> {
    let config = connector.component.config.value();
    let keys = schema.get("properties").and_then(Config::as_object).into_iter().flatten();
    let marked =
        keys.filter_map(|(key, schema)| Some((key, schema.get("x-message-end")?.as_str()?)));
    let is_set = |key: &String| {
        config.get(key).is_some_and(|value| !value.is_null() && *value != Config::Bool(false))
    };
    let Some((key, end_key)) = marked.into_iter().find(|(key, _)| is_set(key)) else {
        return Ok(());
    };
    let Some(first) = connector.preprocessors.first() else { return Ok(()) };
    let set = config.get(end_key).and_then(Config::as_str);
    if set == Some("") || fits(first, set) {
        return Ok(());
    }
    let name = &first.name.value;
    let message = format!(
        "the positions of `{key}` are the ends of messages that end in {:?}, but preprocessor `{name}` finds other \
         ends: after a restart, the source would begin within a message",
        set.unwrap_or("\n"),
    );
    let help = format!(
        "set `{end_key}` to the bytes in which each message ends, or to `\"\"`: the next run then reads an input from its \
         beginning unless all of it was acknowledged"
    );
    Err(flow.error(first.name.at, message).help(help))
}

/// Returns whether a preprocessor ends each message where the terminator `set` is, which is a line feed unless set.
fn fits(first: &Component, set: Option<&str>) -> bool {
    let end = set.unwrap_or("\n");
    let name = first.name.value.as_str();
    if name == "lines" {
        let separator = first.config.value().get("separator").and_then(Config::as_str);
        return separator.unwrap_or("\n") == end;
    }
    if OF_LINES.contains(&name) {
        return end == "\n";
    }
    // Only the author of the flow knows in which bytes the messages of a plugin end.
    BuiltIn::find(Kind::Preprocessor, name).is_none() && set.is_some()
}
