//! Readable description of the keys of a configuration, generated from its JSON Schema.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use tremor_runtime::flow::with_unit;

/// Maximum depth of nested objects that are shown. A limit is needed because schemas may refer to themselves.
const MAX_DEPTH: usize = 4;

/// Description of a key.
struct Row {
    name: String,
    /// Text after the name: the type of the key, whether it is required, and the default.
    facts: String,
    /// Lines below the name.
    lines: Vec<String>,
}

/// Returns the description of a schema, followed by the keys that the schema allows. Each line of the keys is indented
/// by `indent` spaces.
pub(super) fn text(schema: &Json, indent: usize) -> String {
    let mut keys = Keys { root: schema, rows: Vec::new() };
    keys.add_keys(schema, "", 0);
    let mut text = description(schema).unwrap_or_default().join(" ");
    if keys.rows.is_empty() && text.is_empty() {
        text.push_str("no keys");
    }
    let width = keys.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for Row { name, facts, lines } in &keys.rows {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{:indent$}{name:width$}  {facts}", "");
        for line in lines {
            let _ = write!(text, "\n{:indent$}  {line}", "");
        }
    }
    text
}

/// Returns the paragraphs of a description.
fn description(schema: &Json) -> Option<Vec<String>> {
    let text = schema.get("description")?.as_str()?;
    Some(text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect())
}

struct Keys<'s> {
    root: &'s Json,
    rows: Vec<Row>,
}

impl<'s> Keys<'s> {
    /// Adds the keys of all objects that a schema allows.
    fn add_keys(&mut self, schema: &'s Json, prefix: &str, depth: usize) {
        if depth == MAX_DEPTH {
            return;
        }
        for form in self.forms(schema, depth) {
            if let Some(properties) = form.get("properties").and_then(Json::as_object) {
                self.add_properties(properties, form.get("required"), prefix, depth);
            }
            // The value is a map, in which keys may have any name.
            if let Some(values @ Json::Object(_)) = form.get("additionalProperties") {
                self.add(&format!("{prefix}NAME"), values, false, depth);
            }
            if let Some(items) = form.get("items") {
                let inner = prefix.strip_suffix('.').unwrap_or(prefix);
                self.add_keys(items, &format!("{inner}[]."), depth + 1);
            }
        }
    }

    /// Adds the properties of an object, required ones first.
    fn add_properties(
        &mut self,
        properties: &'s Map<String, Json>,
        required: Option<&Json>,
        prefix: &str,
        depth: usize,
    ) {
        let required = required.and_then(Json::as_array);
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        for needed in [true, false] {
            for (name, property) in
                properties.iter().filter(|(name, _)| is_required(name) == needed)
            {
                self.add(&format!("{prefix}{name}"), property, needed, depth);
            }
        }
    }

    fn add(&mut self, name: &str, property: &'s Json, is_required: bool, depth: usize) {
        let forms = self.forms(property, depth);
        let mut facts = self.types(&forms, depth);
        if is_required {
            facts.push_str(", required");
        }
        if let Some(default) = property.get("default").filter(|default| !default.is_null()) {
            let _ = write!(facts, ", default {}", literal(default));
        }
        let about = description(property).or_else(|| description(self.resolved(property)));
        let mut lines = about.unwrap_or_default();
        for form in &forms {
            if let (Some(value), Some(about)) = (form.get("const"), description(form)) {
                lines.push(format!("  {}: {}", literal(value), about.join(" ")));
            }
        }
        self.rows.push(Row { name: name.to_owned(), facts, lines });
        self.add_keys(property, &format!("{name}."), depth + 1);
    }

    /// Returns the target of a reference, or the schema itself.
    fn resolved(&self, schema: &'s Json) -> &'s Json {
        let reference = schema.get("$ref").and_then(Json::as_str);
        let path = reference.and_then(|reference| reference.strip_prefix('#'));
        path.and_then(|path| self.root.pointer(path)).unwrap_or(schema)
    }

    /// Returns the alternatives that a schema allows, without `null`, which only means that the key may be omitted.
    fn forms(&self, schema: &'s Json, depth: usize) -> Vec<&'s Json> {
        let schema = self.resolved(schema);
        let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"));
        let mut forms = match alternatives.and_then(Json::as_array) {
            Some(alternatives) if depth < MAX_DEPTH => {
                alternatives.iter().flat_map(|form| self.forms(form, depth + 1)).collect()
            }
            _ => vec![schema],
        };
        forms.retain(|form| form.get("type").is_none_or(|of| of != "null"));
        forms
    }

    /// Returns the types of alternatives, each once.
    fn types(&self, forms: &[&'s Json], depth: usize) -> String {
        let mut types: Vec<String> = Vec::new();
        for form in forms {
            for one in self.type_of(form, depth) {
                if !types.contains(&one) {
                    types.push(one);
                }
            }
        }
        match types.split_last() {
            None => "nothing".to_owned(),
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
        }
    }

    fn type_of(&self, form: &'s Json, depth: usize) -> Vec<String> {
        if let Some(value) = form.get("const") {
            return vec![literal(value)];
        }
        if let Some(values) = form.get("enum").and_then(Json::as_array) {
            return values.iter().filter(|value| !value.is_null()).map(literal).collect();
        }
        if let Some((kind, _)) = with_unit(form) {
            return vec![kind.strip_prefix("a ").unwrap_or(&kind).to_owned()];
        }
        let named = |name: &Json| match name.as_str() {
            None | Some("null") => None,
            Some("array") if depth < MAX_DEPTH => {
                let items = form.get("items").map(|items| self.forms(items, depth + 1));
                let items = items.map_or("anything".to_owned(), |it| self.types(&it, depth + 1));
                Some(format!("list of {items}"))
            }
            Some(name @ ("integer" | "number")) => Some(format!("{name}{}", range(form))),
            Some(name) => Some(name.to_owned()),
        };
        match form.get("type") {
            Some(Json::Array(names)) => names.iter().filter_map(named).collect(),
            Some(name) => named(name).into_iter().collect(),
            None => vec!["anything".to_owned()],
        }
    }
}

fn range(number: &Json) -> String {
    match (number.get("minimum"), number.get("maximum")) {
        (Some(from), Some(to)) => format!(" from {from} to {to}"),
        (Some(from), None) => format!(" from {from}"),
        (None, Some(to)) => format!(" up to {to}"),
        (None, None) => String::new(),
    }
}

/// Returns a value as it is written in a flow file.
fn literal(value: &Json) -> String {
    match value.as_str() {
        // JSON quotes and escapes the text, because a line feed would break the line.
        Some(text) if text.is_empty() || text.contains(char::is_control) => format!("`{value}`"),
        Some(text) => format!("`{text}`"),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, schema_for};
    use serde::{Deserialize, Serialize};
    use tremor_pdk::units::{Interval, MessageBytes};

    use super::{literal, text};

    /// For tests.
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Config {
        /// Target of the events.
        address: String,
        /// Speed of the connection.
        #[serde(default)]
        mode: Mode,
        /// Bytes.
        #[schemars(range(min = 1, max = 9))]
        #[serde(default = "three")]
        size: u32,
        pause: Option<Pause>,
        /// Names,
        /// in order.
        tags: Vec<String>,
        peers: Vec<Peer>,
        labels: std::collections::BTreeMap<String, bool>,
        free: serde_json::Value,
        length: MessageBytes,
        timeout: Option<Interval>,
    }

    fn three() -> u32 {
        3
    }

    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        /// Without pauses.
        #[default]
        Fast,
        Slow,
    }

    /// Between two.
    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Pause {
        Seconds(f64),
        Exact { millis: i64 },
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Peer {
        port: u16,
        /// Peers of the peer.
        next: Option<Box<Peer>>,
    }

    #[test]
    fn text_with_line_break_is_escaped() {
        assert_eq!(literal(&"fast".into()), "`fast`");
        assert_eq!(literal(&"\n".into()), r#"`"\n"`"#);
        assert_eq!(literal(&"".into()), r#"`""`"#);
    }

    #[test]
    fn keys_have_type_requirement_default_and_description() {
        let text = text(&schema_for!(Config).to_value(), 2);
        let expected = "\
For tests.
  address            string, required
    Target of the events.
  free               anything, required
  labels             object, required
  labels.NAME        boolean
  length             number of bytes from 1 to 1073741824, required
  peers              list of object, required
  peers[].port       integer from 0 to 65535, required
  peers[].next       object
    Peers of the peer.
  peers[].next.port  integer from 0 to 65535, required
  peers[].next.next  object
    Peers of the peer.
  tags               list of string, required
    Names, in order.
  mode               `slow` or `fast`, default `fast`
    Speed of the connection.
      `fast`: Without pauses.
  pause              number or object
  pause.millis       integer, required
  size               integer from 1 to 9, default 3
    Bytes.
  timeout            time with its unit";
        assert_eq!(text, expected);
    }
}
