//! Warnings about placeholders such as `{host}` in keys of connectors that are not templates.

use serde_json::Value;
use tremor_pdk::{names_credentials, placeholder};

use super::{
    super::{
        diagnostic::{Diagnostic, Report},
        spec::Component,
        suggest::quote,
        yaml::Data,
    },
    Kind, schemas,
};

/// Keys that name a target, so that an author of a flow may expect a template.
const TARGETS: [&str; 12] = [
    "bucket", "channel", "database", "headers", "host", "index", "key", "path", "subject", "table",
    "topic", "url",
];

/// Value of `format` in the schema of a template: see [`tremor_pdk::template::Template`].
const TEMPLATE: &str = "template";

/// Returns warnings about placeholders in the keys of a connector that name a target, unless the schema says that the
/// value is a template or a secret.
///
/// A value that contains a reference is not examined, because a message must not contain a part of it.
pub(super) fn warnings(component: &Component, schema: &Value, report: &Report) -> Vec<Diagnostic> {
    let Some(node) = component.config.node() else { return Vec::new() };
    let owner = Kind::Connector.named(&component.name.value);
    let mut found = Vec::new();
    schemas::walk_keys(node, schema, &mut |node, keys, schemas| {
        let states = |schema: &&Value| {
            schema.get("format").is_some_and(|it| it == TEMPLATE)
                || schema.get("writeOnly") == Some(&Value::Bool(true))
        };
        if schemas.iter().any(states) || keys.last().is_some_and(|key| names_secret(key)) {
            return false;
        }
        if let Data::Text(text) = &node.data
            && node.references.is_none()
            && keys.iter().any(|key| TARGETS.contains(key))
            && let Some(name) = placeholder(text)
        {
            found.push((node.at, keys.join("."), name.to_owned()));
        }
        true
    });
    let help = "write `${env:NAME}` for a variable of the environment; the page of the connector says which keys are \
                templates";
    let warning = |(at, key, name): (_, String, String)| {
        let message = format!(
            "nothing replaces {} in {} of {owner}: this key is not a template",
            quote(&format!("{{{name}}}")),
            quote(&key),
        );
        report.warning(at, message).help(help)
    };
    found.into_iter().map(warning).collect()
}

/// Returns whether a key below `headers` names a header with credentials. Of the keys that name targets, only `key`
/// does so too.
fn names_secret(key: &str) -> bool {
    !TARGETS.contains(&key) && names_credentials(key)
}
