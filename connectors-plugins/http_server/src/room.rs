//! Where requests wait that have come and are not in the flow yet, and what becomes of them.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Acks, Batch, Exception, Result, Writer};

use crate::{
    config::Respond,
    content::{Content, Spare},
    peer::Peer,
};

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its event is in the flow.
    Accepted,
    /// Its events are delivered, or dead letters, or were discarded on purpose.
    Delivered,
    /// One of its events at least was not.
    Failed,
    /// It could not be decoded, or one of its events could not, and this is why. Its others are delivered.
    Undecodable(Arc<str>),
}

/// Why a request does not go into the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The connector is paused.
    Paused,
    /// The flow ends, or the connector starts again.
    Draining,
}

/// A request that waits: what its connection hears through.
#[derive(Default)]
pub(crate) struct Ticket(Mutex<Fate>);

#[derive(Default)]
struct Fate {
    outcome: Option<Outcome>,
    waiting: Option<Waker>,
}

impl Ticket {
    fn settle(&self, outcome: Outcome) {
        let waiting = {
            let fate = &mut *lock(&self.0);
            fate.outcome.get_or_insert(outcome);
            fate.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether that is known.
    pub(crate) fn is_settled(&self) -> bool {
        lock(&self.0).outcome.is_some()
    }

    /// What has become of it.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Outcome> {
        let fate = &mut *lock(&self.0);
        if let Some(outcome) = &fate.outcome {
            return Poll::Ready(outcome.clone());
        }
        fate.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}

/// What is known of a request besides its body, for the metadata of its events.
pub(crate) type Facts = Box<dyn Fn(&mut Writer<'_>) + Send>;

/// A request that goes into the flow.
pub(crate) struct Entry {
    pub(crate) peer: Arc<Peer>,
    pub(crate) body: Content,
    pub(crate) facts: Option<Facts>,
}

struct Waiting {
    ticket: Arc<Ticket>,
    entry: Entry,
    /// How much room it has, in bytes.
    room: usize,
}

/// The requests that wait for the next pull, and those of which the source is to hear.
pub(crate) struct Room {
    respond: Respond,
    /// How much there is, in bytes.
    most: usize,
    state: Mutex<State>,
    pub(crate) spare: Spare,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// How much is taken, of requests that wait and of those that still come.
    taken: usize,
    closed: Option<Closed>,
    is_sink_down: bool,
    /// The source.
    puller: Option<Waker>,
    /// Requests that wait for room.
    others: Vec<Waker>,
    /// By pull: the position of each event, and its request.
    under_way: HashMap<u64, Vec<(usize, Arc<Ticket>)>>,
}

impl Room {
    pub(crate) fn new(respond: Respond, most: usize) -> Self {
        Self { respond, most, state: Mutex::default(), spare: Spare::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether requests go into the flow, and why not.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.state().closed
    }

    /// Says whether requests go into the flow. Those that wait hear of it as soon as they are polled.
    pub(crate) fn set_closed(&self, closed: Option<Closed>) {
        self.state().closed = closed;
    }

    /// Says whether a sink is down, and the source is not pulled.
    pub(crate) fn set_sink_down(&self, is_down: bool) {
        self.state().is_sink_down = is_down;
    }

    pub(crate) fn is_sink_down(&self) -> bool {
        self.state().is_sink_down
    }

    /// Takes so much room, if there is any.
    pub(crate) fn poll_take_room(&self, context: &Context<'_>, bytes: usize) -> Poll<()> {
        let state = &mut *self.state();
        if bytes > self.most.saturating_sub(state.taken) {
            state.others.push(context.waker().clone());
            return Poll::Pending;
        }
        state.taken += bytes;
        Poll::Ready(())
    }

    /// Gives room back.
    pub(crate) fn give_room(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let others = {
            let state = &mut *self.state();
            state.taken = state.taken.saturating_sub(bytes);
            std::mem::take(&mut state.others)
        };
        others.into_iter().for_each(Waker::wake);
    }

    /// A request waits for its pull, with the room that it has taken.
    pub(crate) fn enter(&self, entry: Entry, room: usize) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::default());
        let puller = {
            let state = &mut *self.state();
            state.waiting.push_back(Waiting { ticket: ticket.clone(), entry, room });
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
        ticket
    }

    /// Takes a request back that nobody waits for any more. False: it is in the flow.
    pub(crate) fn leave(&self, ticket: &Arc<Ticket>) -> bool {
        let left = {
            let state = &mut *self.state();
            let place = state.waiting.iter().position(|it| Arc::ptr_eq(&it.ticket, ticket));
            place.and_then(|place| state.waiting.remove(place))
        };
        // Its body is freed without the lock.
        left.is_some_and(|left| {
            self.give_room(left.room);
            true
        })
    }

    /// Fills a batch with the requests that wait.
    pub(crate) fn poll_pull(&self, context: &Context<'_>, batch: &mut Batch) -> Poll<Result<()>> {
        let mut taken = Vec::new();
        {
            let state = &mut *self.state();
            let limit = batch.limit();
            let (mut events, mut bytes) = (batch.len(), batch.bytes().len());
            while events < limit.events as usize
                && bytes < limit.bytes as usize
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
            if self.respond == Respond::Delivered {
                let first = batch.len();
                let places =
                    taken.iter().zip(first..).map(|(it, place)| (place, it.ticket.clone()));
                // Before the runtime can say what becomes of them.
                state.under_way.entry(batch.pull()).or_default().extend(places);
            }
        }
        let room = taken.iter().map(|it| it.room).sum();
        let mut filled = Ok(());
        for Waiting { ticket, entry, .. } in taken {
            filled = filled.and(entry.put(batch, &self.spare));
            if self.respond == Respond::Accepted {
                ticket.settle(Outcome::Accepted);
            }
        }
        self.give_room(room);
        Poll::Ready(filled)
    }

    /// What was wrong with requests of a pull. How it ends follows, and changes nothing of that.
    fn undecodable(&self, pull: u64, messages: &[Exception]) {
        // Whoever waits is woken without the lock.
        let requests = self.state().under_way.get(&pull).cloned().unwrap_or_default();
        for (position, ticket) in requests {
            if let Some(it) = messages.iter().find(|it| it.events.contains(&position)) {
                ticket.settle(Outcome::Undecodable(it.error.to_string().into()));
            }
        }
    }

    fn ended(&self, pull: u64, failed: &[Range<usize>]) {
        let requests = self.state().under_way.remove(&pull).unwrap_or_default();
        for (position, ticket) in requests {
            let has_failed = failed.iter().any(|range| range.contains(&position));
            ticket.settle(if has_failed { Outcome::Failed } else { Outcome::Delivered });
        }
    }
}

impl Entry {
    /// The body is one message: whatever preprocessors cut from it is of this request alone.
    fn put(self, batch: &mut Batch, spare: &Spare) -> Result<()> {
        let Self { peer, body, facts } = self;
        let position = batch.len();
        batch.stream(peer.stream).push_message(&body);
        spare.put(body);
        batch.set_origin_from(position, &peer.name);
        match (facts, batch.last_mut()) {
            (Some(facts), Some(mut event)) => event.write_metadata(facts),
            _ => Ok(()),
        }
    }
}

/// What hears how the pulls of the source end.
pub(crate) struct Ends(pub(crate) Arc<Room>);

impl Acks for Ends {
    /// The peer does, if it wants to.
    fn brings_again(&self) -> bool {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
