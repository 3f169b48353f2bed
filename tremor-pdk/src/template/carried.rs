//! Values of payload fields in the metadata of encoded events, for the templates of sinks.

use super::{Field, Template};
use crate::{EventRef, Part, Path, Shape, ValueRef};

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
pub struct TemplateFields {
    fields: Box<[(Box<str>, Path)]>,
}

impl TemplateFields {
    /// Maximum length of a text that is added to the metadata of an encoded event, in bytes, so that a long field is not
    /// copied with each message.
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
        (!fields.is_empty()).then(|| Self { fields: fields.into() })
    }

    /// Returns the path of each field as [`Field`] displays it, which is its key in `%template`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }
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
