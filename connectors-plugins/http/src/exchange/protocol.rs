//! Differences between the systems that receive events over HTTP.

use std::{borrow::Cow, collections::HashMap, ops::Range, sync::Arc};

use hyper::{Method, StatusCode, header::HeaderValue};
use tremor_pdk::{Error, Exceptions, Host, RawEvent, Result, template::TimeCache, units::Size};

use super::{
    answer::Remedies,
    connection::Answer,
    endpoint::Endpoint,
    question::{Channel, Question},
    secrets::Secrets,
    target::{Target, Targets},
    url::Url,
};

/// Maximum number of bytes to read of a response's body, unless the protocol needs more. A connection with a longer
/// response is not reused.
const RESPONSE: usize = 64 << 10;

/// The way in which events become requests, and the meaning of responses.
pub(crate) trait Protocol: Send + Sync {
    /// Returns the properties that all requests have in common.
    fn common(&self) -> &Common;

    /// Returns the parts of targets that depend on events, if there are any.
    fn targets(&self) -> Option<&Targets> {
        None
    }

    /// Returns the method of requests.
    fn method(&self) -> Method {
        Method::POST
    }

    /// Returns the `Content-Type` of a body before its compression, unless a configured header has it.
    fn content_type(&self, _body: &[u8]) -> Option<HeaderValue> {
        self.common().content_type.clone()
    }

    /// Returns the keys that the errors for statuses name.
    fn remedies(&self) -> Remedies<'static> {
        Remedies::default()
    }

    /// Returns the length of a body without items, in bytes.
    fn ends(&self, _target: &Target) -> usize {
        0
    }

    /// Makes an event an item of a body, and appends the texts of the item to `texts`. After an error, `texts` may have
    /// further bytes, which the caller removes.
    ///
    /// # Errors
    /// An error whose policy makes the event a dead letter: it cannot be a part of a body.
    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>>;

    /// Returns the body of a request with some of the items: all of them, or consecutive ones if the peer has refused a
    /// request with more items.
    fn body(&self, target: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8>;

    /// Returns the URL of the request with `body`.
    ///
    /// # Errors
    /// The URL would be invalid.
    fn url<'t>(&self, target: &'t Target, _body: &[u8]) -> Result<Cow<'t, Url>> {
        Ok(Cow::Borrowed(&target.url))
    }

    /// Returns the first of `events` that fit into a body, and the remaining events. An event that cannot be a part of
    /// a body is added to `exceptions` instead.
    fn items<'b, 'e>(
        &self,
        target: &Target,
        mut events: &'e [RawEvent<'b>],
        caches: &mut Caches,
        exceptions: &mut Exceptions,
    ) -> (Items<'b>, &'e [RawEvent<'b>]) {
        let (mut found, most) = (Items::default(), self.common().max_body_bytes);
        let mut length = self.ends(target);
        while let Some((event, rest)) = events.split_first() {
            let start = found.texts.len();
            match self.item(*event, caches, &mut found.texts) {
                Ok(item) => {
                    length = length.saturating_add(item.length);
                    if length > most && !found.items.is_empty() {
                        found.texts.truncate(start);
                        break;
                    }
                    found.items.push(item);
                }
                Err(error) => {
                    found.texts.truncate(start);
                    exceptions.reject(*event, error);
                }
            }
            events = rest;
        }
        (found, events)
    }

    /// Returns whether each event is a request of its own, which [`single`](Self::single) makes.
    fn is_single(&self) -> bool {
        false
    }

    /// Returns the URL and the body of the request that an event becomes, or `None` if the event need not be sent.
    ///
    /// # Errors
    /// See [`Protocol::item`].
    fn single<'m>(
        &'m self,
        target: &'m Target,
        event: RawEvent<'_>,
        caches: &mut Caches,
    ) -> Result<Option<(&'m Url, Vec<u8>)>> {
        let mut texts = String::new();
        let item = self.item(event, caches, &mut texts)?;
        let items = Items { items: vec![item], texts };
        Ok(Some((&target.url, self.body(target, &items, items.all()))))
    }

    /// Returns the maximum number of bytes to read of the response to a request with `count` items.
    fn response_bytes(&self, _count: usize) -> usize {
        RESPONSE
    }

    /// Returns whether a request is sent again after a response with this status, which is not a success.
    /// `has_accepted` is `true` if the peer has accepted a request before. If a request is not sent again, its events go
    /// to `err`, or the request is divided.
    ///
    /// Unless the protocol decides otherwise, all requests are sent again except for those whose contents the peer
    /// refuses.
    fn is_retried(&self, status: StatusCode, _has_accepted: bool) -> bool {
        !is_by_content(status)
    }

    /// Reads a response whose status is not a success. Returns the verdict on the request, or `None` if the status
    /// decides.
    fn verdict(&self, _response: &Response<'_>, _part: &Part<'_, '_>) -> Option<Verdict> {
        None
    }

    /// Reads a response whose status is a success. Returns the items that the peer did not accept, each as its position
    /// in the request and its error. The policy of the error is to retry or to make the event a dead letter.
    ///
    /// # Errors
    /// The peer accepted no item, or did not report which ones it accepted. The policy of the error applies to all
    /// items.
    fn rejected(
        &self,
        _response: &Response<'_>,
        _part: &Part<'_, '_>,
    ) -> Result<Vec<(usize, Error)>> {
        Ok(Vec::new())
    }

    /// Returns the channel of a new request, and of the question about it, if the peer has channels.
    fn channel(&self) -> Option<Channel> {
        None
    }

    /// Returns the question that the peer has to answer after it has accepted a request, before its items are
    /// delivered. Returns `None` if accepted items are delivered.
    ///
    /// # Errors
    /// The response has not what the question needs.
    fn question(&self, _response: &Response<'_>) -> Result<Option<Question>> {
        Ok(None)
    }

    /// Returns whether the peer has processed the items, by its response to the question, whose status is a success.
    fn is_processed(&self, _response: &Response<'_>) -> bool {
        true
    }
}

/// Properties that all requests of a sink have in common.
pub(crate) struct Common {
    pub(crate) endpoint: Arc<Endpoint>,
    /// The parts of targets that do not depend on events.
    pub(crate) target: Target,
    /// `Content-Type` of bodies before their compression, unless a configured header has it.
    pub(crate) content_type: Option<HeaderValue>,
    /// Maximum length of a body with several items, in bytes before compression.
    pub(crate) max_body_bytes: usize,
}

impl Common {
    /// Creates the properties of a system whose requests have the type `content_type` and at most `most` bytes.
    pub(crate) fn new(
        endpoint: Endpoint,
        target: Target,
        content_type: &'static str,
        most: Size,
    ) -> Self {
        Self {
            endpoint: Arc::new(endpoint),
            target,
            content_type: Some(HeaderValue::from_static(content_type)),
            max_body_bytes: usize::try_from(most.get()).unwrap_or(usize::MAX),
        }
    }
}

/// Returns whether a peer refuses the contents of a request with this status.
pub(crate) fn is_by_content(status: StatusCode) -> bool {
    [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY]
        .contains(&status)
}

/// Verdict of a peer on a request that it has refused.
pub(crate) enum Verdict {
    /// The peer refuses the contents of the request. The request is divided until the refused items stand alone.
    Contents(Error),
    /// The peer refuses the item with this position. The other items are sent again without it.
    Item(usize, Error),
    /// The peer refuses the request for another reason. All items are sent again later.
    Again(Error),
}

/// A response to a request of a sink.
pub(crate) struct Response<'r> {
    pub(crate) host: &'r Host,
    pub(crate) url: &'r Url,
    pub(crate) answer: &'r Answer,
    /// Values that no error may show, even if the peer quotes them.
    pub(crate) secrets: &'r Secrets,
}

/// The items of a request. Empty for a request that [`Protocol::single`] has made.
#[derive(Default)]
pub(crate) struct Part<'p, 'b> {
    pub(crate) items: &'p [Item<'b>],
    /// The texts of the items.
    pub(crate) texts: &'p str,
}

/// Events that become one body, with the texts around them.
#[derive(Default)]
pub(crate) struct Items<'b> {
    items: Vec<Item<'b>>,
    /// The texts of all items.
    pub(crate) texts: String,
}

impl<'b> Items<'b> {
    pub(crate) fn all(&self) -> &[Item<'b>] {
        &self.items
    }
}

/// An event that is a part of a body, with its texts.
#[derive(Clone)]
pub(crate) struct Item<'b> {
    pub(crate) event: RawEvent<'b>,
    /// Text for the event that the protocol needs before its message, as offsets in [`Items::texts`].
    pub(crate) before: Range<usize>,
    /// Text for the event that the protocol needs after its message, as offsets in [`Items::texts`].
    pub(crate) after: Range<usize>,
    /// Maximum length of the item in a body, with its texts and what separates it from the next item, in bytes.
    pub(crate) length: usize,
    /// Line that the item is, if bodies consist of streams of lines.
    pub(crate) line: Line,
}

impl<'b> Item<'b> {
    pub(crate) fn new(
        event: RawEvent<'b>,
        before: Range<usize>,
        after: Range<usize>,
        length: usize,
    ) -> Self {
        Self { event, before, after, length, line: Line::default() }
    }
}

/// A line of a stream.
#[derive(Clone, Copy, Default)]
pub(crate) struct Line {
    /// Number of the labels: see [`Shared::number`].
    pub(crate) labels: usize,
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    /// Nanoseconds since the second.
    pub(crate) nanoseconds: u32,
    /// Length in bytes of the text that replaces a message that is not UTF-8. 0 if the message is the line.
    pub(crate) replaced: usize,
}

/// State of the items of a delivery that go to one target.
#[derive(Default)]
pub(crate) struct Caches {
    /// The last times in the texts of items, so that a time is formatted only if it has changed.
    times: Vec<TimeCache>,
    /// The last argument of [`Caches::distinct_ns`], and the number of equal ones before it.
    last_ns: (u64, u64),
    /// Texts that several items of a body share.
    shared: HashMap<Box<str>, Shared>,
    /// Some of them by the metadata of their events: its identifier plus 1, or 0 in an empty slot.
    by_metadata: [(u64, Shared); BY_METADATA],
}

/// A text that several items of a body share.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// Number of other texts that were shared before.
    pub(crate) number: usize,
    /// Offsets in [`Items::texts`].
    pub(crate) text: Range<usize>,
}

/// Number of remembered identifiers of metadata. A power of 2.
const BY_METADATA: usize = 16;

/// Returns the slot of an identifier of metadata.
#[inline]
fn slot(id: u32) -> usize {
    // The highest bits of the product depend on all bits of the identifier.
    (id.wrapping_mul(0x9e37_79b9) >> (u32::BITS - BY_METADATA.ilog2())) as usize
}

impl Caches {
    /// Returns the cache for the template with this number. Use the same number for the same template.
    pub(crate) fn of(&mut self, number: usize) -> &mut TimeCache {
        if self.times.len() <= number {
            self.times.resize_with(number + 1, TimeCache::default);
        }
        &mut self.times[number]
    }

    /// Shares the text at the end of `texts`, from the offset `start`. Removes it if an item of the same body has it
    /// already. If the text depends only on the metadata of the event, `metadata_id` identifies that.
    pub(crate) fn share(
        &mut self,
        texts: &mut String,
        start: usize,
        metadata_id: Option<u32>,
    ) -> Shared {
        let text = &texts[start..];
        let shared = match self.shared.get(text) {
            Some(shared) => shared.clone(),
            None => {
                let shared = Shared { number: self.shared.len(), text: start..texts.len() };
                self.shared.insert(text.into(), shared.clone());
                shared
            }
        };
        if shared.text.start < start {
            texts.truncate(start);
        }
        if let Some(id) = metadata_id {
            self.by_metadata[slot(id)] = (u64::from(id) + 1, shared.clone());
        }
        shared
    }

    /// Returns the text of events with this metadata, if it was shared recently.
    #[inline]
    pub(crate) fn shared_of(&self, metadata_id: u32) -> Option<Shared> {
        let (known, shared) = &self.by_metadata[slot(metadata_id)];
        (*known == u64::from(metadata_id) + 1).then(|| shared.clone())
    }

    /// Forgets the shared texts. Call this before the first item of a body.
    pub(crate) fn forget_shared(&mut self) {
        self.shared.clear();
        self.by_metadata = Default::default();
    }

    /// Returns a time in ns for an event that was read at `ns`: one more for each event before it that was read at the
    /// same time, so that events that were read together have different times.
    pub(crate) fn distinct_ns(&mut self, ns: u64) -> u64 {
        let (last, count) = self.last_ns;
        let count = if ns == last { count + 1 } else { 0 };
        self.last_ns = (ns, count);
        ns.saturating_add(count)
    }
}
