//! Parts of a request's head that become the metadata of its events.

use std::sync::Arc;

use hyper::{Method, header::HeaderValue, http::request::Parts};
use tremor_pdk::Writer;

use crate::config::Settings;

/// Method, path, query and configured headers of a request. They are copied, because a slice of the head would keep
/// the whole buffer of its connection in memory for as long as the request waits.
pub(crate) struct Facts {
    settings: Arc<Settings>,
    method: Method,
    /// Path, query and values of headers, one after the other.
    text: Vec<u8>,
    /// Length of the path in `text`, in bytes.
    path: usize,
    /// Length of the query in `text`, in bytes, if the request has one.
    query: Option<usize>,
    /// Lengths of the values in `text`, in bytes, in the order of the configured headers.
    values: Vec<Option<usize>>,
}

impl Facts {
    /// Copies what the configuration asks for. Returns `None` if it names no headers.
    pub(crate) fn of(settings: &Arc<Settings>, head: &Parts) -> Option<Self> {
        if settings.headers.is_empty() {
            return None;
        }
        let (path, query) = (head.uri.path(), head.uri.query());
        let values = || settings.headers.iter().map(|name| head.headers.get(name));
        let of_values: usize = values().flatten().map(HeaderValue::len).sum();
        let mut text = Vec::with_capacity(path.len() + query.map_or(0, str::len) + of_values);
        text.extend_from_slice(path.as_bytes());
        text.extend_from_slice(query.unwrap_or_default().as_bytes());
        values().flatten().for_each(|value| text.extend_from_slice(value.as_bytes()));
        Some(Self {
            settings: settings.clone(),
            method: head.method.clone(),
            text,
            path: path.len(),
            query: query.map(str::len),
            values: values().map(|value| value.map(HeaderValue::len)).collect(),
        })
    }

    /// Returns the memory that the copies take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.text.capacity()
            + self.values.capacity() * size_of::<Option<usize>>()
    }

    /// Writes the metadata of an event.
    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        let mut rest = &self.text[..];
        let mut next = |length: usize| {
            let (first, others) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = others;
            String::from_utf8_lossy(first)
        };
        writer.begin_object();
        writer.key("method");
        writer.str(self.method.as_str());
        writer.key("path");
        writer.str(&next(self.path));
        if let Some(query) = self.query {
            writer.key("query");
            writer.str(&next(query));
        }
        writer.key("headers");
        writer.begin_object();
        for (name, value) in self.settings.headers.iter().zip(&self.values) {
            if let Some(value) = *value {
                writer.key(name.as_str());
                writer.str(&next(value));
            }
        }
        writer.end_object();
        writer.end_object();
    }
}
