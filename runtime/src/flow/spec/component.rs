//! Things that have a type and a configuration.

use std::fmt;

use serde_json::{Map, Value};

use super::{
    super::{
        diagnostic::Report,
        source::{Located, Span},
        suggest::{list, quote},
        yaml::{Data, Node},
    },
    fields::{Fields, is_literal, text},
    keys,
};

/// Something that is made from an artefact and a configuration: a connector, codec, preprocessor,
/// postprocessor or operator.
///
/// Besides connectors, which have more keys, it can be written in three ways: as its name alone,
/// `lines`; with its configuration, `lines: { max_length: 4194304 }`; or at length,
/// `{ type: lines, config: { max_length: 4194304 } }`.
#[derive(Debug, Clone)]
pub struct Component {
    /// The artefact's name.
    pub name: Located<String>,
    /// Its configuration.
    pub config: Config,
}

impl Component {
    /// Returns a component without configuration that the flow file does not name. `at` is where errors point to.
    pub(crate) fn new(name: &str, at: Span) -> Self {
        let config = Config { value: Value::Object(Map::new()), at, node: None };
        Self { name: Located::new(name.to_owned(), at), config }
    }
}

/// A free-form configuration, whose places are known.
#[derive(Clone)]
pub struct Config {
    value: Value,
    /// Where to point when something is missing.
    at: Span,
    node: Option<Node>,
}

/// With references in place of their values.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => node.fmt(f),
            None => self.value.fmt(f),
        }
    }
}

impl Config {
    /// Takes a configuration over. Nothing at all stands for an empty map.
    pub(super) fn read(
        node: Option<&Node>,
        at: Span,
        what: &str,
        report: &mut Report,
    ) -> Option<Self> {
        let empty = || Value::Object(Map::new());
        let Some(node) = node else { return Some(Self { value: empty(), at, node: None }) };
        match &node.data {
            Data::Null => Some(Self { value: empty(), at, node: None }),
            Data::Map(_) => {
                node.report_repeated_keys(report);
                Some(Self { value: node.to_json(), at, node: Some(node.clone()) })
            }
            _ => {
                let found = node.describe();
                report.push(report.error(
                    node.at,
                    format!("expected a map for the configuration of {what}, found {found}"),
                ));
                None
            }
        }
    }

    /// The configuration; a JSON object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Gives a key of the map this value instead of the one that the file gives it; `None` removes
    /// it. Places stay those of the file.
    pub fn set(&mut self, key: &str, value: Option<Value>) {
        let Value::Object(map) = &mut self.value else { return };
        match value {
            Some(value) => drop(map.insert(key.to_owned(), value)),
            None => drop(map.remove(key)),
        }
    }

    /// Where the configuration stands: its key, or what it belongs to where it has none.
    pub fn at(&self) -> Span {
        self.at
    }

    /// Where the value that a JSON pointer (RFC 6901) leads to stands. Where there is no such
    /// value: the key of the innermost one on the way to it.
    pub fn place(&self, pointer: &str) -> Span {
        self.walk(pointer).map_or(self.at, |(place, node)| match node {
            // A scalar is pointed at itself, a list or map by what introduces it.
            Some(node) if !matches!(node.data, Data::List(_) | Data::Map(_)) => node.at,
            _ => place,
        })
    }

    /// Where the values are that are not known, since their references have none: JSON pointers. They are
    /// `null` in [`Config::value`].
    pub(crate) fn unknown(&self) -> Vec<String> {
        self.pointers(&|node| node.data == Data::Unknown)
    }

    /// Whether any value came from a reference.
    pub(crate) fn has_references(&self) -> bool {
        !self.pointers(&|node| node.references.is_some()).is_empty()
    }

    /// The tree of the configuration; `None` if the file gives it nothing.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn pointers(&self, is_meant: &dyn Fn(&Node) -> bool) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(node) = &self.node {
            node.pointers(is_meant, "", &mut all);
        }
        all
    }

    /// Whether what a pointer leads to came from a reference.
    pub(crate) fn is_reference(&self, pointer: &str) -> bool {
        let found = self.walk(pointer).and_then(|(_, node)| node);
        found.is_some_and(|node| node.references.is_some())
    }

    /// Where the value stands that a message is about which starts with its path, as those of the kit do:
    /// `` `addresses[1].port`: … ``, or `` `addresses[1]`: `port`: … ``.
    pub(crate) fn place_of(&self, message: &str) -> Span {
        let (mut pointer, mut rest) = (String::new(), message);
        while let Some((path, after)) =
            rest.strip_prefix('`').and_then(|rest| rest.split_once("`: "))
        {
            let longer = format!("{pointer}/{}", path.replace(['.', '['], "/").replace(']', ""));
            if !matches!(self.walk(&longer), Some((_, Some(_)))) {
                break;
            }
            (pointer, rest) = (longer, after);
        }
        if pointer.is_empty() { self.at } else { self.place(&pointer) }
    }

    /// Where a key stands in the map that a JSON pointer leads to.
    pub(crate) fn key_place(&self, pointer: &str, key: &str) -> Span {
        let entry = self.walk(pointer).and_then(|(_, node)| node).and_then(|node| node.entry(key));
        entry.map_or_else(|| self.place(pointer), |entry| entry.at)
    }

    /// What a JSON pointer leads to, in the words of a message.
    pub(crate) fn describe(&self, pointer: &str) -> String {
        match self.walk(pointer) {
            Some((_, Some(node))) => node.describe(),
            _ => "nothing".to_owned(),
        }
    }

    /// Follows a pointer as far as it goes: the place of the last step, and the node if the whole
    /// way exists.
    fn walk(&self, pointer: &str) -> Option<(Span, Option<&Node>)> {
        let (mut node, mut place) = (self.node.as_ref()?, self.at);
        for segment in pointer.split('/').skip(1) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            let next = match &node.data {
                Data::Map(_) => node.entry(&segment).map(|entry| (entry.at, &entry.value)),
                Data::List(items) => segment
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index))
                    .map(|item| (item.at, item)),
                _ => None,
            };
            let Some(next) = next else { return Some((place, None)) };
            (place, node) = next;
        }
        Some((place, Some(node)))
    }
}

/// Reads a component in any of its forms. `kind` names it in messages: "codec"; `whole` names
/// where it belongs: "connector `input`".
pub(super) fn read(node: &Node, kind: &str, whole: &str, report: &mut Report) -> Option<Component> {
    let a_kind = match kind {
        "operator" => format!("an {kind}"),
        _ => format!("a {kind}"),
    };
    match &node.data {
        _ if !is_literal(node, &format!("{a_kind} of {whole}"), report) => None,
        Data::Text(name) if !name.is_empty() => {
            let name = Located::new(name.clone(), node.at);
            let config = Config::read(None, node.at, "", report)?;
            Some(Component { name, config })
        }
        Data::Map(entries) => match entries.as_slice() {
            [entry] if !["type", "config"].contains(&entry.key.as_str()) => {
                let what = format!("{kind} {}", quote(&entry.key));
                let config = Config::read(Some(&entry.value), entry.at, &what, report)?;
                Some(Component { name: Located::new(entry.key.clone(), entry.at), config })
            }
            _ => {
                let what = format!("{a_kind} of {whole}");
                let fields = Fields::open(node, &what, keys::COMPONENT, report)?;
                typed(&fields, node.at, &what, report)
            }
        },
        _ => {
            let found = node.describe();
            report.push(
                report
                    .error(node.at, format!("expected {a_kind} of {whole}, found {found}"))
                    .help("write its name, or `{ type: NAME, config: { … } }`"),
            );
            None
        }
    }
}

/// Reads the keys `type` and `config` of a map that may have more. `at` is where to point if there
/// is no `type`.
pub(super) fn typed(
    fields: &Fields<'_>,
    at: Span,
    what: &str,
    report: &mut Report,
) -> Option<Component> {
    let Some(kind) = fields.get("type") else {
        if fields.is_misspelt("type") {
            return None;
        }
        report.push(
            report
                .error(at, format!("{what} has no `type`"))
                .help(format!("add `type: NAME`; {} may follow", list(&["config"]))),
        );
        return None;
    };
    let name = text(kind, &format!("the name of a type for {what}"), report)
        .map(|(name, at)| Located::new(name.to_owned(), at));
    let at = fields.entry("config").map_or(kind.at, |entry| entry.at);
    let config = Config::read(fields.get("config"), at, what, report);
    Some(Component { name: name?, config: config? })
}
