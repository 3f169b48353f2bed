//! The sink: sends deliveries in requests.

use std::{
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
use tremor_pdk::{Demand, ErrorPolicy, LimitedLog, ParallelSink, RawEvent, prelude::*, warn};

use super::{
    answer, asking,
    pool::Pool,
    protocol::{Caches, Item, Items, Part, Protocol, Response, Verdict, is_by_content},
    target::{Groups, Rendered, Target, Targets},
    url::Url,
};

/// Statuses with which a peer or a proxy refuses all requests.
const BY_PEER: [StatusCode; 2] =
    [StatusCode::UNAUTHORIZED, StatusCode::PROXY_AUTHENTICATION_REQUIRED];

/// Number of targets of a delivery whose requests have to be sent again, before the requests to the remaining targets
/// wait as well, so that a peer that is overloaded does not get a request for each target.
const MOST_FAILED: usize = 20;

/// Number of events that the peer may refuse alone before the remaining events of the target are
/// not sent, so that a peer that refuses everything does not get a request for each event.
const MOST_REFUSED: usize = 20;

/// Period in which at most one divided delivery is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Sends each event, or each delivery, as a request.
pub struct Posts {
    host: Host,
    pool: Arc<Pool>,
    protocol: Arc<dyn Protocol>,
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
    /// Requests with the item at this position.
    Item(usize),
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

impl From<Verdict> for Failure {
    /// Sets the policy of the error.
    fn from(verdict: Verdict) -> Self {
        let refused = |error: Error| error.with_policy(ErrorPolicy::DEAD_LETTER);
        match verdict {
            Verdict::Contents(error) => Self { error: refused(error), scope: Scope::Contents },
            Verdict::Item(position, error) => {
                Self { error: refused(error), scope: Scope::Item(position) }
            }
            Verdict::Again(error) => {
                Self { error: error.with_policy(ErrorPolicy::RETRY), scope: Scope::Target }
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, scope: Scope::Peer }
    }
}

impl Posts {
    pub(crate) fn new(host: &Host, pool: Arc<Pool>, protocol: Arc<dyn Protocol>) -> Self {
        let divisions = host.limited_log(1, LOGGED_EVERY);
        Self { host: host.clone(), pool, protocol, has_accepted: AtomicBool::new(false), divisions }
    }

    /// Sends one request with `body` to `url`, which may be another URL than that of `target`. Returns the items that
    /// the peer did not accept, by their positions in `part`.
    async fn post(
        &self,
        url: &Url,
        target: &Target,
        body: Vec<u8>,
        part: &Part<'_, '_>,
    ) -> Result<Vec<(usize, Error)>, Failure> {
        let protocol = &*self.protocol;
        if let Some(time) = self.pool.paused_for() {
            let deferred = Error::deferred(format_args!(
                "cannot send to `{url}` yet: it asked for a delay in its last response"
            ));
            // The runtime truncates the delay to whole milliseconds, so add one.
            return Err(deferred.retry_after(time + Duration::from_millis(1)).into());
        }
        let (content_type, compression) =
            (protocol.content_type(&body), protocol.common().endpoint.compression);
        let body = compression.apply(&self.host, body).await?;
        let channel = protocol.channel();
        let with_channel = channel.as_ref().map(|it| it.added_to(&target.headers));
        let target_headers = with_channel.as_ref().unwrap_or(&target.headers);
        let head = || {
            let mut head = Request::builder().method(protocol.method());
            if let Some(headers) = head.headers_mut() {
                headers.extend(content_type.clone().map(|value| (CONTENT_TYPE, value)));
                headers.extend(compression.encoding().map(|value| (CONTENT_ENCODING, value)));
                headers.extend(target_headers.clone());
            }
            head
        };
        let most = protocol.response_bytes(part.items.len());
        let answer = self.pool.send(url, head, &body, most).await?;
        let secrets = &self.pool.secrets;
        let response = Response { host: &self.host, url, answer: &answer, secrets };
        if answer.status.is_success() {
            let rejected = protocol.rejected(&response, part);
            self.has_accepted.store(true, Ordering::Relaxed);
            let by_target = |error| Failure { error, scope: Scope::Target };
            let rejected = rejected.map_err(by_target)?;
            if let Some(question) = protocol.question(&response).map_err(by_target)? {
                let asked =
                    asking::ask((&self.host, &self.pool), protocol, &question, target_headers);
                asked.await.map_err(by_target)?;
            }
            return Ok(rejected);
        }
        if let Some(verdict) = protocol.verdict(&response, part) {
            return Err(verdict.into());
        }
        let is_retried =
            protocol.is_retried(answer.status, self.has_accepted.load(Ordering::Relaxed));
        let remedies = protocol.remedies();
        let refusal =
            |secrets| answer::refusal(&self.host, url, secrets, &answer, is_retried, &remedies);
        let error = match protocol.targets() {
            None => refusal(&self.pool.secrets),
            Some(_) => refusal(&self.pool.secrets.and_target(target)),
        };
        self.pool.pause(error.delay());
        let scope = if !is_retried && is_by_content(answer.status) {
            Scope::Contents
        } else if is_retried && (BY_PEER.contains(&answer.status) || !error.delay().is_zero()) {
            Scope::Peer
        } else {
            Scope::Target
        };
        Err(Failure { error, scope })
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
        let mut caches = Caches::default();
        for (position, event) in events.iter().enumerate() {
            let posted = match self.protocol.single(target, *event, &mut caches) {
                Ok(Some((url, body))) => self.post(url, target, body, &Part::default()).await,
                Ok(None) => continue,
                Err(error) => Err(error.into()),
            };
            match posted {
                Ok(_) => {}
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
        let (mut caches, mut refused) = (Caches::default(), 0);
        while !events.is_empty() {
            let (items, remaining) = self.protocol.items(target, events, &mut caches, exceptions);
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
        // The parts that are not sent yet, the next one at the end.
        let mut parts = vec![items.all()];
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let body = self.protocol.body(target, items, part);
            let sent = Part { items: part, texts: &items.texts };
            let url = self.protocol.url(target, &body)?;
            let posted = self.post(&url, target, body, &sent).await;
            let mut failure = match posted.map(|rejected| reject(part, rejected, exceptions)) {
                Ok(None) => continue,
                Ok(Some(error)) => {
                    let remaining = parts.into_iter().flatten().map(|item| item.event);
                    exceptions.reject_all(remaining, &error);
                    return Err(Failure { error, scope: Scope::Target });
                }
                Err(failure) => failure,
            };
            if let Scope::Item(position) = failure.scope
                && part.len() > 1
                && let Some(item) = part.get(position)
                && *refused + 1 < MOST_REFUSED
            {
                exceptions.reject(item.event, failure.error);
                *refused += 1;
                parts.extend([&part[position + 1..], &part[..position]]);
                continue;
            }
            let is_by_content = matches!(failure.scope, Scope::Contents | Scope::Item(_));
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
        if self.protocol.is_single() {
            self.post_each(target, events, exceptions).await
        } else {
            self.post_together(target, events, exceptions).await
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
                let target = match targets.target(&self.protocol.common().target, &rendered) {
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

/// Adds the items that the peer did not accept to `exceptions`, each as its position in `part` and its error. Returns the
/// first error because of which an item has to be sent again, if any.
fn reject(
    part: &[Item<'_>],
    rejected: Vec<(usize, Error)>,
    exceptions: &mut Exceptions,
) -> Option<Error> {
    let again = rejected.iter().find(|(_, error)| error.policy() == ErrorPolicy::RETRY);
    let again = again.map(|(_, error)| {
        error.clone().context("not sent yet, because items before it have to be sent again")
    });
    for (position, error) in rejected {
        if let Some(item) = part.get(position) {
            exceptions.reject(item.event, error);
        }
    }
    again
}

impl ParallelSink for Posts {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        Demand::new().at_most(self.protocol.common().endpoint.max_connections.get())
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let protocol = &*self.protocol;
        let mut exceptions = Exceptions::none();
        let events: Vec<_> = batch.iter().collect();
        let sent = match protocol.targets() {
            None => self.send(&protocol.common().target, &events, &mut exceptions).await,
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

/// Sink of a system whose events are JSON, unless the flow sets another codec.
#[derive(Debug)]
pub(crate) struct JsonPosts(Posts);

impl JsonPosts {
    pub(crate) fn new(host: &Host, pool: Arc<Pool>, protocol: Arc<dyn Protocol>) -> Self {
        Self(Posts::new(host, pool, protocol))
    }
}

impl ParallelSink for JsonPosts {
    type Batch = RawBatch;

    const DEFAULT_CODEC: Option<&'static str> = Some("json");

    fn demand(&self) -> Demand {
        ParallelSink::demand(&self.0)
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        ParallelSink::deliver(&self.0, batch).await
    }

    async fn on_tick(&self) -> Result<()> {
        ParallelSink::on_tick(&self.0).await
    }
}
