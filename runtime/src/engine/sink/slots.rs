//! The slots of a sink, each with one delivery in flight.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use tremor_pdk::{Exception, Result, lock};

use crate::{dynamic::DynSink, engine::sink::pending::Pending};

/// The slots of the sink of one connection.
pub(crate) struct Slots {
    /// The deliveries in flight by slot. `None` if the slot is free.
    all: Vec<Option<Pending>>,
    /// Indexes of free slots.
    free: Vec<usize>,
    /// Slots whose delivery was not polled yet, in order. They are polled before other slots, so that a new delivery
    /// does not wait while several answers are processed.
    begins: VecDeque<usize>,
    /// Wakers of the slots. `None` if there is only one slot, because that one is polled at every poll of the task.
    wakers: Option<Wakers>,
}

/// The wakers of several slots.
struct Wakers {
    woken: Arc<Woken>,
    slots: Vec<(Arc<SlotWaker>, Waker)>,
}

/// The slots that were woken and not polled since, and the waker of the task that polls them.
type Woken = Mutex<(VecDeque<usize>, Option<Waker>)>;

/// A waker that wakes the sink's task for one slot.
struct SlotWaker {
    slot: usize,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let wakers = (count > 1).then(|| Wakers::new(count));
        Self {
            all: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            begins: VecDeque::new(),
            wakers,
        }
    }

    /// Returns the number of slots, free ones included.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns whether no delivery is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.all.len()
    }

    /// Returns the deliveries in flight.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Pending> + Clone {
        self.all.iter().flatten()
    }

    /// Returns mutable references to the deliveries in flight.
    pub(crate) fn pending_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.all.iter_mut().flatten()
    }

    /// Puts a delivery that has [begun](Pending::begin) into a free slot. The sink gets the delivery with the next
    /// poll. Call this only if a slot is [free](Slots::has_free).
    #[inline]
    pub(crate) fn put(&mut self, pending: Pending) {
        let Some(slot) = self.free.pop() else { unreachable!("there is a free slot") };
        self.all[slot] = Some(pending);
        if self.wakers.is_some() {
            self.begins.push_back(slot);
        }
    }

    /// Completes with a slot and the sink's answer to the delivery in this slot. The delivery stays in the slot until
    /// [`Slots::settle`] or [`Slots::take`] is called.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut dyn DynSink,
    ) -> Poll<(usize, Result<Vec<Exception>>)> {
        let Some(wakers) = &self.wakers else { return self.poll_slot(0, context, sink) };
        let woken = wakers.woken.clone();
        let count = {
            let (slots, task) = &mut *lock(&woken);
            *task = Some(context.waker().clone());
            slots.len()
        };
        // The number of polls is bounded. A slot that wakes itself again and again waits for the next poll of the task.
        for _ in 0..self.begins.len() + count {
            let Some(wakers) = &self.wakers else { break };
            let begins = self.begins.pop_front();
            let Some(slot) = begins.or_else(|| lock(&woken).0.pop_front()) else { break };
            let (own, waker) = wakers.slots[slot].clone();
            // Reset before the poll, so that a wake-up during the poll is not lost.
            own.is_woken.store(false, Ordering::Release);
            let answer = self.poll_slot(slot, &mut Context::from_waker(&waker), sink);
            if answer.is_ready() {
                return answer;
            }
        }
        Poll::Pending
    }

    fn poll_slot(
        &mut self,
        slot: usize,
        context: &mut Context<'_>,
        sink: &mut dyn DynSink,
    ) -> Poll<(usize, Result<Vec<Exception>>)> {
        let pending = self.all[slot].as_mut();
        let Some(encoded) = pending.and_then(Pending::in_flight_mut) else { return Poll::Pending };
        sink.poll_deliver(context, slot, encoded).map(|result| (slot, result))
    }

    /// Marks the delivery in `slot` as answered. Returns the start of the delivery, if that was recorded.
    pub(crate) fn end(&mut self, slot: usize) -> Option<Instant> {
        self.all[slot].as_mut().and_then(Pending::end)
    }

    /// Returns the number of events of the delivery in `slot`, and the number of dead letters among them.
    pub(crate) fn counts(&self, slot: usize) -> (usize, usize) {
        self.all[slot].as_ref().map_or((0, 0), |pending| (pending.events(), pending.letters()))
    }

    /// Settles a delivery that the peer accepted completely, and frees the slot.
    pub(crate) fn settle(&mut self, slot: usize) {
        let Some(pending) = &mut self.all[slot] else { return };
        pending.set_settled();
        self.all[slot] = None;
        self.free.push(slot);
    }

    /// Removes the delivery in `slot` and frees the slot.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Pending> {
        let pending = self.all[slot].take()?;
        self.free.push(slot);
        Some(pending)
    }

    /// Cancels all deliveries in flight and returns them.
    pub(crate) fn give_up(self, sink: &mut dyn DynSink) -> impl Iterator<Item = Pending> {
        for (slot, pending) in self.all.iter().enumerate() {
            if pending.is_some() {
                sink.give_up(slot);
            }
        }
        self.all.into_iter().flatten()
    }
}

#[cfg(test)]
impl Slots {
    /// Removes the `at`th delivery in flight, as if the sink had answered it.
    pub(crate) fn take_nth(&mut self, at: usize) -> Option<Pending> {
        let slot = (0..self.count()).filter(|slot| self.all[*slot].is_some()).nth(at)?;
        self.take(slot)
    }
}

impl Wakers {
    fn new(count: usize) -> Self {
        let woken = Arc::<Woken>::default();
        let waker = |slot| {
            let is_woken = AtomicBool::new(false);
            let waker = Arc::new(SlotWaker { slot, is_woken, woken: woken.clone() });
            (waker.clone(), waker.into())
        };
        Self { slots: (0..count).map(waker).collect(), woken }
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let (slots, task) = &mut *lock(&self.woken);
            slots.push_back(self.slot);
            task.take()
        };
        task.into_iter().for_each(Waker::wake);
    }
}
