//! Encoding of a value to protobuf.

use std::fmt::Write;

use tremor_pdk::{Error, Result, ValueRef};

use crate::{
    message::{DEEPEST, Field, Kind, Message},
    scalar::{Scalar, shown},
    wire::{put_bytes, put_tag},
};

/// The treatment of keys that the schema does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Unknown keys are skipped, as OTLP requires of receivers.
    Ignored,
    /// Unknown keys are an error, because their data would be lost.
    Refused,
}

/// Appends the message that `value` represents.
///
/// # Errors
/// Returns an error with the path to the fault if the value does not match the schema.
pub(crate) fn write(
    message: &Message,
    value: ValueRef<'_>,
    unknown: Unknown,
    out: &mut Vec<u8>,
) -> Result<()> {
    Writing { unknown, out }.message(message, value, DEEPEST).map_err(|wrong| wrong.error(message))
}

/// A fault, and the path to the fault in reverse order.
struct Wrong {
    path: Vec<Step>,
    what: String,
}

enum Step {
    Key(&'static str),
    Index(usize),
}

impl Wrong {
    #[cold]
    fn new(what: String) -> Self {
        Self { path: Vec::new(), what }
    }

    fn within(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    #[cold]
    fn error(&self, message: &Message) -> Error {
        let mut path = String::new();
        for step in self.path.iter().rev() {
            // Writing to a `String` cannot fail.
            let _ = match step {
                Step::Key(key) if path.is_empty() => write!(path, "{key}"),
                Step::Key(key) => write!(path, ".{key}"),
                Step::Index(index) => write!(path, "[{index}]"),
            };
        }
        let path = if path.is_empty() { message.name } else { &path };
        Error::bad_data(format_args!("{} at `{path}`", self.what))
    }
}

struct Writing<'o> {
    unknown: Unknown,
    out: &'o mut Vec<u8>,
}

impl Writing<'_> {
    fn message(
        &mut self,
        message: &Message,
        value: ValueRef<'_>,
        depth: usize,
    ) -> Result<(), Wrong> {
        if depth == 0 {
            return Err(Wrong::new(format!("messages are nested deeper than {DEEPEST} levels")));
        }
        let Some(object) = value.as_object() else {
            return Err(Wrong::new(format!("expected an object, found {}", shown(value))));
        };
        let (mut known, mut one_of) = (0, None);
        for field in message.fields {
            let Some(value) = object.get(field.name) else { continue };
            known += 1;
            if value.is_null() {
                continue;
            }
            if let Some(other) = one_of.filter(|_| field.is_one_of) {
                let what = format!("expected either `{other}` or `{}`, found both", field.name);
                return Err(Wrong::new(what));
            }
            if field.is_one_of {
                one_of = Some(field.name);
            }
            self.field(field, value, depth).map_err(|wrong| wrong.within(Step::Key(field.name)))?;
        }
        if known == object.len() {
            return Ok(());
        }
        let is_known = |key: &str| message.fields.iter().any(|field| field.name == key);
        for (key, _) in object.iter().filter(|(key, _)| !is_known(key)) {
            // Names in snake_case, as in `.proto` files, are always an error, because skipping them would lose the
            // whole request.
            let other = message.fields.iter().find(|field| is_snake_case(key, field.name));
            match (other, self.unknown) {
                (Some(field), _) => {
                    let what = format!("expected the key `{}`, found `{key}`", field.name);
                    return Err(Wrong::new(what));
                }
                (None, Unknown::Refused) => {
                    let key: String = key.chars().take(100).collect();
                    return Err(Wrong::new(format!("unknown key `{key}`")));
                }
                (None, Unknown::Ignored) => {}
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, value: ValueRef<'_>, depth: usize) -> Result<(), Wrong> {
        if !field.is_repeated {
            return self.single(field, value, depth);
        }
        let Some(array) = value.as_array() else {
            return Err(Wrong::new(format!("expected an array, found {}", shown(value))));
        };
        let is_packed = field.kind.wire_type() != 2;
        if !is_packed {
            for (index, value) in array.iter().enumerate() {
                self.single(field, value, depth)
                    .map_err(|wrong| wrong.within(Step::Index(index)))?;
            }
        } else if !array.is_empty() {
            put_tag(field.number, 2, self.out);
            put_bytes(self.out, |out| {
                array.iter().enumerate().try_for_each(|(index, value)| {
                    let scalar = scalar(field.kind, value)
                        .map_err(|wrong| wrong.within(Step::Index(index)))?;
                    scalar.to_wire(field.kind, out);
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    /// Appends a field, or an element of a repeated field, with its tag.
    fn single(&mut self, field: &Field, value: ValueRef<'_>, depth: usize) -> Result<(), Wrong> {
        if let Kind::Message(inner) = field.kind {
            put_tag(field.number, 2, self.out);
            let unknown = self.unknown;
            return put_bytes(self.out, |out| {
                Writing { unknown, out }.message(inner, value, depth - 1)
            });
        }
        let scalar = scalar(field.kind, value)?;
        if field.keeps_default || !scalar.is_default() {
            put_tag(field.number, field.kind.wire_type(), self.out);
            scalar.to_wire(field.kind, self.out);
        }
        Ok(())
    }
}

fn scalar(kind: Kind, value: ValueRef<'_>) -> Result<Scalar<'_>, Wrong> {
    Scalar::of_value(kind, value).ok_or_else(|| Wrong::new(kind.mismatch(value)))
}

/// Returns whether `key` is `name` in `snake_case`.
fn is_snake_case(key: &str, name: &str) -> bool {
    let mut snake = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake == key && key != name
}
