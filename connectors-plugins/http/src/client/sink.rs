//! The sink: sends deliveries in requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::{Request, StatusCode, body::Bytes};
use tremor_pdk::{Demand, ErrorPolicy, LimitedLog, ParallelSink, prelude::*, warn};

use super::{answer, body, config::Format, pool::Pool, url::Url};

/// Statuses with which a peer refuses the contents of a request.
const BY_CONTENT: [StatusCode; 3] =
    [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY];

/// Maximum number of bytes to read of a response's body. A connection with a longer response is not
/// reused.
const RESPONSE: usize = 64 << 10;

/// Number of events that the peer may refuse alone before the remaining events of the delivery are
/// not sent, so that a peer that refuses everything does not get a request for each event.
const MOST_REFUSED: usize = 20;

/// Period in which at most one divided delivery is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Sends each event, or each delivery, as a request.
pub struct Posts {
    host: Host,
    pool: Arc<Pool>,
    /// `true` once the peer has accepted a request.
    has_accepted: AtomicBool,
    /// Log of divided deliveries.
    divisions: LimitedLog,
}

/// Failure of a request.
struct Failure {
    error: Error,
    /// `true` if the peer refused the contents of the request. A request with a part of these
    /// contents may succeed.
    is_by_content: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, is_by_content: false }
    }
}

impl Posts {
    pub(crate) fn new(host: &Host, pool: Arc<Pool>) -> Self {
        let divisions = host.limited_log(1, LOGGED_EVERY);
        Self { host: host.clone(), pool, has_accepted: AtomicBool::new(false), divisions }
    }

    /// Sends one request with `body`.
    async fn post(&self, url: &Url, body: Vec<u8>) -> Result<(), Failure> {
        let settings = &self.pool.settings;
        if let Some(time) = self.pool.paused_for() {
            let deferred = Error::deferred(format_args!(
                "cannot send to `{url}` yet: it asked for a delay in its last response"
            ));
            // The runtime truncates the delay to whole milliseconds, so add one.
            return Err(deferred.retry_after(time + Duration::from_millis(1)).into());
        }
        let body_headers = settings.body_headers(&body);
        let body: Bytes = body::compressed(&self.host, body, settings.config.compression).await?;
        let head = || {
            let mut head = Request::builder().method(settings.method.clone());
            if let Some(headers) = head.headers_mut() {
                headers.extend(body_headers.clone());
            }
            head
        };
        let answer = self.pool.send(url, head, &body, RESPONSE).await?;
        if answer.status.is_success() {
            self.has_accepted.store(true, Ordering::Relaxed);
        }
        let (secrets, has_accepted) =
            (&self.pool.secrets, self.has_accepted.load(Ordering::Relaxed));
        let checked = answer::check(&self.host, settings, url, secrets, &answer, has_accepted);
        checked.map_err(|error| {
            self.pool.pause(error.delay());
            let is_by_content =
                error.policy() == ErrorPolicy::DEAD_LETTER && BY_CONTENT.contains(&answer.status);
            Failure { error, is_by_content }
        })
    }

    /// Sends each event in a request of its own, in order. Stops at the first error whose policy is
    /// to retry.
    async fn post_each(&self, batch: &RawBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        for (position, event) in batch.iter().enumerate() {
            let posted = match self.pool.settings.request(event.raw()) {
                Ok(Some((url, body))) => {
                    self.post(url, body.to_vec()).await.map_err(|failure| failure.error)
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match posted {
                Ok(()) => {}
                Err(error) if error.policy() == ErrorPolicy::DEAD_LETTER => {
                    exceptions.reject(event, error);
                }
                Err(error) if error.policy() == ErrorPolicy::RETRY => {
                    exceptions.reject_all(batch.iter().skip(position), &error);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        exceptions.into()
    }

    /// Sends all events in one request. If the peer refuses the contents of a request, sends each
    /// half of its events in a request, in order, until the refused events stand alone.
    async fn post_together(&self, batch: &RawBatch, format: Format) -> Delivery {
        let url = &self.pool.settings.url;
        let mut exceptions = Exceptions::none();
        let mut events = Vec::new();
        for event in batch {
            match body::check(event, format) {
                Ok(()) => events.push(event),
                Err(error) => exceptions.reject(event, error),
            }
        }
        // The parts that are not sent yet, the next one at the end.
        let mut parts = vec![&events[..]];
        let mut refused = 0;
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            let Err(failure) = self.post(url, body::of_events(part, format)).await else {
                continue;
            };
            let Failure { error, is_by_content } = failure;
            if is_by_content && part.len() > 1 {
                let count = part.len();
                warn!(
                    self.divisions,
                    "divided a request of {count} events: {error}; set a smaller `batch` if it was too large"
                );
                let (first, second) = part.split_at(count / 2);
                parts.extend([second, first]);
                continue;
            }
            let is_dead_letter = error.policy() == ErrorPolicy::DEAD_LETTER;
            if !is_dead_letter && error.policy() != ErrorPolicy::RETRY {
                return Err(error.into());
            }
            exceptions.reject_all(part.iter().copied(), &error);
            refused += usize::from(is_by_content);
            if is_dead_letter && refused < MOST_REFUSED {
                continue;
            }
            let error = if is_dead_letter {
                error.context(format_args!(
                    "not sent, because the peer refused {MOST_REFUSED} events of the delivery; the last response"
                ))
            } else {
                error
            };
            exceptions.reject_all(parts.into_iter().flatten().copied(), &error);
            break;
        }
        exceptions.into()
    }
}

impl ParallelSink for Posts {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        Demand::new().at_most(self.pool.settings.config.max_connections.get())
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        match self.pool.settings.config.format {
            Format::Raw => self.post_each(batch).await,
            format => self.post_together(batch, format).await,
        }
    }

    async fn on_tick(&self) -> Result<()> {
        self.pool.end_idle();
        Ok(())
    }
}

impl std::fmt::Debug for Posts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Posts")
    }
}
