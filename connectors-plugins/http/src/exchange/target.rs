//! Targets of requests: the URL, the headers and the text around the events of a body, as far as they depend on events.

use std::collections::HashMap;

use hyper::{
    HeaderMap,
    header::{HOST, HeaderName, HeaderValue},
    http::uri::PathAndQuery,
};
use tremor_pdk::{
    Error, EventRef, Exceptions, RawEvent, Result, names_credentials,
    template::{Template, TimeCache},
    without_placeholders,
};

use super::{
    text::{Escaping, MOST_TEXT, Text, has_dots, percent_encode, percent_encode_invalid},
    url::Url,
};
use crate::Escape;

/// Maximum length of a URL or of the value of a header that depends on events, in bytes. Most servers accept no longer
/// ones.
const MOST: usize = 8 << 10;

/// Maximum number of groups into which events are divided before requests are sent.
const MOST_GROUPS: usize = 1_024;

/// Length of the rendered parts of all groups, in bytes, from which no further group begins.
const MOST_RENDERED: usize = 1 << 20;

/// Target of requests.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// Headers in addition to those of all requests.
    pub(crate) headers: HeaderMap,
    /// Start of each body.
    pub(crate) prefix: String,
    /// End of each body.
    pub(crate) suffix: String,
}

impl Target {
    pub(crate) fn new(url: Url) -> Self {
        Self { url, headers: HeaderMap::new(), prefix: String::new(), suffix: String::new() }
    }
}

/// The parts of requests that depend on events. Events for which all parts are the same can be in one request.
pub(crate) struct Targets {
    parts: Vec<(Part, Text)>,
    escaping: Escaping,
    /// The reason if the URL and the headers cannot depend on events.
    fixed: Option<&'static str>,
}

enum Part {
    /// The URL, whose path and query begin at this offset in bytes.
    Url(usize),
    Header(HeaderName),
    Prefix,
    Suffix,
}

/// The texts of the parts for an event, in the order of the parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rendered {
    text: String,
    /// Ends of the parts in `text`, as offsets in bytes.
    ends: Vec<usize>,
}

impl Rendered {
    fn parts(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }
}

impl Targets {
    /// Creates targets without parts. `fixed` is the reason if the URL and the headers cannot depend on events.
    pub(crate) fn new(escaping: Escaping, fixed: Option<&'static str>) -> Self {
        Self { parts: Vec::new(), escaping, fixed }
    }

    /// Creates targets of a connector whose URL and headers never depend on events.
    pub(crate) fn fixed() -> Self {
        let escaping = Escaping::new(Escape::None, false);
        Self::new(escaping, Some("expected a text without fields and times of events"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns whether the URL depends on events.
    pub(crate) fn has_url(&self) -> bool {
        self.parts.iter().any(|(part, _)| matches!(part, Part::Url(_)))
    }

    /// Returns whether the header depends on events.
    pub(crate) fn has_header(&self, name: &HeaderName) -> bool {
        self.headers().any(|it| it == name)
    }

    /// Returns the headers that depend on events.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.parts.iter().filter_map(|(part, _)| match part {
            Part::Header(name) => Some(name),
            _ => None,
        })
    }

    /// Adds the key `url`. Returns the URL, without what begins at its first field if it has fields.
    ///
    /// # Errors
    /// The text is not a template or not a URL, or has a field before the end of the host and the port.
    pub(crate) fn add_url(&mut self, text: &str) -> Result<Url> {
        if let Some(why) = self.fixed {
            return fixed("url", text, why)?.parse();
        }
        let template = template("url", text)?;
        if let Some(text) = template.constant() {
            return text.parse();
        }
        let prefix = template.prefix();
        let from = prefix.find("://").map_or(prefix.len(), |at| at + 3);
        let Some(length) = prefix[from..].find(['/', '?', '#']) else {
            return Err(Error::configuration(
                "invalid `url`: the scheme, the host and the port cannot depend on events; expected fields behind them \
                 only, as in `http://HOST:PORT/{FIELD}`; write `${env:NAME}` for a variable of the environment",
            ));
        };
        let url: Url = prefix.parse()?;
        let path = prefix[from + length..].split('?').next().unwrap_or_default();
        // The last segment may continue with a field.
        if path.rsplit_once('/').is_some_and(|(path, _)| has_dots(path)) {
            return Err(Error::configuration(
                "invalid `url`: expected no segment `.` or `..` in a path with fields",
            ));
        }
        // Errors do not show the query, which may contain a secret.
        let shown = text.split('?').next().unwrap_or_default();
        self.parts.push((Part::Url(from + length), Text::new("url", Some(shown), template, MOST)));
        Ok(url)
    }

    /// Adds an entry of `headers`, whose full key is `key`. Returns the value of the header if it does not depend on events.
    ///
    /// # Errors
    /// The text is not a template, or the header cannot depend on events.
    pub(crate) fn add_header(
        &mut self,
        key: &str,
        name: &HeaderName,
        text: &str,
    ) -> Result<Option<String>> {
        if names_credentials(name.as_str()) {
            return Ok(Some(text.to_owned()));
        }
        if let Some(why) = self.fixed {
            return fixed(key, text, why).map(Some);
        }
        let template = template(key, text)?;
        if let Some(text) = template.constant() {
            return Ok(Some(text.to_owned()));
        }
        if *name == HOST {
            return Err(Error::configuration(
                "invalid `headers.host`: the host of requests cannot depend on events; expected a text without fields",
            ));
        }
        // Errors do not show the template, because values of headers may be secret.
        self.parts.push((Part::Header(name.clone()), Text::new(key, None, template, MOST)));
        Ok(None)
    }

    /// Adds the texts at the start and the end of each body. Returns those that do not depend on events.
    pub(crate) fn add_ends(
        &mut self,
        prefix: Option<&Template>,
        suffix: Option<&Template>,
    ) -> (String, String) {
        let mut add = |part, key, template: Option<&Template>| {
            let Some(template) = template else { return String::new() };
            if let Some(text) = template.constant() {
                return text.to_owned();
            }
            let shown = template.to_string();
            let text = Text::new(key, Some(&shown), template.clone(), MOST_TEXT);
            self.parts.push((part, text));
            String::new()
        };
        (add(Part::Prefix, "body.prefix", prefix), add(Part::Suffix, "body.suffix", suffix))
    }

    /// Sets `out` to the texts of the parts for an event.
    ///
    /// # Errors
    /// An error of the kind bad data, which makes the event a dead letter.
    fn render(
        &self,
        event: EventRef<'_>,
        caches: &mut [TimeCache],
        out: &mut Rendered,
    ) -> Result<()> {
        out.text.clear();
        out.ends.clear();
        for ((part, text), cache) in self.parts.iter().zip(caches) {
            let start = out.text.len();
            match part {
                Part::Url(path) => {
                    render_url(text, *path, event, &mut out.text, cache)?;
                    percent_encode_invalid(&mut out.text, start + *path);
                }
                Part::Header(_) => text.render(event, &mut out.text, cache, |_, _| Ok(()))?,
                Part::Prefix | Part::Suffix => {
                    let escape = |out: &mut String, at| self.escaping.apply(out, at);
                    text.render(event, &mut out.text, cache, escape)?;
                }
            }
            out.ends.push(out.text.len());
        }
        Ok(())
    }

    /// Returns the target with these texts. `fixed` is what all targets have in common.
    ///
    /// # Errors
    /// An error of the kind bad data, which makes the events of the target dead letters: the URL or the value of a
    /// header would be invalid, or the URL would refer to another folder.
    pub(crate) fn target(&self, fixed: &Target, rendered: &Rendered) -> Result<Target> {
        let mut target = fixed.clone();
        for ((part, text), rendered) in self.parts.iter().zip(rendered.parts()) {
            match part {
                Part::Url(path) => {
                    let path = &rendered[*path..];
                    let slash = if path.starts_with('/') { "" } else { "/" };
                    target.url.target = PathAndQuery::try_from(format!("{slash}{path}"))
                        .map_err(|error| text.error(&format!("its text is not a URL: {error}")))?;
                    if has_dots(target.url.target.path()) {
                        let shown = target.url.to_string();
                        return Err(text.error(&format!(
                            "the path of `{shown}` has a segment `.` or `..`, which refers to another folder"
                        )));
                    }
                }
                Part::Header(name) => {
                    let value = HeaderValue::from_str(rendered).map_err(|_| {
                        text.error(
                            "the value for the event contains a line feed or another control character, which a \
                             header must not contain",
                        )
                    })?;
                    target.headers.insert(name.clone(), value);
                }
                Part::Prefix => rendered.clone_into(&mut target.prefix),
                Part::Suffix => rendered.clone_into(&mut target.suffix),
            }
        }
        Ok(target)
    }
}

/// Appends the URL for an event, with percent-encoded values. Its path and its query begin at the offset `path` of the
/// URL.
///
/// # Errors
/// The errors of [`Text::render`]. A segment of the path would be empty because of a value without characters.
fn render_url(
    text: &Text,
    path: usize,
    event: EventRef<'_>,
    out: &mut String,
    cache: &mut TimeCache,
) -> Result<()> {
    let start = out.len();
    // Offsets of values without characters that begin a segment.
    let mut empty = Vec::new();
    text.render(event, out, cache, |out, at| {
        if out.len() == at && out.ends_with('/') && !out[start + path..].contains('?') {
            empty.push(at);
        }
        percent_encode(out, at);
        Ok(())
    })?;
    let is_end = |at: &usize| matches!(out.as_bytes().get(*at), None | Some(b'/' | b'?'));
    if empty.iter().any(is_end) {
        out.truncate(start);
        return Err(
            text.error("a segment of the path would be empty, because a value has no characters")
        );
    }
    Ok(())
}

fn template(key: &str, text: &str) -> Result<Template> {
    // The error does not contain the text, which may be secret.
    text.parse::<Template>().map_err(|error| {
        Error::configuration(format_args!(
            "invalid `{key}`: {error}; write `{{{{` for a brace of the text"
        ))
    })
}

/// Returns the text of a key that cannot depend on events. Braces that are not those of a template are kept.
///
/// # Errors
/// The text has a placeholder, or is a template with fields or times. The error does not contain the other text.
fn fixed(key: &str, text: &str, why: &str) -> Result<String> {
    let plain = without_placeholders(key, text)?;
    match text.parse::<Template>() {
        Err(_) => Ok(plain),
        Ok(template) => template.constant().map(str::to_owned).ok_or_else(|| {
            Error::configuration(format_args!(
                "invalid `{key}`: {why}; write `{{{{` for a brace of the text"
            ))
        }),
    }
}

/// Events, by the texts of the parts of their requests.
pub(crate) struct Groups<'t, 'b> {
    targets: &'t Targets,
    caches: Vec<TimeCache>,
    numbers: HashMap<Rendered, usize>,
    events: Vec<Vec<RawEvent<'b>>>,
    /// Length of all keys of `numbers`, in bytes.
    length: usize,
    scratch: Rendered,
}

impl<'t, 'b> Groups<'t, 'b> {
    pub(crate) fn new(targets: &'t Targets) -> Self {
        let caches = targets.parts.iter().map(|_| TimeCache::default()).collect();
        Self {
            targets,
            caches,
            numbers: HashMap::new(),
            events: Vec::new(),
            length: 0,
            scratch: Rendered::default(),
        }
    }

    /// Adds events to their groups until the number or the length of the groups reaches its limit, and returns the
    /// events that were not added. Events without a target are added to `exceptions` instead.
    pub(crate) fn add<'e>(
        &mut self,
        mut events: &'e [RawEvent<'b>],
        exceptions: &mut Exceptions,
    ) -> &'e [RawEvent<'b>] {
        while let Some((event, rest)) = events.split_first() {
            let rendered =
                self.targets.render((*event).into(), &mut self.caches, &mut self.scratch);
            match rendered.map(|()| self.numbers.get(&self.scratch)) {
                Err(error) => exceptions.reject(*event, error),
                Ok(Some(number)) => self.events[*number].push(*event),
                Ok(None) => {
                    if self.events.len() == MOST_GROUPS || self.length > MOST_RENDERED {
                        break;
                    }
                    self.length += self.scratch.text.len();
                    self.numbers.insert(self.scratch.clone(), self.events.len());
                    self.events.push(vec![*event]);
                }
            }
            events = rest;
        }
        events
    }

    /// Removes the groups, in the order of their first events.
    pub(crate) fn take(&mut self) -> Vec<(Rendered, Vec<RawEvent<'b>>)> {
        self.length = 0;
        let mut keys: Vec<_> = self.numbers.drain().collect();
        keys.sort_unstable_by_key(|(_, number)| *number);
        keys.into_iter().map(|(key, _)| key).zip(self.events.drain(..)).collect()
    }
}

#[cfg(test)]
mod tests;
