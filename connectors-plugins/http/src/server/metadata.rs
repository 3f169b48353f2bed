//! Parts of a request's head, and the address of its peer, that become the metadata of its events.

use hyper::{
    Method,
    header::{HeaderName, HeaderValue},
    http::request::Parts,
};
use tremor_pdk::{Origin, Shape, Writer};

/// Method, path, query and configured headers of a request. These values are copied, because a
/// slice of the head would keep hyper's buffer of the connection in memory while the request waits.
pub(crate) struct RequestMetadata {
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

impl RequestMetadata {
    /// Copies the method, the path, the query and the values of `headers`.
    pub(crate) fn of(headers: &[HeaderName], head: &Parts) -> Self {
        let (path, query) = (head.uri.path(), head.uri.query());
        let values = || headers.iter().map(|name| head.headers.get(name));
        let of_values: usize = values().flatten().map(HeaderValue::len).sum();
        let mut text = Vec::with_capacity(path.len() + query.map_or(0, str::len) + of_values);
        text.extend_from_slice(path.as_bytes());
        text.extend_from_slice(query.unwrap_or_default().as_bytes());
        values().flatten().for_each(|value| text.extend_from_slice(value.as_bytes()));
        Self {
            method: head.method.clone(),
            text,
            path: path.len(),
            query: query.map(str::len),
            values: values().map(|value| value.map(HeaderValue::len)).collect(),
        }
    }

    /// Returns the memory of the copies, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.text.capacity()
            + self.values.capacity() * size_of::<Option<usize>>()
    }

    /// Writes the metadata of an event: that of the peer, and `http`. `headers` are the names of
    /// the headers whose values were copied.
    pub(crate) fn write(&self, writer: &mut Writer<'_>, peer: &Origin, headers: &[HeaderName]) {
        let mut rest = &self.text[..];
        let mut next = |length: usize| {
            let (first, others) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = others;
            String::from_utf8_lossy(first)
        };
        writer.begin_object();
        if let Some(Shape::Object(peer)) = peer.metadata().map(tremor_pdk::ValueRef::shape) {
            for (key, value) in peer {
                writer.key(key);
                writer.write_value(value);
            }
        }
        writer.key("http");
        writer.begin_object();
        writer.key("method");
        writer.str(self.method.as_str());
        writer.key("path");
        writer.str(&next(self.path));
        if let Some(query) = self.query {
            writer.key("query");
            writer.str(&next(query));
        }
        if self.values.iter().any(Option::is_some) {
            writer.key("headers");
            writer.begin_object();
            for (name, value) in headers.iter().zip(&self.values) {
                if let Some(value) = *value {
                    writer.key(name.as_str());
                    writer.str(&next(value));
                }
            }
            writer.end_object();
        }
        writer.end_object();
        writer.end_object();
    }
}
