//! Access to maps with a fixed set of keys.

use super::super::{
    diagnostic::Report,
    source::Span,
    suggest::{did_you_mean, list, near, quote},
    yaml::{Data, Entry, Node, report_repeated_keys_of},
};

/// A map with a fixed set of keys. Unknown keys were reported when the map was opened.
pub(super) struct Fields<'n> {
    node: &'n Node,
    known: &'static [&'static str],
}

impl<'n> Fields<'n> {
    /// Checks the keys of a map. `what` describes the map in messages, such as "connector `input`".
    pub(super) fn open(
        node: &'n Node,
        what: &str,
        known: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let Data::Map(entries) = &node.data else {
            let found = node.describe();
            report.push(
                report
                    .error(node.at, format!("expected a map for {what}, found {found}"))
                    .help(format!("its keys are {}", list(known))),
            );
            return None;
        };
        report_repeated_keys_of(entries, report, |key| {
            format!("key {} appears twice in {what}", quote(key))
        });
        for Entry { key, at, .. } in entries {
            if !known.contains(&key.as_str()) {
                report.push(
                    report
                        .error(*at, format!("unknown key {} in {what}", quote(key)))
                        .maybe_help(did_you_mean(key, known.iter().copied()))
                        .help(format!("known keys are {}", list(known))),
                );
            }
        }
        Some(Self { node, known })
    }

    /// Returns the map of `key`, if the key exists and its value is a map.
    pub(super) fn section(
        &self,
        key: &str,
        owner: &str,
        known: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        Self::open(self.get(key)?, &format!("`{key}` of {owner}"), known, report)
    }

    /// Converts the value of a key with `read`, if the key exists.
    pub(super) fn read<T>(
        &self,
        key: &str,
        report: &mut Report,
        read: impl FnOnce(&'n Node, &str, &mut Report) -> Option<T>,
    ) -> Option<T> {
        read(self.get(key)?, key, report)
    }

    /// Returns whether an unknown key is probably a misspelling of `key`.
    pub(super) fn is_misspelt(&self, key: &str) -> bool {
        let Data::Map(entries) = &self.node.data else { return false };
        let unknown = entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str()));
        unknown.into_iter().any(|entry| near(&entry.key, self.known.iter().copied()).contains(&key))
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.node.entry(key).map(|entry| &entry.value)
    }

    /// Returns the key with its location and its value.
    pub(super) fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.node.entry(key)
    }
}

/// Returns the items of a list. A missing or empty value counts as an empty list. Any other value is reported.
pub(super) fn items<'n>(node: Option<&'n Node>, what: &str, report: &mut Report) -> &'n [Node] {
    match node.map(|node| (&node.data, node)) {
        None | Some((Data::Null, _)) => &[],
        Some((Data::List(items), _)) => items,
        Some((data, node)) => {
            let found = node.describe();
            let help = match data {
                Data::Text(text) if text.len() <= 40 && node.references.is_none() => {
                    format!("write `[{text}]`, or `- {text}` on a line of its own")
                }
                _ => "write `[…]`, or each item as `- …` on a line of its own".to_owned(),
            };
            report.push(
                report
                    .error(node.at, format!("expected a list for {what}, found {found}"))
                    .help(help),
            );
            &[]
        }
    }
}

/// Returns the entries of a map whose keys are names that the user chooses. A missing or empty value counts as an empty
/// map. Any other value is reported.
pub(super) fn entries<'n>(node: Option<&'n Node>, what: &str, report: &mut Report) -> &'n [Entry] {
    match node.map(|node| (&node.data, node)) {
        None | Some((Data::Null, _)) => &[],
        Some((Data::Map(entries), _)) => entries,
        Some((_, node)) => {
            let found = node.describe();
            report.push(
                report.error(node.at, format!("expected a map for {what}, found {found}")).help(
                    "each entry is a name, then `:`, then its keys on further lines, indented",
                ),
            );
            &[]
        }
    }
}

/// Returns `true` if the value is written in the file itself. If the value comes from a reference, reports an error.
pub(super) fn is_literal(node: &Node, what: &str, report: &mut Report) -> bool {
    let Some(references) = &node.references else { return true };
    report.push(
        report
            .error(node.at, format!("expected {what}, found {references}"))
            .help("a reference can only replace a value below `config` or of a setting"),
    );
    false
}

/// Returns a text that is written in the file itself. Any other value is reported. `what` describes the value in
/// messages, such as "a path".
pub(super) fn text<'n>(node: &'n Node, what: &str, report: &mut Report) -> Option<(&'n str, Span)> {
    if !is_literal(node, what, report) {
        return None;
    }
    match &node.data {
        Data::Text(text) => Some((text, node.at)),
        data => {
            let quotes = match data {
                Data::Bool(_) | Data::Number(_) | Data::Exact(_) => {
                    Some("put it in quotes if it is meant as a text".to_owned())
                }
                _ => None,
            };
            let found = node.describe();
            report.push(
                report.error(node.at, format!("expected {what}, found {found}")).maybe_help(quotes),
            );
            None
        }
    }
}
