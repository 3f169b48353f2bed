//! Where requests wait that have come and are not in the flow yet, and what becomes of them.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Acks, Exception, Memory, RawBatch, Result};

use crate::{
    config::Respond,
    content::{Content, Spare},
    facts::Facts,
    fate::Outcome,
    peer::Peer,
    ticket::Ticket,
};

/// Why a request does not go into the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Closed {
    /// The connector is paused.
    Paused = 1,
    /// The flow ends, or the connector starts again.
    Draining = 2,
}

impl Closed {
    /// As a number: zero where none is.
    fn number(closed: Option<Self>) -> u8 {
        closed.map_or(0, |it| it as u8)
    }
}

/// A request that goes into the flow.
pub(crate) struct Entry {
    pub(crate) body: Content,
    pub(crate) facts: Option<Facts>,
}

struct Waiting {
    ticket: Ticket,
    entry: Entry,
    /// How much room it has, in bytes.
    room: usize,
}

/// The requests that wait for the next pull, and those of which the source is to hear.
pub(crate) struct Room {
    respond: Respond,
    /// How much there is, in bytes.
    most: usize,
    /// The number of a [`Closed`], which each poll of a connection asks for.
    closed: AtomicU8,
    is_sink_down: AtomicBool,
    /// Whether the last pull was given up, as at the start of a drain: nothing is taken into the flow before the next.
    is_given_up: AtomicBool,
    state: Mutex<State>,
    pub(crate) spare: Spare,
}

/// The flow may take no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

struct State {
    /// Counts `taken` in the memory of the flow.
    memory: Memory,
    waiting: VecDeque<Waiting>,
    /// How much is taken, of requests that wait and of those that still come.
    taken: usize,
    /// The source.
    puller: Option<Waker>,
    /// Requests that wait for room.
    others: Vec<Waker>,
    /// By pull: the position of each event, and its request.
    under_way: HashMap<u64, Vec<(usize, Ticket)>>,
}

impl Room {
    pub(crate) fn new(respond: Respond, most: usize, memory: Memory) -> Self {
        let state = State {
            memory,
            waiting: VecDeque::new(),
            taken: 0,
            puller: None,
            others: Vec::new(),
            under_way: HashMap::new(),
        };
        Self {
            respond,
            most,
            closed: AtomicU8::new(0),
            is_sink_down: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            state: Mutex::new(state),
            spare: Spare::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests go into the flow, and why not.
    pub(crate) fn closed(&self) -> Option<Closed> {
        let found = self.closed.load(Ordering::Acquire);
        [Closed::Paused, Closed::Draining].into_iter().find(|it| *it as u8 == found)
    }

    /// Says whether requests go into the flow. Those that wait hear of it as soon as they are polled.
    pub(crate) fn set_closed(&self, closed: Option<Closed>) {
        self.closed.store(Closed::number(closed), Ordering::Release);
    }

    /// Says whether a sink is down, and the source is not pulled.
    pub(crate) fn set_sink_down(&self, is_down: bool) {
        self.is_sink_down.store(is_down, Ordering::Release);
    }

    pub(crate) fn set_given_up(&self, is_given_up: bool) {
        self.is_given_up.store(is_given_up, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    pub(crate) fn is_sink_down(&self) -> bool {
        self.is_sink_down.load(Ordering::Acquire)
    }

    /// Takes `bytes` if they are available. A request that has `own` bytes already, and is the only one that has any,
    /// is never refused: its own limits bound it, and otherwise it would wait for itself.
    ///
    /// # Errors
    /// The flow may take no more memory.
    pub(crate) fn poll_take_room(
        &self,
        context: &Context<'_>,
        bytes: usize,
        own: usize,
    ) -> Poll<Result<(), NoMemory>> {
        let state = &mut *self.state();
        if bytes > self.most.saturating_sub(state.taken) && state.taken > own {
            state.others.push(context.waker().clone());
            return Poll::Pending;
        }
        if !state.memory.try_grow(bytes) {
            return Poll::Ready(Err(NoMemory));
        }
        state.taken += bytes;
        Poll::Ready(Ok(()))
    }

    /// Gives room back.
    pub(crate) fn give_room(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let others = {
            let state = &mut *self.state();
            state.taken = state.taken.saturating_sub(bytes);
            state.memory.shrink(bytes);
            std::mem::take(&mut state.others)
        };
        others.into_iter().for_each(Waker::wake);
    }

    /// A request waits for its pull, with the room that it has taken.
    pub(crate) fn enter(&self, peer: &Arc<Peer>, entry: Entry, room: usize) -> Ticket {
        let ticket = Ticket::new(peer.clone());
        let puller = {
            let state = &mut *self.state();
            state.waiting.push_back(Waiting { ticket: ticket.clone(), entry, room });
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
        ticket
    }

    /// Takes a request back that nobody waits for any more. False: it is in the flow.
    pub(crate) fn leave(&self, ticket: &Ticket) -> bool {
        let left = {
            let state = &mut *self.state();
            let place = state.waiting.iter().position(|it| it.ticket.is(ticket));
            place.and_then(|place| state.waiting.remove(place))
        };
        // Its body is freed without the lock.
        left.is_some_and(|left| {
            self.give_room(left.room);
            true
        })
    }

    /// Fills a batch with the requests that wait.
    pub(crate) fn poll_pull(
        &self,
        context: &Context<'_>,
        batch: &mut RawBatch,
    ) -> Poll<Result<()>> {
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
            filled = filled.and(entry.put(&ticket.peer, batch, &self.spare));
            if self.respond == Respond::Accepted {
                ticket.settle(Outcome::Accepted);
            }
        }
        self.give_room(room);
        Poll::Ready(filled)
    }

    /// What was wrong with requests of a pull. How it ends follows, and changes nothing of that.
    fn undecodable(&self, pull: u64, messages: &[Exception]) {
        let mut named = Vec::new();
        if let Some(requests) = self.state().under_way.get(&pull) {
            for it in messages {
                let of = within(requests, &it.events);
                named.extend(of.iter().map(|(_, ticket)| (ticket.clone(), &it.error)));
            }
        }
        // A connection that waits is woken without the lock.
        for (ticket, error) in named {
            ticket.settle(Outcome::Undecodable(error.to_string().into()));
        }
    }

    fn ended(&self, pull: u64, failed: &[Range<usize>]) {
        let requests = self.state().under_way.remove(&pull).unwrap_or_default();
        for (_, ticket) in failed.iter().flat_map(|range| within(&requests, range)) {
            ticket.settle(Outcome::Failed);
        }
        // What has failed stays so.
        for (_, ticket) in requests {
            ticket.settle(Outcome::Delivered);
        }
    }
}

/// The requests of a pull, which are in order, whose events have these positions.
fn within<'r>(requests: &'r [(usize, Ticket)], events: &Range<usize>) -> &'r [(usize, Ticket)] {
    let start = requests.partition_point(|(position, _)| *position < events.start);
    let length = requests[start..].partition_point(|(position, _)| *position < events.end);
    &requests[start..start + length]
}

impl Entry {
    /// The body is one message: whatever preprocessors cut from it is of this request alone.
    fn put(self, peer: &Peer, batch: &mut RawBatch, spare: &Spare) -> Result<()> {
        let Self { body, facts } = self;
        let position = batch.len();
        batch.stream(peer.stream).push_message(&body);
        spare.put(body);
        batch.set_origin_from(position, &peer.name);
        match (facts, batch.last_mut()) {
            (Some(facts), Some(mut event)) => event.write_metadata(|writer| facts.write(writer)),
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
