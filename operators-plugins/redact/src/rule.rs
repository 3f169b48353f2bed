//! Application of a rule to a text.

use std::io::Write;

use tremor_pdk::{Error, Field, Replacement, Result, Shape, ValueRef};

use crate::{change::Change, pattern::Finder};

/// A compiled rule.
pub(crate) struct Rule {
    pub(crate) fields: Vec<Field>,
    /// Finders of the texts that are replaced; empty if whole fields are replaced.
    pub(crate) finders: Vec<Finder>,
    pub(crate) change: Change,
    /// `true` if events without one of the fields are rejected.
    pub(crate) rejects: bool,
}

/// A text or binary data that rules are applied to.
#[derive(Default)]
pub(crate) struct Content {
    data: Vec<u8>,
    is_text: bool,
    /// `true` if a rule has replaced a part of the content.
    is_changed: bool,
    /// The result of the finder that is being applied.
    next: Vec<u8>,
}

impl Content {
    /// Sets the content to that of a text, of binary data, or to the text of a number. Returns `false` for another value.
    pub(crate) fn load(&mut self, value: ValueRef<'_>) -> bool {
        self.data.clear();
        self.is_changed = false;
        self.is_text = true;
        match value.shape() {
            Shape::String(text) => self.data.extend_from_slice(text.as_bytes()),
            Shape::Bytes(data) => {
                self.data.extend_from_slice(data);
                self.is_text = false;
            }
            Shape::I64(_) | Shape::U64(_) | Shape::F64(_) | Shape::Number(_) => {
                // Writing to a vector never fails.
                let _ = write!(self.data, "{value}");
            }
            _ => return false,
        }
        true
    }

    /// Appends the content if it differs from `value`, from which it was loaded.
    pub(crate) fn replacement(&self, value: ValueRef<'_>, out: &mut Vec<u8>) -> Replacement {
        let is_same = match value.shape() {
            Shape::String(text) => self.is_text && text.as_bytes() == self.data,
            Shape::Bytes(data) => !self.is_text && data == self.data,
            _ => false,
        };
        if !self.is_changed || is_same {
            return Replacement::Unchanged;
        }
        out.extend_from_slice(&self.data);
        if self.is_text { Replacement::Text } else { Replacement::Bytes }
    }

    /// Applies a rule. `limit` is the maximum length of the result in bytes.
    ///
    /// # Errors
    /// The result is too long. The error contains no part of the text.
    pub(crate) fn apply(&mut self, rule: &Rule, limit: usize) -> Result<()> {
        if rule.finders.is_empty() {
            self.next.clear();
            rule.change.apply(&self.data, &mut self.next);
            std::mem::swap(&mut self.data, &mut self.next);
            self.is_text |= rule.change.is_text();
            self.is_changed = true;
            return admit(self.data.len(), limit);
        }
        for finder in &rule.finders {
            self.next.clear();
            let mut is_changed = false;
            // Binary data may contain texts between bytes that are not UTF-8.
            for chunk in self.data.utf8_chunks() {
                let (text, mut at) = (chunk.valid(), 0);
                while let Some(found) = finder.find(text, at) {
                    self.next.extend_from_slice(text[at..found.start].as_bytes());
                    rule.change.apply(text[found.clone()].as_bytes(), &mut self.next);
                    at = found.end;
                    is_changed = true;
                    admit(self.next.len(), limit)?;
                }
                self.next.extend_from_slice(text[at..].as_bytes());
                self.next.extend_from_slice(chunk.invalid());
            }
            admit(self.next.len(), limit)?;
            if is_changed {
                self.is_changed = true;
                std::mem::swap(&mut self.data, &mut self.next);
            }
        }
        Ok(())
    }
}

fn admit(len: usize, limit: usize) -> Result<()> {
    if len <= limit {
        return Ok(());
    }
    Err(Error::bad_data(format_args!(
        "cannot redact a text: the result takes more than the {limit} bytes that are left for the events of its batch"
    )))
}
