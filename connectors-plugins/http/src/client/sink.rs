//! The sink: sends deliveries in requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::{Request, StatusCode, body::Bytes};
use tremor_pdk::{Demand, ErrorPolicy, LimitedLog, ParallelSink, RawEvent, prelude::*, warn};

use super::{
    answer,
    body::{self, Caches, Items},
    config::Format,
    pool::Pool,
    target::{Groups, Rendered, Target, Targets},
    url::Url,
};

/// Statuses with which a peer refuses the contents of a request.
const BY_CONTENT: [StatusCode; 3] =
    [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY];

/// Statuses with which a peer or a proxy refuses all requests.
const BY_PEER: [StatusCode; 2] =
    [StatusCode::UNAUTHORIZED, StatusCode::PROXY_AUTHENTICATION_REQUIRED];

/// Number of targets of a delivery whose requests have to be sent again, before the requests to the remaining targets
/// wait as well, so that a peer that is overloaded does not get a request for each target.
const MOST_FAILED: usize = 20;

/// Maximum number of bytes to read of a response's body. A connection with a longer response is not
/// reused.
const RESPONSE: usize = 64 << 10;

/// Number of events that the peer may refuse alone before the remaining events of the target are
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
    scope: Scope,
}

/// The requests to which the cause of a failure applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Requests with the same contents. A request with a part of these contents may succeed.
    Contents,
    /// Requests to the same target.
    Target,
    /// Requests to the peer, whatever their target.
    Peer,
}

impl Failure {
    fn is_dead_letter(&self) -> bool {
        self.error.policy() == ErrorPolicy::DEAD_LETTER
    }

    /// Returns whether the failure is an answer for single events, and not for the connector.
    fn is_of_events(&self) -> bool {
        self.is_dead_letter() || self.error.policy() == ErrorPolicy::RETRY
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, scope: Scope::Peer }
    }
}

impl Posts {
    pub(crate) fn new(host: &Host, pool: Arc<Pool>) -> Self {
        let divisions = host.limited_log(1, LOGGED_EVERY);
        Self { host: host.clone(), pool, has_accepted: AtomicBool::new(false), divisions }
    }

    /// Sends one request with `body` to `url`, which may be another URL than that of `target`.
    async fn post(&self, url: &Url, target: &Target, body: Vec<u8>) -> Result<(), Failure> {
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
                headers.extend(target.headers.clone());
            }
            head
        };
        let answer = self.pool.send(url, head, &body, RESPONSE).await?;
        if answer.status.is_success() {
            self.has_accepted.store(true, Ordering::Relaxed);
        }
        let has_accepted = self.has_accepted.load(Ordering::Relaxed);
        let check =
            |secrets| answer::check(&self.host, settings, url, secrets, &answer, has_accepted);
        let checked = if settings.targets.is_none() || answer.status.is_success() {
            check(&self.pool.secrets)
        } else {
            check(&self.pool.secrets.and_target(target))
        };
        checked.map_err(|error| {
            self.pool.pause(error.delay());
            let is_dead_letter = error.policy() == ErrorPolicy::DEAD_LETTER;
            let scope = if is_dead_letter && BY_CONTENT.contains(&answer.status) {
                Scope::Contents
            } else if !is_dead_letter
                && (BY_PEER.contains(&answer.status) || !error.delay().is_zero())
            {
                Scope::Peer
            } else {
                Scope::Target
            };
            Failure { error, scope }
        })
    }

    /// Sends each event to `target` in a request of its own, in order. Adds the events that were not delivered to
    /// `exceptions`.
    ///
    /// # Errors
    /// The first failure whose policy is not to make its event a dead letter. No request is sent after it.
    async fn post_each(
        &self,
        target: &Target,
        events: &[RawEvent<'_>],
        exceptions: &mut Exceptions,
    ) -> Result<(), Failure> {
        let settings = &self.pool.settings;
        let mut caches = Caches::default();
        for (position, event) in events.iter().enumerate() {
            let request = settings.request(&target.url, event.raw()).and_then(|request| {
                let Some((url, message)) = request else { return Ok(None) };
                Ok(Some((url, settings.bodies.single(target, *event, message, &mut caches)?)))
            });
            let posted = match request {
                Ok(Some((url, body))) => self.post(url, target, body).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error.into()),
            };
            match posted {
                Ok(()) => {}
                Err(failure) if failure.is_dead_letter() => {
                    exceptions.reject(*event, failure.error);
                }
                Err(failure) => {
                    if failure.is_of_events() {
                        exceptions.reject_all(events[position..].iter().copied(), &failure.error);
                    }
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// Sends events to `target`, as many in a request as fit into a body. Adds the events that were not delivered to
    /// `exceptions`.
    ///
    /// # Errors
    /// See [`Posts::post_each`].
    async fn post_together(
        &self,
        target: &Target,
        mut events: &[RawEvent<'_>],
        exceptions: &mut Exceptions,
    ) -> Result<(), Failure> {
        let bodies = &self.pool.settings.bodies;
        let (mut caches, mut refused) = (Caches::default(), 0);
        while !events.is_empty() {
            let (items, remaining) = bodies.items(target, events, &mut caches, exceptions);
            events = remaining;
            let posted = self.post_divided(target, &items, &mut refused, exceptions).await;
            let Err(failure) = posted else { continue };
            if failure.is_of_events() {
                exceptions.reject_all(events.iter().copied(), &failure.error);
            }
            // The other requests are not sent after the peer has refused too many events.
            return if failure.is_dead_letter() { Ok(()) } else { Err(failure) };
        }
        Ok(())
    }

    /// Sends items in one request. If the peer refuses the contents of a request, sends each half of its items in a
    /// request, in order, until the refused items stand alone. `refused` is the number of these items.
    ///
    /// # Errors
    /// The failure because of which no further request was sent: its policy is not to make events dead letters, or the
    /// peer refused [`MOST_REFUSED`] items. The events that were not delivered are in `exceptions`, unless the failure
    /// is not an answer for single events.
    async fn post_divided(
        &self,
        target: &Target,
        items: &Items<'_>,
        refused: &mut usize,
        exceptions: &mut Exceptions,
    ) -> Result<(), Failure> {
        let bodies = &self.pool.settings.bodies;
        // The parts that are not sent yet, the next one at the end.
        let mut parts = vec![items.all()];
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            let body = bodies.body(target, items, part);
            let Err(mut failure) = self.post(&target.url, target, body).await else { continue };
            let is_by_content = failure.scope == Scope::Contents;
            if is_by_content && part.len() > 1 {
                let (count, error) = (part.len(), &failure.error);
                warn!(
                    self.divisions,
                    "divided a request of {count} events: {error}; set a smaller `batch` if it was too large"
                );
                let (first, second) = part.split_at(count / 2);
                parts.extend([second, first]);
                continue;
            }
            if !failure.is_of_events() {
                return Err(failure);
            }
            exceptions.reject_all(part.iter().map(|item| item.event), &failure.error);
            *refused += usize::from(is_by_content);
            if failure.is_dead_letter() {
                if *refused < MOST_REFUSED {
                    continue;
                }
                failure.error = failure.error.context(format_args!(
                    "not sent, because the peer refused {MOST_REFUSED} events of the delivery; the last response"
                ));
            }
            let remaining = parts.into_iter().flatten().map(|item| item.event);
            exceptions.reject_all(remaining, &failure.error);
            return Err(failure);
        }
        Ok(())
    }

    /// Sends events to `target`.
    ///
    /// # Errors
    /// See [`Posts::post_each`].
    async fn send(
        &self,
        target: &Target,
        events: &[RawEvent<'_>],
        exceptions: &mut Exceptions,
    ) -> Result<(), Failure> {
        match self.pool.settings.config.format {
            Format::Raw => self.post_each(target, events, exceptions).await,
            _ => self.post_together(target, events, exceptions).await,
        }
    }

    /// Sends events to their targets, one target after the other. The events of a target stay in order. If a target
    /// fails, the events of the next ones are sent nevertheless, unless the cause applies to all requests.
    ///
    /// # Errors
    /// The failure because of which no further request was sent.
    async fn send_by_target(
        &self,
        targets: &Targets,
        mut events: &[RawEvent<'_>],
        exceptions: &mut Exceptions,
    ) -> Result<(), Failure> {
        let mut groups = Groups::new(targets);
        // Targets whose events have to be sent again. Later events for these targets wait for the earlier ones.
        let mut failed: Vec<(Rendered, Error)> = Vec::new();
        while !events.is_empty() {
            events = groups.add(events, exceptions);
            let mut all = groups.take().into_iter();
            while let Some((rendered, of_target)) = all.next() {
                if let Some((_, error)) = failed.iter().find(|(target, _)| *target == rendered) {
                    exceptions.reject_all(of_target, error);
                    continue;
                }
                let target = match targets.target(&self.pool.settings.fixed, &rendered) {
                    Ok(target) => target,
                    Err(error) => {
                        exceptions.reject_all(of_target, &error);
                        continue;
                    }
                };
                let sent = self.send(&target, &of_target, exceptions).await;
                let Err(failure) = sent else { continue };
                if !failure.is_of_events() {
                    return Err(failure);
                }
                if failure.scope == Scope::Target && failed.len() + 1 < MOST_FAILED {
                    failed.push((rendered, failure.error));
                    continue;
                }
                let remaining = all.flat_map(|(_, of_target)| of_target);
                let remaining = remaining.chain(events.iter().copied());
                exceptions.reject_all(remaining, &failure.error);
                return Err(failure);
            }
        }
        Ok(())
    }
}

impl ParallelSink for Posts {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        Demand::new().at_most(self.pool.settings.config.max_connections.get())
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let settings = &self.pool.settings;
        let mut exceptions = Exceptions::none();
        let events: Vec<_> = batch.iter().collect();
        let sent = match &settings.targets {
            None => self.send(&settings.fixed, &events, &mut exceptions).await,
            Some(targets) => self.send_by_target(targets, &events, &mut exceptions).await,
        };
        match sent {
            Err(failure) if !failure.is_of_events() => Err(failure.error.into()),
            _ => exceptions.into(),
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
