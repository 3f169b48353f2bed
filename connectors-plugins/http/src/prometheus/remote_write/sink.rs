//! The sink: sends deliveries in write requests.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::{
    Request, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use tremor_pdk::{Counter, Demand, ErrorPolicy, LimitedLog, ParallelSink, prelude::*, warn};

use super::{
    CONTENT, LOGGED_EVERY, VERSION,
    encode::{Encoder, Point},
};
use crate::{
    exchange::{
        Endpoint, Pool,
        answer::{self, Remedies},
        is_by_content,
    },
    prometheus::{
        labels::AddedLabels,
        sample::{Labels, Sample},
    },
};

/// Maximum number of events of a delivery, unless the flow sets `batch`.
const EVENTS: usize = 2_000;

/// Maximum time for which an event waits for others, unless the flow sets `batch`.
const LINGER: Duration = Duration::from_millis(100);

/// Maximum number of bytes to read of a response's body.
const RESPONSE: usize = 64 << 10;

/// Number of samples that the peer may refuse alone, other than because of their order, before the remaining samples of
/// the delivery are not sent.
const MOST_REFUSED: usize = 20;

/// Parts of responses which report that a later sample of the same series is stored. A sample that was sent again after a
/// restart is refused in this way, as are samples of two senders of a series.
const BY_ORDER: [&str; 4] =
    ["out of order", "out-of-order", "duplicate sample", "duplicate-timestamp"];

/// Texts of responses with the status 500 with which Prometheus 2.42 refuses a sample. The request would have this status
/// each time it is sent.
const BY_TEXT: [&str; 2] = ["too old sample", "invalid sample"];

/// Configuration of a sink that was checked.
pub(crate) struct Sending {
    pub(crate) labels: AddedLabels,
    /// Maximum length of a request before compression, in bytes.
    pub(crate) max_body_bytes: usize,
    /// Statuses after which a request is sent again, in addition to those of the protocol.
    pub(crate) retry_statuses: Vec<u16>,
}

/// Sends the samples of a delivery in write requests.
pub struct Writes {
    host: Host,
    pool: Arc<Pool>,
    endpoint: Arc<Endpoint>,
    sending: Arc<Sending>,
    /// `true` once the peer has accepted a request.
    has_accepted: AtomicBool,
    exemplars: Counter,
    /// Log of divided requests.
    divisions: LimitedLog,
}

/// A request that was not accepted.
struct Failure {
    error: Error,
    /// `true` if a request with a part of the samples may succeed.
    is_by_content: bool,
    /// `true` if the peer has a later sample of a series.
    is_by_order: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, is_by_content: false, is_by_order: false }
    }
}

impl Writes {
    pub(crate) fn new(
        host: &Host,
        pool: Arc<Pool>,
        endpoint: Arc<Endpoint>,
        sending: Arc<Sending>,
    ) -> Self {
        Self {
            host: host.clone(),
            pool,
            endpoint,
            sending,
            has_accepted: AtomicBool::new(false),
            exemplars: host
                .counter("exemplars_ignored", "Exemplars of samples, which are not sent."),
            divisions: host.limited_log(1, LOGGED_EVERY),
        }
    }

    /// Encodes the samples of a delivery, sorted by series and time. Adds events that are not samples to `exceptions`.
    fn encode(&self, batch: &StructuredBatch, exceptions: &mut Exceptions) -> Encoder {
        let mut encoder = Encoder::with_capacity(batch.len());
        let (mut labels, mut exemplars) = (Labels::default(), 0);
        let Sending { labels: added_labels, max_body_bytes, .. } = &*self.sending;
        for event in batch {
            let added = Sample::read(event.value()).and_then(|sample| {
                labels.read(&sample)?;
                added_labels.add(event.into(), &mut labels)?;
                exemplars += u64::from(sample.has_exemplar);
                let (now_ns, position) = (event.ingest_ns(), event.position());
                encoder.add(&sample, &mut labels, now_ns, position, *max_body_bytes)
            });
            if let Err(error) = added {
                exceptions.reject(event, error);
            }
        }
        if exemplars > 0 {
            self.exemplars.add(exemplars);
        }
        encoder.sort();
        encoder
    }

    /// Sends one request.
    async fn post(&self, request: Vec<u8>) -> Result<(), Failure> {
        let Self { host, pool, .. } = self;
        let url = &self.endpoint.url;
        if let Some(time) = pool.paused_for() {
            let deferred = Error::deferred(format_args!(
                "cannot send to `{url}` yet: it asked for a delay in its last response"
            ));
            // The runtime truncates the delay to whole milliseconds, so add one.
            return Err(deferred.retry_after(time + Duration::from_millis(1)).into());
        }
        let body = self.endpoint.compression.apply(host, request).await?;
        let head = || {
            Request::post("/")
                .header(CONTENT_TYPE, CONTENT)
                .header(CONTENT_ENCODING, "snappy")
                .header(VERSION.0, VERSION.1)
        };
        let answer = pool.send(url, head, &body, RESPONSE).await?;
        let status = answer.status;
        if status.is_success() {
            self.has_accepted.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let text = String::from_utf8_lossy(&answer.body);
        let is_by_text = status == StatusCode::INTERNAL_SERVER_ERROR
            && BY_TEXT.iter().any(|part| text.contains(part));
        let is_retried = !is_by_text && self.is_retried(status);
        let remedies = Remedies::default();
        let error = answer::refusal(host, url, &pool.secrets, &answer, is_retried, &remedies);
        pool.pause(error.delay());
        let is_by_content = !is_retried && (is_by_text || is_by_content(status));
        let is_by_order = is_by_content && BY_ORDER.iter().any(|part| text.contains(part));
        Err(Failure { error, is_by_content, is_by_order })
    }

    /// Returns whether a request is sent again after a response with this status, which is not a success.
    fn is_retried(&self, status: StatusCode) -> bool {
        match status {
            _ if self.sending.retry_statuses.contains(&status.as_u16()) => true,
            // The specification forbids sending a request again after any status 4xx except 429. But after 401, 403 and
            // 407, the credentials are wrong, and not the samples.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::PROXY_AUTHENTICATION_REQUIRED => true,
            // The configuration is probably wrong as long as the peer has accepted no request.
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                !self.has_accepted.load(Ordering::Relaxed)
            }
            _ if status.is_redirection() => !self.has_accepted.load(Ordering::Relaxed),
            _ => status.is_server_error(),
        }
    }

    /// Sends samples in as few requests as `max_body_bytes` allows, in order. If the peer refuses the contents of a
    /// request, sends each half of its samples in a request, until the refused samples stand alone. Adds the events
    /// that were not delivered to `exceptions`.
    ///
    /// # Errors
    /// A failure that is not an answer for single events. No request is sent after it.
    async fn send(
        &self,
        batch: &StructuredBatch,
        encoder: &Encoder,
        exceptions: &mut Exceptions,
    ) -> Result<()> {
        let points = encoder.points();
        let (mut begun, mut refused) = (0, 0);
        // The parts of the samples before `begun` that are not sent yet, the next one at the end.
        let mut parts: Vec<Range<usize>> = Vec::new();
        loop {
            let part = match parts.pop() {
                Some(part) => part,
                None if begun == points.len() => return Ok(()),
                None => {
                    let start = begun;
                    begun = encoder.fitting(start, self.sending.max_body_bytes);
                    start..begun
                }
            };
            let mut request = Vec::new();
            encoder.write(part.clone(), &mut request);
            let Err(failure) = self.post(request).await else { continue };
            let Failure { mut error, is_by_content, is_by_order } = failure;
            if is_by_content && part.len() > 1 {
                let middle = part.start + part.len() / 2;
                warn!(self.divisions, "divided a request of {} samples: {error}", part.len());
                parts.extend([middle..part.end, part.start..middle]);
                continue;
            }
            let is_dead_letter = error.policy() == ErrorPolicy::DEAD_LETTER;
            if !is_dead_letter && error.policy() != ErrorPolicy::RETRY {
                return Err(error);
            }
            reject(batch, &points[part], &error, exceptions);
            if is_by_content {
                // Samples that are stored already do not count, because the ones after them are new.
                refused += usize::from(!is_by_order);
                if refused < MOST_REFUSED {
                    continue;
                }
                error = error.context(format_args!(
                    "not sent, because the peer refused {MOST_REFUSED} samples of the delivery; the last response"
                ));
            }
            for part in parts {
                reject(batch, &points[part], &error, exceptions);
            }
            reject(batch, &points[begun..], &error, exceptions);
            return Ok(());
        }
    }
}

/// Rejects the events of samples.
fn reject(batch: &StructuredBatch, points: &[Point], error: &Error, exceptions: &mut Exceptions) {
    let events = points.iter().filter_map(|point| batch.get(point.position));
    exceptions.reject_all(events, error);
}

impl ParallelSink for Writes {
    type Batch = StructuredBatch;

    fn demand(&self) -> Demand {
        let most = self.endpoint.max_connections.get();
        Demand::new().at_most(most).max_events(EVENTS).linger(LINGER)
    }

    async fn deliver(&self, batch: &StructuredBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        let encoder = self.encode(batch, &mut exceptions);
        self.send(batch, &encoder, &mut exceptions).await?;
        exceptions.into()
    }

    async fn on_tick(&self) -> Result<()> {
        self.pool.end_idle();
        Ok(())
    }
}

impl std::fmt::Debug for Writes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writes")
    }
}
