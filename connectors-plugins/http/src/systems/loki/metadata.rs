//! Structured metadata of lines.

use std::{collections::BTreeMap, fmt::Write};

use tremor_pdk::{EventRef, Result, template::Template};

use crate::{
    exchange::{Caches, Text},
    protobuf::{field_len, pair_len},
    systems::parts::texts,
};

/// Number of digits of the length of a value, which has at most [`MOST_TEXT`](crate::exchange::MOST_TEXT) bytes.
const DIGITS: usize = 5;

/// Templates of the structured metadata.
pub(super) struct Metadata {
    names: Vec<(String, Text)>,
    /// Number of the cache for the first template.
    first: usize,
}

impl Metadata {
    /// Creates the metadata for the templates of the key `key`. Their caches have the numbers from `first` on.
    pub(super) fn new(key: &str, templates: &BTreeMap<String, Template>, first: usize) -> Self {
        let names = texts(key, templates).map(|(name, text)| (name.to_owned(), text)).collect();
        Self { names, first }
    }

    /// Appends the values for an event, from the last one to the first, so that [`Metadata::read`] finds the first one
    /// at the end. Each value is followed by its length, and is empty if the event does not have a field of its
    /// template. Returns the length of the fields in a line, in bytes.
    ///
    /// # Errors
    /// An error that makes the event a dead letter: a value is too long.
    pub(super) fn append(
        &self,
        event: EventRef<'_>,
        caches: &mut Caches,
        out: &mut String,
    ) -> Result<usize> {
        let mut fields = 0;
        for (number, (name, text)) in self.names.iter().enumerate().rev() {
            let start = out.len();
            text.render_if_present(event, out, caches.of(self.first + number))?;
            let length = out.len() - start;
            if length > 0 {
                fields += field_len(pair_len(name.len(), length));
            }
            let _ = write!(out, "{length:0DIGITS$}");
        }
        Ok(fields)
    }

    /// Returns the names and values that are not empty, in a text to which [`Metadata::append`] has appended them.
    pub(super) fn read<'t>(
        &'t self,
        mut text: &'t str,
    ) -> impl Iterator<Item = (&'t str, &'t str)> + Clone {
        self.names.iter().filter_map(move |(name, _)| {
            let (values, length) = text.split_at(text.len() - DIGITS);
            let (before, value) = values.split_at(values.len() - length.parse().unwrap_or(0));
            text = before;
            (!value.is_empty()).then_some((&**name, value))
        })
    }
}
