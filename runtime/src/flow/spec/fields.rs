//! Reading maps whose keys are known.

use super::super::{
    diagnostic::Report,
    source::Span,
    suggest::{did_you_mean, list, near, quote},
    yaml::{Data, Entry, Node, report_repeated_keys_of},
};

/// A map whose keys are known; every other key has been reported.
pub(super) struct Fields<'n> {
    node: &'n Node,
    known: &'static [&'static str],
}

impl<'n> Fields<'n> {
    /// Takes a map apart. `what` names it in messages: "connector `input`".
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
            format!("key {} stands twice in {what}", quote(key))
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

    /// The map of a key of `owner`, where it is there and is one.
    pub(super) fn section(
        &self,
        key: &str,
        owner: &str,
        known: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        Self::open(self.get(key)?, &format!("`{key}` of {owner}"), known, report)
    }

    /// What `read` makes of the value of a key, where it is there.
    pub(super) fn read<T>(
        &self,
        key: &str,
        report: &mut Report,
        read: impl FnOnce(&'n Node, &str, &mut Report) -> Option<T>,
    ) -> Option<T> {
        read(self.get(key)?, key, report)
    }

    /// Whether an unknown key was probably meant to be this one.
    pub(super) fn is_misspelt(&self, key: &str) -> bool {
        let Data::Map(entries) = &self.node.data else { return false };
        let unknown = entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str()));
        unknown.into_iter().any(|entry| near(&entry.key, self.known.iter().copied()).contains(&key))
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.node.entry(key).map(|entry| &entry.value)
    }

    /// A key with its place, and its value.
    pub(super) fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.node.entry(key)
    }
}

/// The items of a list; anything else is reported, nothing at all is an empty list.
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

/// The entries of a map whose keys are names that the user chose; the rest as for [`items`].
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

/// Whether a value stands in the file itself; a reference is reported.
pub(super) fn is_literal(node: &Node, what: &str, report: &mut Report) -> bool {
    let Some(references) = &node.references else { return true };
    report.push(report.error(node.at, format!("expected {what}, found {references}")).help(
        "what a flow consists of stands in its file; values below `config` and settings may refer",
    ));
    false
}

/// A text that stands in the file itself; anything else is reported. `what` names it in messages: "a path".
pub(super) fn text<'n>(node: &'n Node, what: &str, report: &mut Report) -> Option<(&'n str, Span)> {
    if !is_literal(node, what, report) {
        return None;
    }
    match &node.data {
        Data::Text(text) => Some((text, node.at)),
        data => {
            let quotes = match data {
                Data::Bool(_) | Data::Number(_) => {
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
