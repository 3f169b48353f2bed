//! The protocol of the source: checks and decodes write requests.

use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
    http::request::Parts,
};
use tremor_pdk::{Counter, Host, LimitedLog, Result, StructuredBatch, warn};

use super::{
    CONTENT, LOGGED_EVERY, VERSION,
    request::{self, Contents, Samples},
};
use crate::server::{Answer, Content, Events, Protocol};

/// Maximum estimated memory of the events of a request, as a multiple of the maximum length of its body. Samples of one
/// series share their labels in a request, but not in events.
const EXPANSION: usize = 32;

/// Receives write requests.
pub(crate) struct Receiver {
    /// `true` if values that are not finite become text.
    is_text: bool,
    /// Maximum estimated memory of the events of a request, in bytes.
    max_decoded: usize,
    histograms: Counter,
    exemplars: Counter,
    descriptions: Counter,
    /// Log of ignored histograms.
    log: LimitedLog,
}

impl Receiver {
    /// Creates the protocol for requests of at most `most` bytes.
    pub(crate) fn new(host: &Host, is_text: bool, most: usize) -> Self {
        let ignored = |name: &str, what: &str| {
            host.counter(name, &format!("{what} of requests, which are ignored."))
        };
        Self {
            is_text,
            max_decoded: most.saturating_mul(EXPANSION),
            histograms: ignored("histograms_ignored", "Native histograms"),
            exemplars: ignored("exemplars_ignored", "Exemplars"),
            descriptions: ignored("metadata_ignored", "Descriptions of metrics"),
            log: host.limited_log(1, LOGGED_EVERY),
        }
    }

    fn count(&self, contents: Contents) {
        let Contents { histograms, exemplars, descriptions, .. } = contents;
        if histograms > 0 {
            warn!(
                self.log,
                "ignored {histograms} native histograms of a request: remote write 1.0 has floats only; \
                 set `send_native_histograms: false` for the sender"
            );
        }
        for (counter, count) in [
            (&self.histograms, histograms),
            (&self.exemplars, exemplars),
            (&self.descriptions, descriptions),
        ] {
            counter.add(count as u64);
        }
    }
}

impl Protocol for Receiver {
    fn check(&self, head: &Parts) -> Result<(), Answer> {
        let unsupported = |header: &str, expected: &str| {
            let text = format!("expected the header `{header}: {expected}` of remote write 1.0\n");
            Err(Answer::bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
        };
        if !is_content(&head.headers) {
            return unsupported("Content-Type", CONTENT);
        }
        if header(&head.headers, CONTENT_ENCODING.as_str()) != Some("snappy") {
            return unsupported("Content-Encoding", "snappy");
        }
        // A sender without this header sends version 1.0, which has the number 0.1.0.
        match header(&head.headers, VERSION.0) {
            Some(version) if !version.starts_with("0.") => unsupported(VERSION.0, VERSION.1),
            _ => Ok(()),
        }
    }

    fn decoded_len(&self, body: &[u8], most: usize) -> Result<usize, Answer> {
        let length = snap::raw::decompress_len(body).map_err(|error| malformed(&error))?;
        if length > most {
            let text = format!("the decompressed body exceeds {most} bytes (`max_body_bytes`)\n");
            return Err(Answer::bad(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        Ok(length)
    }

    fn decode(&self, body: Content) -> Result<Option<Box<dyn Events>>, Answer> {
        let mut decoder = snap::raw::Decoder::new();
        let request = decoder.decompress_vec(&body).map_err(|error| malformed(&error))?;
        let contents = request::check(&request).map_err(|error| malformed(&error))?;
        if contents.decoded > self.max_decoded {
            let text = format!(
                "the samples of the request would need more than {} bytes of memory; send fewer samples in a request\n",
                self.max_decoded
            );
            return Err(Answer::bad(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        self.count(contents);
        let samples = Samples::new(request, self.is_text);
        Ok((contents.samples > 0).then(|| Box::new(samples) as Box<dyn Events>))
    }

    /// Returns 204 for every success, as receivers of Prometheus do. Senders drop a request after a status 4xx, and
    /// some drop it after 429 as well, so that a flow that is full or slow has the status 503.
    fn status(&self, status: StatusCode) -> StatusCode {
        match status {
            StatusCode::OK | StatusCode::ACCEPTED => StatusCode::NO_CONTENT,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            status => status,
        }
    }
}

impl Events for Samples {
    fn put(&mut self, batch: &mut StructuredBatch, stream: u64) -> Result<bool> {
        Self::put(self, batch, stream)
    }
}

/// Returns whether the body is a request of version 1.0: a type without the parameter `proto`, or with the message of
/// version 1.0.
fn is_content(headers: &HeaderMap) -> bool {
    let Some(value) = header(headers, CONTENT_TYPE.as_str()) else { return false };
    let mut parts = value.split(';').map(str::trim);
    let is_type = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(CONTENT));
    is_type
        && parts.all(|parameter| {
            let proto =
                parameter.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case("proto"));
            proto.is_none_or(|(_, message)| message.trim_matches('"') == "prometheus.WriteRequest")
        })
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn malformed(error: &dyn std::fmt::Display) -> Answer {
    Answer::bad(
        StatusCode::BAD_REQUEST,
        format!("the body is not a snappy-compressed write request: {error}\n"),
    )
}
