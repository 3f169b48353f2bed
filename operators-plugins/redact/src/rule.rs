//! Application of a rule to a text.

use std::{io::Write, ops::Range};

use tremor_pdk::{Error, Field, Replacement, Result, Shape, ValueRef};

use crate::{change::Change, pattern::Finder};

/// Maximum capacity of a buffer that is kept for the next text, in bytes.
const MAX_KEPT: usize = 1 << 20;

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
    /// Ranges that rules have written, in ascending order. Later rules do not search them, because a hash may contain the
    /// digits of a card by chance.
    written: Vec<Range<usize>>,
    /// The result of the finder that is being applied.
    next: Vec<u8>,
    next_written: Vec<Range<usize>>,
}

impl Content {
    /// Sets the content to that of a text, of binary data, or to the text of a number. Returns `false` for another value.
    pub(crate) fn load(&mut self, value: ValueRef<'_>) -> bool {
        for buffer in [&mut self.data, &mut self.next] {
            buffer.clear();
            buffer.shrink_to(MAX_KEPT);
        }
        self.written.clear();
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
        if self.written.is_empty() || is_same {
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
        if self.written.first().is_some_and(|written| *written == (0..self.data.len())) {
            return Ok(());
        }
        if rule.finders.is_empty() {
            self.next.clear();
            rule.change.apply(&self.data, &mut self.next);
            std::mem::swap(&mut self.data, &mut self.next);
            self.is_text |= rule.change.is_text();
            self.written.clear();
            self.written.push(0..self.data.len());
            return admit(self.data.len(), limit);
        }
        for finder in &rule.finders {
            self.find(finder, &rule.change, limit)?;
        }
        Ok(())
    }

    /// Changes what `finder` finds in the parts that no rule has written.
    fn find(&mut self, finder: &Finder, change: &Change, limit: usize) -> Result<()> {
        let Self { data, written, next, next_written, .. } = self;
        next.clear();
        next_written.clear();
        let (mut is_changed, mut start) = (false, 0);
        for part in written.iter().cloned().chain(std::iter::once(data.len()..data.len())) {
            let searched = data.get(start..part.start).unwrap_or_default();
            // Binary data may contain texts between bytes that are not UTF-8.
            for chunk in searched.utf8_chunks() {
                let (text, mut at) = (chunk.valid(), 0);
                while let Some(found) = finder.find(text, at) {
                    next.extend_from_slice(&text.as_bytes()[at..found.start]);
                    let before = next.len();
                    change.apply(&text.as_bytes()[found.clone()], next);
                    next_written.push(before..next.len());
                    at = found.end;
                    is_changed = true;
                    admit(next.len(), limit)?;
                }
                next.extend_from_slice(&text.as_bytes()[at..]);
                next.extend_from_slice(chunk.invalid());
            }
            let before = next.len();
            next.extend_from_slice(data.get(part.clone()).unwrap_or_default());
            if before < next.len() {
                next_written.push(before..next.len());
            }
            start = part.end;
        }
        admit(next.len(), limit)?;
        if is_changed {
            std::mem::swap(data, next);
            std::mem::swap(written, next_written);
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
