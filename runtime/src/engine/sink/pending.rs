//! A delivery that a sink is to make: a batch that came, or several that are delivered as one.

use std::{
    ops::{AddAssign, SubAssign},
    time::Instant,
};

use tremor_pdk::{Batch, abi::batch::HostBatch};

use crate::engine::{account::token::InFlight, life::backoff::Attempts};

/// A delivery that is to be made.
pub(crate) struct Pending {
    /// Its place in the order in which batches came.
    pub(super) place: u64,
    /// What it waits in.
    pub(super) lane: usize,
    /// There is at least one, and mostly there is no other.
    first: Part,
    more: Vec<Part>,
    /// Of all parts.
    extent: Extent,
    /// Since when it waits for others to be delivered with, where it does.
    pub(super) since: Option<Instant>,
    /// Deliveries of it that have failed, in a row.
    pub(crate) attempts: Option<Box<Attempts>>,
    /// Before then it is not delivered again.
    pub(crate) due: Option<Instant>,
    /// When its delivery began, where that is to be known.
    pub(crate) begun: Option<Instant>,
}

/// A batch, or what is left of one.
pub(crate) struct Part {
    pub(crate) item: InFlight,
    /// What the sink gets of it, event by event; none where it is yet to be encoded.
    pub(crate) outgoing: Option<Batch>,
}

/// How much there is. Where batches are not put together, nobody asks for more than events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) events: usize,
    /// Of what the sink gets: messages, or the nodes and texts of values.
    pub(super) bytes: usize,
    /// How much memory it takes, in bytes.
    pub(super) weight: usize,
}

impl From<InFlight> for Part {
    fn from(item: InFlight) -> Self {
        Self { item, outgoing: None }
    }
}

impl Pending {
    pub(super) fn new(place: u64, lane: usize, first: Part) -> Self {
        let extent = Extent { events: first.events(), ..Extent::default() };
        let (more, since, attempts, due, begun) = (Vec::new(), None, None, None, None);
        Self { place, lane, first, more, extent, since, attempts, due, begun }
    }

    /// The same where it waits for others: since when, and what the batch of so many events weighs that it
    /// is a part of.
    pub(super) fn joining(mut self, since: Option<(Instant, usize)>, of: usize) -> Self {
        if let Some((since, weight)) = since {
            self.extent.bytes = self.first.sizes().sum();
            self.extent.weight = weight * self.extent.events / of.max(1);
            self.since = Some(since);
        }
        self
    }

    /// How many events there are to account for.
    pub(crate) fn events(&self) -> usize {
        self.extent.events
    }

    pub(super) fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether there are several parts.
    pub(crate) fn is_joined(&self) -> bool {
        !self.more.is_empty()
    }

    /// Its parts, to be encoded. Events that cannot be encoded have left them then.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    /// Its parts may have fewer events than before.
    pub(crate) fn recount(&mut self) {
        self.extent.events = self.parts_mut().map(|part| part.events()).sum();
    }

    pub(crate) fn into_parts(self) -> impl Iterator<Item = Part> {
        std::iter::once(self.first).chain(self.more)
    }

    /// Its place in the order in which batches came, and what it waits in.
    pub(crate) fn place(&self) -> (u64, usize) {
        (self.place, self.lane)
    }

    /// The delivery that had this place, with what is left of its parts; none where nothing is.
    pub(crate) fn of((place, lane): (u64, usize), parts: Vec<Part>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let mut rest = Self::new(place, lane, parts.next()?);
        rest.more = parts.collect();
        rest.recount();
        Some(rest)
    }

    /// All of it is done with.
    pub(crate) fn settle(self) {
        self.into_parts().for_each(|part| part.item.token.settle());
    }

    /// Puts another after it.
    pub(super) fn join(&mut self, other: Self) {
        self.extent += other.extent;
        self.more.extend(other.into_parts());
    }

    /// Cuts it after so many events. It waits for others, and has one part.
    pub(super) fn split_off(&mut self, events: usize) -> Self {
        let (all, whole) = (self.extent.events, self.extent);
        let first = self.first.split_off(events);
        let since = self.since.map(|since| (since, whole.weight));
        let rest = Self::new(self.place, self.lane, first).joining(since, all);
        self.extent -= rest.extent;
        rest
    }

    /// How many of its first events are so few, and so few bytes.
    pub(super) fn fitting(&self, events: usize, bytes: usize) -> usize {
        let mut sum = 0;
        let fits = |size: &usize| {
            sum += size;
            sum <= bytes
        };
        self.first.sizes().take(events).take_while(fits).count()
    }
}

impl Extent {
    pub(super) fn fits(self, events: usize, bytes: usize) -> bool {
        self.events <= events && self.bytes <= bytes
    }
}

impl AddAssign for Extent {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
        self.weight += other.weight;
    }
}

impl SubAssign for Extent {
    fn sub_assign(&mut self, other: Self) {
        self.events -= other.events;
        self.bytes -= other.bytes;
        self.weight -= other.weight;
    }
}

impl Part {
    pub(crate) fn events(&self) -> usize {
        self.item.batch.len()
    }

    /// How much memory it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.item.batch.weight() + self.outgoing.as_ref().map_or(0, HostBatch::weight)
    }

    /// How large what the sink gets is, in bytes, event by event.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let batch = self.outgoing.as_ref().unwrap_or(&self.item.batch);
        batch.events().iter().map(|event| batch.size_of(event))
    }

    /// Cuts it after so many events. Its pull ends when both are done with.
    fn split_off(&mut self, events: usize) -> Self {
        let all = self.events();
        let rest = self.of(|batch| batch.part(events..all));
        let first = self.of(|batch| batch.part(0..events));
        std::mem::replace(self, first).item.token.settle();
        rest
    }

    /// Those of its events that are at these positions.
    pub(super) fn pick(&self, positions: &[usize]) -> Self {
        self.of(|batch| batch.pick(positions))
    }

    fn of(&self, some: impl Fn(&Batch) -> Batch) -> Self {
        let InFlight { batch, token, is_letter } = &self.item;
        let item = InFlight { batch: some(batch), token: token.clone(), is_letter: *is_letter };
        Self { item, outgoing: self.outgoing.as_ref().map(some) }
    }
}
