//! Values of payload fields in the metadata of encoded events, for the templates of sinks.

use serde_json::Value as Json;
use tremor_abi::batch::{CarriedFields, HostBatch, Pool};

use super::{FORMAT, Field, Template};
use crate::{Batch, EventRef, Part, Path, Shape, ValueRef};

/// Key of the metadata of an encoded event, `%template`, with the values of the fields that templates read.
const KEY: &str = "template";

/// Description of a text that is not in the metadata, because it exceeds [`TemplateFields::TEXT_AT_MOST`].
const TOO_LONG: &str = "text of more than 64 KiB";

/// The payload fields that the templates of a sink read.
///
/// The runtime adds the values of these fields to the metadata of each encoded event, as `%template`: an object with
/// the path of each field, as [`Field`] displays it, and its value. A missing field has no key. Only text, numbers and
/// truth values are copied. An array, an object or binary data is an empty one, so that the error of a template names
/// what it found. In place of a text of more than [`TemplateFields::TEXT_AT_MOST`] bytes, there is an object
/// `{ "length": BYTES }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFields(CarriedFields);

impl TemplateFields {
    /// Maximum length of a text that is added to the metadata of an encoded event, in bytes, so that a long field is
    /// not copied with each message.
    pub const TEXT_AT_MOST: usize = 64 << 10;

    /// Returns the payload fields that `templates` read, or `None` if they read none.
    pub fn of<'t>(templates: impl IntoIterator<Item = &'t Template>) -> Option<Self> {
        let mut fields = Vec::<(Box<str>, Path)>::new();
        for field in templates.into_iter().flat_map(Template::fields) {
            let is_known = fields.iter().any(|(_, path)| path == field.path());
            if field.part() == Part::Payload && !is_known {
                fields.push((field.to_string().into(), field.path().clone()));
            }
        }
        (!fields.is_empty()).then(|| Self(CarriedFields::new(KEY, fields, Self::TEXT_AT_MOST)))
    }

    /// Returns the payload fields that the templates of a configuration read, or `None` if they read none. `schema` is
    /// the JSON schema of the configuration. A text that is not a template is skipped, because the component reports
    /// it.
    pub fn of_config(schema: &Json, config: &Json) -> Option<Self> {
        let mut templates = Vec::new();
        configured(schema, config, &mut |text| templates.extend(text.parse::<Template>()));
        Self::of(&templates)
    }

    /// Returns the path of each field as [`Field`] displays it, which is its key in `%template`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.names()
    }

    /// Adds the values of the fields to the metadata of `encoded`, which has the messages of the events of `batch`, in
    /// order. Messages that share the buffers of `batch` are copied to a batch of `pool`, unless they are large.
    pub fn carry(&self, encoded: &mut Batch, batch: &Batch, pool: &Pool) {
        encoded.carry(batch, pool, &self.0);
    }
}

/// Maximum number of levels of a configuration in which templates are found.
const DEPTH: usize = 32;

/// Calls `found` with the text of each value of a configuration that is a template by its schema.
pub(crate) fn configured(schema: &Json, config: &Json, found: &mut impl FnMut(&str)) {
    find(schema, &[schema], config, DEPTH, found);
}

fn find(root: &Json, schemas: &[&Json], config: &Json, depth: usize, found: &mut impl FnMut(&str)) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match config {
        Json::String(text)
            if text.contains('{')
                && applied(root, schemas).iter().any(|schema| schema["format"] == FORMAT) =>
        {
            found(text);
        }
        Json::Array(items) => {
            let schemas = applied(root, schemas);
            for (index, item) in items.iter().enumerate() {
                let below = schemas.iter().filter_map(|schema| {
                    schema["prefixItems"].get(index).or_else(|| schema.get("items"))
                });
                let below: Vec<_> = below.collect();
                find(root, &below, item, depth, found);
            }
        }
        Json::Object(pairs) => {
            let schemas = applied(root, schemas);
            for (key, value) in pairs {
                let below: Vec<_> = schemas.iter().flat_map(|schema| of_key(schema, key)).collect();
                find(root, &below, value, depth, found);
            }
        }
        _ => {}
    }
}

/// Returns the given schemas and all schemas that they refer to or combine, each once.
fn applied<'s>(root: &'s Json, schemas: &[&'s Json]) -> Vec<&'s Json> {
    let mut all: Vec<&Json> = Vec::new();
    let mut next = schemas.to_vec();
    while let Some(schema) = next.pop() {
        if all.iter().any(|known| std::ptr::eq(*known, schema)) {
            continue;
        }
        all.push(schema);
        let reference = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        next.extend(reference.and_then(|pointer| root.pointer(pointer)));
        for keyword in ["allOf", "anyOf", "oneOf"] {
            next.extend(schema[keyword].as_array().into_iter().flatten());
        }
        next.extend(["if", "then", "else"].iter().filter_map(|keyword| schema.get(keyword)));
    }
    all
}

/// Returns the schemas that apply to the value of a key.
fn of_key<'s>(schema: &'s Json, key: &str) -> Vec<&'s Json> {
    if let Some(property) = schema["properties"].get(key) {
        return vec![property];
    }
    let patterns = schema["patternProperties"].as_object().into_iter().flat_map(|all| all.values());
    patterns.chain(schema.get("additionalProperties")).collect()
}

/// A field of a template, and where an encoded event has its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    field: Field,
    /// Path of the value in the metadata of an encoded event. `None` for a field of the metadata.
    carried: Option<Path>,
}

impl From<Field> for Source {
    fn from(field: Field) -> Self {
        let is_payload = field.part() == Part::Payload;
        let carried = is_payload.then(|| Path::of_keys([KEY, &field.to_string()]));
        Self { field, carried }
    }
}

impl Source {
    #[inline]
    pub(super) const fn field(&self) -> &Field {
        &self.field
    }

    /// Returns the value of the field in an event.
    #[inline]
    pub(super) fn get<'b>(&self, event: EventRef<'b>) -> Option<ValueRef<'b>> {
        let Some(carried) = &self.carried else { return self.field.get(event) };
        match event.value() {
            Some(payload) => payload.get_path(self.field.path()),
            None => event.metadata()?.get_path(carried),
        }
    }

    /// Returns the name of a value without text, for error messages.
    #[cold]
    pub(super) fn name(&self, found: Shape<'_>, event: EventRef<'_>) -> &'static str {
        match found {
            Shape::Object(object)
                if self.carried.is_some() && event.value().is_none() && !object.is_empty() =>
            {
                TOO_LONG
            }
            found => found.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::{Value as Json, json};

    use super::{Template, TemplateFields};

    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Config {
        path: Template,
        maybe: Option<Template>,
        headers: std::collections::BTreeMap<String, Template>,
        parts: Vec<(Template, String)>,
        body: Body,
        plain: String,
        next: Option<Box<Config>>,
    }

    #[derive(JsonSchema)]
    #[serde(tag = "type", rename_all = "snake_case")]
    #[allow(dead_code)]
    enum Body {
        Empty,
        Of { text: Template },
    }

    fn fields(config: &Json) -> Vec<String> {
        let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
        let fields = TemplateFields::of_config(&schema, config);
        fields.iter().flat_map(TemplateFields::names).map(str::to_owned).collect()
    }

    #[test]
    fn fields_are_those_of_keys_that_are_templates() {
        for (config, expected) in [
            (
                json!({ "path": "/x/{a.b}/{.host}/{host}/{%file.name}/{:+%F}" }),
                &["a.b", "host"][..],
            ),
            (json!({ "path": "{at:+%F|local:-none}{\"odd key\"[0]}" }), &["at", "\"odd key\"[0]"]),
            (json!({ "maybe": "{m}", "headers": { "x-a": "{h}", "y": "{h}" } }), &["h", "m"]),
            (json!({ "parts": [["{p}", "{no}"], ["{q}", ""]] }), &["p", "q"]),
            (json!({ "body": { "type": "of", "text": "{b}" } }), &["b"]),
            (json!({ "next": { "next": { "path": "{deep}" } } }), &["deep"]),
            (json!({ "plain": "{a}", "unknown": "{a}", "path": "{%a}{{b}}" }), &[]),
            (json!({ "path": "{a", "maybe": 7, "headers": "{a}" }), &[]),
            (Json::Null, &[]),
        ] {
            assert_eq!(fields(&config), expected, "{config}");
        }
    }

    #[test]
    fn schema_that_refers_to_itself_ends() {
        let schema = json!({ "$ref": "#", "anyOf": [{ "$ref": "#" }, { "format": "template" }] });
        let fields = TemplateFields::of_config(&schema, &json!("{a}"));
        assert_eq!(fields, TemplateFields::of([&"{a}".parse::<Template>().unwrap()]));
        let mut deep = json!("{a}");
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let schema = json!({ "items": { "$ref": "#" }, "format": "template" });
        assert_eq!(TemplateFields::of_config(&schema, &deep), None);
    }
}
