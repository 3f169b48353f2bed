//! Components: the elements of a flow that have a type and a configuration.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::{Map, Value};
use tremor_abi::value::to_value;
use tremor_pdk::{Result, lock};

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

/// Component of a flow: a connector, codec, preprocessor, postprocessor or operator.
///
/// A connector has further keys. All other components can be written in three ways: as a name, `lines`; with a
/// configuration, `lines: { max_length: 4194304 }`; or in full,
/// `{ type: lines, config: { max_length: 4194304 } }`.
#[derive(Debug, Clone)]
pub struct Component {
    /// Name of the component type.
    pub name: Located<String>,
    /// Configuration of the component.
    pub config: Config,
}

impl Component {
    /// Creates a component that is not in the flow file and has no configuration. Errors about the component have the
    /// location `at`.
    pub(crate) fn new(name: &str, at: Span) -> Self {
        let config = Config::empty(at);
        Self { name: Located::new(name.to_owned(), at), config }
    }
}

/// Configuration of a component, with the locations of its values.
#[derive(Clone)]
pub struct Config {
    value: Value,
    exact: tremor_pdk::Value<'static>,
    /// Location for errors about missing values.
    at: Span,
    node: Option<Node>,
    /// The result of the last [`Config::read_again`] of this value and its clones.
    read: Arc<Mutex<Option<tremor_pdk::Value<'static>>>>,
}

/// Displays the configuration with references instead of their values.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => node.fmt(f),
            None => self.value.fmt(f),
        }
    }
}

impl Config {
    fn empty(at: Span) -> Self {
        let (value, exact) = (Value::Object(Map::new()), tremor_pdk::Value::object());
        Self { value, exact, at, node: None, read: Arc::default() }
    }

    /// Reads a configuration. A missing or empty value becomes an empty map.
    pub(super) fn read(
        node: Option<&Node>,
        at: Span,
        what: &str,
        report: &mut Report,
    ) -> Option<Self> {
        let Some(node) = node else { return Some(Self::empty(at)) };
        match &node.data {
            Data::Null => Some(Self::empty(at)),
            Data::Map(_) => {
                node.report_repeated_keys(report);
                let (value, exact) = (node.to_json(), node.to_value());
                Some(Self { value, exact, at, node: Some(node.clone()), read: Arc::default() })
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

    /// Returns the configuration, which is a JSON object. JSON has the nearest float of a number with more digits than
    /// a float has, and no order of keys: see [`Config::exact`].
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the configuration from which components are created. It keeps the value of every number and the order of
    /// the keys.
    pub fn exact(&self) -> &tremor_pdk::Value<'static> {
        &self.exact
    }

    /// Returns whether the configuration refers to the contents of files.
    pub(crate) fn has_files(&self) -> bool {
        self.node.as_ref().is_some_and(Node::has_files)
    }

    /// Does the same as [`Config::current`], for an instance that is created with the result.
    ///
    /// # Errors
    /// Returns the reason why a file cannot be used.
    pub(crate) fn read_again(&self, folder: &Path) -> Result<tremor_pdk::Value<'static>> {
        let value = self.current(folder)?;
        if self.has_files() {
            *lock(&self.read) = Some(value.clone());
        }
        Ok(value)
    }

    /// Returns the result of the last [`Config::read_again`]. Before the first one, returns [`Config::exact`].
    pub(crate) fn last_read(&self) -> tremor_pdk::Value<'static> {
        lock(&self.read).as_ref().unwrap_or(&self.exact).clone()
    }

    /// Makes the result of [`Config::last_read`] that of `running`, whose instance continues with this configuration.
    pub(crate) fn continue_from(&mut self, running: &Self) {
        self.read = running.read.clone();
    }

    /// Returns [`Config::exact`] with the contents that the files to which it refers have now. `folder` is that of the
    /// flow file.
    ///
    /// # Errors
    /// Returns the reason why a file cannot be used.
    pub(crate) fn current(&self, folder: &Path) -> Result<tremor_pdk::Value<'static>> {
        let mut value = self.exact.clone();
        if let Some(node) = &self.node {
            node.read_again(folder, &mut value)?;
        }
        Ok(value)
    }

    /// Sets the value of a key, or removes the key if `value` is `None`. Locations remain those of the file.
    pub fn set(&mut self, key: &str, value: Option<Value>) {
        let (Value::Object(map), Some(exact)) = (&mut self.value, self.exact.as_object_mut())
        else {
            return;
        };
        match value {
            Some(value) => {
                exact.insert(key.to_owned(), to_value(&value).unwrap_or_default());
                map.insert(key.to_owned(), value);
            }
            None => {
                exact.remove(key);
                map.remove(key);
            }
        }
    }

    /// Returns the location of the key `config`, or of the component if the key is missing.
    pub fn at(&self) -> Span {
        self.at
    }

    /// Returns the location of the value at a JSON pointer (RFC 6901). If there is no such value, returns the location
    /// of the innermost value on its path.
    pub fn span(&self, pointer: &str) -> Span {
        self.walk(pointer).map_or(self.at, |(span, node)| match node {
            // The location of a scalar is that of its value, the location of a list or a map is that of its key.
            Some(node) if !matches!(node.data, Data::List(_) | Data::Map(_)) => node.at,
            _ => span,
        })
    }

    /// Returns JSON pointers to the values that are unknown because their references have no value. [`Config::value`]
    /// contains `null` in place of these values.
    pub(crate) fn unknown(&self) -> Vec<String> {
        self.pointers(&|node| node.data == Data::Unknown)
    }

    /// Returns whether any value came from a reference.
    pub(crate) fn has_references(&self) -> bool {
        !self.pointers(&|node| node.references.is_some()).is_empty()
    }

    /// Returns the tree of the configuration; `None` if the file does not contain it.
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

    /// Returns whether the value at a JSON pointer came from a reference.
    pub(crate) fn is_reference(&self, pointer: &str) -> bool {
        let found = self.walk(pointer).and_then(|(_, node)| node);
        found.is_some_and(|node| node.references.is_some())
    }

    /// Returns the location of the value that a message is about.
    ///
    /// Messages of the kit begin with the path of the value, such as `` `addresses[1].port`: … `` or `` `addresses[1]`:
    /// `port`: … ``.
    pub(crate) fn span_for_message(&self, message: &str) -> Span {
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
        if pointer.is_empty() { self.at } else { self.span(&pointer) }
    }

    /// Returns the location of a key in the map at a JSON pointer.
    pub(crate) fn key_span(&self, pointer: &str, key: &str) -> Span {
        let entry = self.walk(pointer).and_then(|(_, node)| node).and_then(|node| node.entry(key));
        entry.map_or_else(|| self.span(pointer), |entry| entry.at)
    }

    /// Returns a description of the value at a JSON pointer for messages, or "nothing".
    pub(crate) fn describe(&self, pointer: &str) -> String {
        match self.walk(pointer) {
            Some((_, Some(node))) => node.describe(),
            _ => "nothing".to_owned(),
        }
    }

    /// Follows a JSON pointer as far as possible. Returns the location of the last step, and also the node if the whole
    /// path exists. Returns `None` if there is no tree.
    fn walk(&self, pointer: &str) -> Option<(Span, Option<&Node>)> {
        let (mut node, mut span) = (self.node.as_ref()?, self.at);
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
            let Some(next) = next else { return Some((span, None)) };
            (span, node) = next;
        }
        Some((span, Some(node)))
    }
}

/// Reads a component that is written in any of its forms.
///
/// `kind` describes the kind of the component in messages, such as "codec", and `owner` the connector or pipeline that
/// contains it, such as "connector `input`".
pub(super) fn read(node: &Node, kind: &str, owner: &str, report: &mut Report) -> Option<Component> {
    let a_kind = match kind {
        "operator" => format!("an {kind}"),
        _ => format!("a {kind}"),
    };
    match &node.data {
        _ if !is_literal(node, &format!("{a_kind} of {owner}"), report) => None,
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
                let what = format!("{a_kind} of {owner}");
                let fields = Fields::open(node, &what, keys::COMPONENT, report)?;
                typed(&fields, node.at, &what, report)
            }
        },
        _ => {
            let found = node.describe();
            report.push(
                report
                    .error(node.at, format!("expected {a_kind} of {owner}, found {found}"))
                    .help("write its name, or `{ type: NAME, config: { … } }`"),
            );
            None
        }
    }
}

/// Reads the keys `type` and `config` of a map that may have further keys.
///
/// `at` is the location of the error if `type` is missing.
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
                .help(format!("add `type: NAME`, and {} if needed", list(&["config"]))),
        );
        return None;
    };
    let name = text(kind, &format!("the name of a type for {what}"), report)
        .map(|(name, at)| Located::new(name.to_owned(), at));
    let at = fields.entry("config").map_or(kind.at, |entry| entry.at);
    let config = Config::read(fields.get("config"), at, what, report);
    Some(Component { name: name?, config: config? })
}
