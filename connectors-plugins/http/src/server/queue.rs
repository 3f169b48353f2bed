//! Queue of the requests that were received and are not in the flow yet, and the requests in the
//! flow whose results are awaited.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker},
};

use hyper::header::HeaderName;
use tremor_pdk::{
    Acks, Error, Exception, Form, Memory, Origin, Raw, RawBatch, Result, Structured,
    StructuredBatch, TypedBatch, lock,
};

use super::{
    config::{Respond, Settings},
    content::{Content, Spare},
    metadata::RequestMetadata,
    peer::Peer,
    protocol::Events,
    request_state::Outcome,
    ticket::Ticket,
};

/// Reason why the flow accepts no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Closed {
    /// The connector is paused.
    Paused = 1,
    /// The flow ends, or the connector restarts.
    Draining = 2,
}

impl Closed {
    /// Returns the number that stands for the reason; 0 for `None`.
    fn number(closed: Option<Self>) -> u8 {
        closed.map_or(0, |it| it as u8)
    }
}

/// A request that enters the flow.
pub(crate) struct Entry {
    pub(crate) body: Body,
    pub(crate) metadata: RequestMetadata,
}

/// The contents of a request.
pub(crate) enum Body {
    /// The request is one event: a message.
    Message(Content),
    /// The request has several events.
    Events(Box<dyn Events>),
}

impl Body {
    /// Returns the length of a message in bytes. The length of several events is not known.
    fn len(&self) -> usize {
        match self {
            Self::Message(message) => message.len(),
            Self::Events(_) => 0,
        }
    }
}

/// A request in the queue.
pub(crate) struct Waiting {
    ticket: Ticket,
    entry: Entry,
    /// Bytes that the request has reserved in the queue.
    reserved: usize,
    /// `true` if a pull has a part of the request.
    is_partly_taken: bool,
}

/// Requests that wait for the next pull, and requests in the flow whose results are reported to
/// their peers.
pub(crate) struct RequestQueue {
    respond: Respond,
    /// Headers of requests that become metadata.
    headers: Vec<HeaderName>,
    /// Maximum number of bytes that all requests together may reserve.
    most: usize,
    /// [`Closed`] as a number, or 0. Atomic, because each poll of a connection reads this field.
    closed: AtomicU8,
    is_sink_down: AtomicBool,
    /// `true` if the last pull was cancelled, for example because the flow drains. Then no request
    /// enters the flow before the next pull.
    is_pull_cancelled: AtomicBool,
    state: Mutex<State>,
    pub(crate) spare: Spare,
}

/// The flow has reached its memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

struct State {
    /// Adds the bytes of `taken` to the memory of the flow.
    memory: Memory,
    waiting: VecDeque<Waiting>,
    /// Bytes reserved by requests that wait or are being received.
    taken: usize,
    /// Waker of the source, which waits for requests.
    puller: Option<Waker>,
    /// Wakers of requests that wait for capacity.
    capacity_wakers: Vec<Waker>,
    /// The requests in the flow by pull, each with the position of its event.
    in_flight: HashMap<u64, Vec<(usize, Ticket)>>,
}

impl RequestQueue {
    pub(crate) fn new(settings: &Settings, memory: Memory) -> Self {
        let state = State {
            memory,
            waiting: VecDeque::new(),
            taken: 0,
            puller: None,
            capacity_wakers: Vec::new(),
            in_flight: HashMap::new(),
        };
        Self {
            respond: settings.config.respond,
            headers: settings.headers.clone(),
            most: settings.max_waiting_bytes,
            closed: AtomicU8::new(0),
            is_sink_down: AtomicBool::new(false),
            is_pull_cancelled: AtomicBool::new(false),
            state: Mutex::new(state),
            spare: Spare::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns why the flow accepts no requests, or `None` if it does.
    pub(crate) fn closed(&self) -> Option<Closed> {
        let found = self.closed.load(Ordering::Acquire);
        [Closed::Paused, Closed::Draining].into_iter().find(|it| *it as u8 == found)
    }

    /// Opens or closes the flow for requests. Waiting requests see the change when they are polled
    /// next.
    pub(crate) fn set_closed(&self, closed: Option<Closed>) {
        self.closed.store(Closed::number(closed), Ordering::Release);
    }

    /// Records whether a sink is down, in which case the source is not pulled.
    pub(crate) fn set_sink_down(&self, is_down: bool) {
        self.is_sink_down.store(is_down, Ordering::Release);
    }

    pub(crate) fn set_pull_cancelled(&self, is_pull_cancelled: bool) {
        self.is_pull_cancelled.store(is_pull_cancelled, Ordering::Release);
    }

    pub(crate) fn is_pull_cancelled(&self) -> bool {
        self.is_pull_cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn is_sink_down(&self) -> bool {
        self.is_sink_down.load(Ordering::Acquire)
    }

    /// Reserves `bytes` if they are available. `own` is the number of bytes that the request has
    /// reserved before. If no other request has reserved bytes, the request may exceed the limit,
    /// because otherwise it would wait for itself. `max_body_bytes` limits such a request.
    ///
    /// # Errors
    /// The flow has reached its memory limit.
    pub(crate) fn poll_reserve(
        &self,
        context: &Context<'_>,
        bytes: usize,
        own: usize,
    ) -> Poll<Result<(), NoMemory>> {
        let state = &mut *self.state();
        if bytes > self.most.saturating_sub(state.taken) && state.taken > own {
            state.capacity_wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        if !state.memory.try_grow(bytes) {
            return Poll::Ready(Err(NoMemory));
        }
        state.taken += bytes;
        Poll::Ready(Ok(()))
    }

    /// Releases reserved bytes.
    pub(crate) fn release(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let capacity_wakers = {
            let state = &mut *self.state();
            state.taken = state.taken.saturating_sub(bytes);
            state.memory.shrink(bytes);
            std::mem::take(&mut state.capacity_wakers)
        };
        capacity_wakers.into_iter().for_each(Waker::wake);
    }

    /// Adds a request to the queue. `reserved` is the number of bytes that the request has
    /// reserved.
    pub(crate) fn enter(&self, peer: &Arc<Peer>, entry: Entry, reserved: usize) -> Ticket {
        let ticket = Ticket::new(peer.clone());
        let puller = {
            let state = &mut *self.state();
            let is_partly_taken = false;
            state.waiting.push_back(Waiting {
                ticket: ticket.clone(),
                entry,
                reserved,
                is_partly_taken,
            });
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
        ticket
    }

    /// Removes a request from the queue, because nobody waits for its result any longer. Returns
    /// `false` if the request is in the flow already.
    pub(crate) fn leave(&self, ticket: &Ticket) -> bool {
        let left = {
            let state = &mut *self.state();
            let position = state.waiting.iter().position(|it| it.ticket.is(ticket));
            position.and_then(|position| state.waiting.remove(position))
        };
        // The body is freed after the lock was released.
        left.is_some_and(|left| {
            self.release(left.reserved);
            true
        })
    }

    /// Fills a batch with the requests that wait. The events of a request that do not fit remain in the queue.
    pub(crate) fn poll_pull<F: Put>(
        &self,
        context: &Context<'_>,
        batch: &mut TypedBatch<F>,
    ) -> Poll<Result<()>> {
        let mut taken = Vec::new();
        {
            let state = &mut *self.state();
            let limit = batch.limit();
            let (mut events, mut bytes) = (batch.len(), batch.bytes().len());
            while events < limit.events
                && bytes < limit.bytes
                && let Some(waiting) = state.waiting.pop_front()
            {
                events += 1;
                bytes += waiting.entry.body.len();
                taken.push(waiting);
            }
            if taken.is_empty() {
                state.puller = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        let (mut reserved, mut filled) = (0, Ok(()));
        let (mut requests, mut left) = (Vec::new(), VecDeque::new());
        for mut waiting in taken {
            // Nobody waits for the remainder of a request of which a part has failed.
            if waiting.is_partly_taken && waiting.ticket.outcome().is_some() {
                reserved += waiting.reserved;
                continue;
            }
            if !left.is_empty() {
                left.push_back(waiting);
                continue;
            }
            let position = batch.len();
            let is_complete = match F::put(batch, &mut waiting, self) {
                Ok(is_complete) => is_complete,
                Err(error) => {
                    waiting.ticket.set_outcome(Outcome::Failed);
                    filled = filled.and(Err(error));
                    true
                }
            };
            if self.respond == Respond::Delivered && batch.len() > position {
                requests.push((position, waiting.ticket.clone()));
            }
            if is_complete {
                reserved += waiting.reserved;
                if self.respond == Respond::Accepted {
                    waiting.ticket.set_outcome(Outcome::Accepted);
                }
            } else {
                if batch.len() > position {
                    waiting.ticket.add_part();
                    waiting.is_partly_taken = true;
                }
                left.push_back(waiting);
            }
        }
        if !left.is_empty() || !requests.is_empty() {
            let state = &mut *self.state();
            for waiting in left.into_iter().rev() {
                state.waiting.push_front(waiting);
            }
            // The runtime reports the results of the pull only after this call.
            if !requests.is_empty() {
                state.in_flight.entry(batch.pull()).or_default().extend(requests);
            }
        }
        self.release(reserved);
        if batch.is_empty() && filled.is_ok() {
            // Nobody waits for these requests, which were remainders. The next poll looks for others.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(filled)
    }

    /// Sets the result of requests of a pull that could not be decoded. The end of the pull, which
    /// follows, does not change this result.
    fn undecodable(&self, pull: u64, messages: &[Exception]) {
        let mut named = Vec::new();
        if let Some(requests) = self.state().in_flight.get(&pull) {
            for it in messages {
                let of = within(requests, &it.events);
                named.extend(of.iter().map(|(_, ticket)| (ticket.clone(), &it.error)));
            }
        }
        // Connections are woken after the lock was released.
        for (ticket, error) in named {
            ticket.set_outcome(Outcome::Undecodable(error.to_string().into()));
        }
    }

    fn ended(&self, pull: u64, failed: &[Range<usize>]) {
        let requests = self.state().in_flight.remove(&pull).unwrap_or_default();
        for (_, ticket) in failed.iter().flat_map(|range| within(&requests, range)) {
            ticket.set_outcome(Outcome::Failed);
        }
        // A result that was set before stays unchanged.
        for (_, ticket) in requests {
            ticket.end_part();
        }
    }
}

/// Returns the requests of a pull of which an event has one of these positions. `requests` have the
/// positions of their first events, and are sorted by them. A request ends where the next one begins.
fn within<'r>(requests: &'r [(usize, Ticket)], events: &Range<usize>) -> &'r [(usize, Ticket)] {
    let begun = requests.partition_point(|(position, _)| *position <= events.start);
    let start = begun.saturating_sub(1);
    let length = requests[start..].partition_point(|(position, _)| *position < events.end);
    &requests[start..start + length]
}

/// A form of the events of requests.
pub(crate) trait Put: Form {
    /// Adds the events of a request to the batch. Returns `false` if the batch is full before the last event.
    ///
    /// # Errors
    /// The batch cannot store the events.
    fn put(
        batch: &mut TypedBatch<Self>,
        waiting: &mut Waiting,
        queue: &RequestQueue,
    ) -> Result<bool>;
}

impl Put for Raw {
    /// Adds the body to the batch as one message of the connection's stream.
    fn put(batch: &mut RawBatch, waiting: &mut Waiting, queue: &RequestQueue) -> Result<bool> {
        let Waiting { ticket: Ticket { peer, .. }, entry: Entry { body, metadata }, .. } = waiting;
        let Body::Message(message) = body else { return Err(mismatch()) };
        let position = batch.len();
        batch.stream(peer.stream).push_message(message);
        queue.spare.put(std::mem::take(message));
        batch.set_origin_from(position, peer.origin().text());
        if let Some(mut event) = batch.last_mut() {
            let headers = &queue.headers;
            event.write_metadata(|writer| metadata.write(writer, peer.origin(), headers))?;
        }
        Ok(true)
    }
}

impl Put for Structured {
    /// Adds the events of the request to the stream of its connection, all with the same metadata.
    fn put(
        batch: &mut StructuredBatch,
        waiting: &mut Waiting,
        queue: &RequestQueue,
    ) -> Result<bool> {
        let Waiting { ticket: Ticket { peer, .. }, entry: Entry { body, metadata }, .. } = waiting;
        let Body::Events(events) = body else { return Err(mismatch()) };
        let position = batch.len();
        let is_complete = events.put(batch, peer.stream)?;
        let origin = Origin::new(peer.origin().text(), |writer| {
            metadata.write(writer, peer.origin(), &queue.headers);
        });
        batch.apply_origin(position, &origin);
        Ok(is_complete)
    }
}

#[cold]
fn mismatch() -> Error {
    Error::internal("the contents of a request do not have the form of the batch")
}

/// Receives the results of the pulls of the source.
pub(crate) struct PullAcks(pub(crate) Arc<RequestQueue>);

impl Acks for PullAcks {
    /// Returns `false`: the source cannot redeliver events, but the peer may send its request
    /// again.
    fn replays_failed(&self) -> bool {
        false
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.0.ended(pull, &[]);
        Ok(())
    }

    fn undecodable(&mut self, pull: u64, messages: &[Exception]) -> Result<()> {
        self.0.undecodable(pull, messages);
        Ok(())
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        self.0.ended(pull, events);
        Ok(())
    }
}
