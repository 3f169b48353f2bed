//! Parts of requests that several systems have.

use std::collections::BTreeMap;

use hyper::http::uri::PathAndQuery;
use tremor_pdk::{
    ErrorPolicy, EventRef, Field, RawEvent, prelude::*, serde::de::IgnoredAny, template::Template,
};

use crate::exchange::{Caches, Item, MOST_TEXT, Text, Url, escape_json, push_json};

/// Returns the URL of an endpoint: the path of `url` with `end`, unless the path has this end already, and with the
/// parameters `query` behind those of `url`.
pub(crate) fn endpoint_url(url: &Url, end: &str, query: &str) -> Result<Url> {
    let path = url.target.path().trim_end_matches('/');
    let mut text = path.strip_suffix(end).unwrap_or(path).to_owned();
    text.push_str(end);
    let queries = [url.target.query().unwrap_or_default(), query];
    let mut separator = '?';
    for query in queries.into_iter().filter(|query| !query.is_empty()) {
        text.push(separator);
        text.push_str(query);
        separator = '&';
    }
    let target = PathAndQuery::try_from(text).map_err(Error::configuration)?;
    Ok(Url { target, ..url.clone() })
}

/// Returns the text of a key whose value is a template.
pub(crate) fn text(key: &str, template: &Template) -> Text {
    Text::new(key, Some(&template.to_string()), template.clone(), MOST_TEXT)
}

/// Returns the text with the time in the field that the key `time` names, or with the time when an event was read, in a
/// format of strftime. The key is a template, because a sink receives only the fields of templates.
///
/// # Errors
/// The template is not exactly one field.
pub(crate) fn time(key: Option<&Template>, format: &str) -> Result<Text> {
    let shown = key.map_or_else(String::new, Template::to_string);
    let inner = shown.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let field = inner.and_then(|inner| inner.parse::<Field>().ok());
    if key.is_some() && field.is_none() {
        return Err(Error::configuration(format_args!(
            "invalid `time` `{}`: expected exactly one field, such as `{{timestamp}}`",
            shown.escape_debug()
        )));
    }
    let field = field.as_ref().map_or_else(String::new, Field::to_string);
    let template: Template = format!("{{{field}:+{format}}}").parse().map_err(Error::internal)?;
    Ok(Text::new("time", Some(&shown), template, MOST_TEXT))
}

/// Templates that become an object of JSON with texts, or labels in the notation of Prometheus.
pub(crate) struct Members {
    /// The beginnings of the members, up to the texts of their values, and these texts.
    list: Vec<(String, Text)>,
    /// Number of the cache for the first template.
    first: usize,
    is_by_metadata: bool,
}

impl Members {
    /// Creates the members of an object for the templates of the key `key`. Their caches have the numbers from `first`
    /// on.
    pub(crate) fn new(key: &str, templates: &BTreeMap<String, Template>, first: usize) -> Self {
        Self::with_starts(key, templates, first, member_start)
    }

    /// Creates labels for templates, as [`Members::new`] does: `{NAME="TEXT",…}`. The escapes of JSON in the texts are
    /// also those of Go, in which servers read labels.
    pub(crate) fn labels(key: &str, templates: &BTreeMap<String, Template>, first: usize) -> Self {
        Self::with_starts(key, templates, first, |name| format!("{name}=\""))
    }

    fn with_starts(
        key: &str,
        templates: &BTreeMap<String, Template>,
        first: usize,
        start: fn(&str) -> String,
    ) -> Self {
        // An event with a message has all fields in its metadata, but not the time when it was read.
        let is_by_metadata = !templates.values().any(|it| it.to_string().contains(":+"));
        let list = texts(key, templates).map(|(name, text)| (start(name), text)).collect();
        Self { list, first, is_by_metadata }
    }

    /// Returns whether all messages with the same metadata have the same texts.
    pub(crate) const fn is_by_metadata(&self) -> bool {
        self.is_by_metadata
    }

    /// Appends the object or the labels for an event, without the members whose text is empty or needs a field that the
    /// event does not have. Returns `false` and appends nothing if no members are left.
    ///
    /// # Errors
    /// An error that makes the event a dead letter: a text is too long.
    pub(crate) fn append(
        &self,
        event: EventRef<'_>,
        caches: &mut Caches,
        out: &mut String,
    ) -> Result<bool> {
        let start = out.len();
        for ((member, text), number) in self.list.iter().zip(self.first..) {
            let before = out.len();
            out.push_str(if before == start { "{" } else { "," });
            if !append_member(member, text, event, (caches, number), out)? {
                out.truncate(before);
            }
        }
        let has_members = out.len() > start;
        if has_members {
            out.push('}');
        }
        Ok(has_members)
    }
}

/// Returns the texts of the templates of the key `key`, with their names.
pub(crate) fn texts<'t>(
    key: &str,
    templates: &'t BTreeMap<String, Template>,
) -> impl Iterator<Item = (&'t str, Text)> {
    templates
        .iter()
        .map(move |(name, template)| (&**name, text(&format!("{key}.{name}"), template)))
}

/// Returns the beginning of a member of an object, up to the text of its value: `"NAME":"`.
pub(crate) fn member_start(name: &str) -> String {
    let mut start = "\"".to_owned();
    push_json(&mut start, name);
    start.push_str("\":\"");
    start
}

/// Appends a member for an event: its beginning `start`, the text, and a quotation mark. Uses the cache of the given
/// number. Returns `false` if the text is empty or needs a field that the event does not have; `out` may then have
/// further bytes.
///
/// # Errors
/// An error that makes the event a dead letter: the text is too long.
pub(crate) fn append_member(
    start: &str,
    text: &Text,
    event: EventRef<'_>,
    (caches, number): (&mut Caches, usize),
    out: &mut String,
) -> Result<bool> {
    out.push_str(start);
    let from = out.len();
    let is_present = text.render_if_present(event, out, caches.of(number))?;
    if !is_present || out.len() == from {
        return Ok(false);
    }
    escape_json(out, from);
    out.push('"');
    Ok(true)
}

/// Returns an error that makes an event a dead letter, because it cannot be a part of a request.
#[cold]
pub(crate) fn unsendable(why: &str) -> Error {
    Error::bad_data(format_args!("cannot send the event: {why}"))
        .with_policy(ErrorPolicy::DEAD_LETTER)
}

/// Returns an error that makes an event a dead letter, if the `length` of its item exceeds `most` bytes.
pub(crate) fn check_length(length: usize, most: usize) -> Result<()> {
    if length <= most {
        return Ok(());
    }
    Err(unsendable(&format!(
        "it would have {length} bytes in a request, but `max_body_bytes` is {most}"
    )))
}

/// Returns the message of an event, which has to be an object of JSON. A server would skip an invalid object, or would
/// refuse the request because of it.
///
/// # Errors
/// An error that makes the event a dead letter.
pub(crate) fn json_object(event: RawEvent<'_>) -> Result<&[u8]> {
    let object = event.raw().trim_ascii();
    if !object.starts_with(b"{") {
        return Err(unsendable(
            "expected a JSON object; use the codec `json` and events that are objects",
        ));
    }
    check_json(object)?;
    Ok(object)
}

/// Checks that a message is valid JSON.
///
/// # Errors
/// An error that makes the event a dead letter.
pub(crate) fn check_json(message: &[u8]) -> Result<()> {
    match serde_json::from_slice::<IgnoredAny>(message) {
        Ok(_) => Ok(()),
        Err(error) => Err(unsendable(&format!("it is not JSON: {error}"))),
    }
}

/// Returns a body with the messages of items as lines of JSON.
pub(crate) fn json_lines(part: &[Item<'_>]) -> Vec<u8> {
    let mut body = Vec::with_capacity(part.iter().map(|item| item.length).sum());
    part.iter().for_each(|item| push_json_line(&mut body, item.event));
    body
}

/// Appends the message of an event as a line of JSON. Line feeds within the message, which are spaces of JSON, are
/// replaced, because a line feed ends the message.
pub(crate) fn push_json_line(body: &mut Vec<u8>, event: RawEvent<'_>) {
    let start = body.len();
    body.extend_from_slice(event.raw().trim_ascii());
    if memchr::memchr(b'\n', &body[start..]).is_some() {
        body[start..].iter_mut().filter(|byte| **byte == b'\n').for_each(|it| *it = b' ');
    }
    body.push(b'\n');
}
