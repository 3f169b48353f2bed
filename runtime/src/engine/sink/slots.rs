//! The deliveries that a sink has under way, each in a slot of its own.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tremor_pdk::{Exception, Result};

use crate::{dynamic::DynSink, engine::sink::pending::Pending, lock::lock};

/// The slots of the sink of one connection.
pub(crate) struct Slots {
    all: Vec<Option<Pending>>,
    free: Vec<usize>,
    /// Those whose delivery is to begin, in order. That comes before the answers of others: where several come
    /// at once, the first lane does not wait until the last has been accounted for.
    begins: VecDeque<usize>,
    /// Which of them are to be polled. None where there is one: that is polled whenever its task is.
    wakers: Option<Wakers>,
}

/// The wakers of several slots.
struct Wakers {
    woken: Arc<Woken>,
    slots: Vec<(Arc<SlotWaker>, Waker)>,
}

/// The slots that are to be polled, and the task that polls them.
type Woken = Mutex<(VecDeque<usize>, Option<Waker>)>;

/// Wakes the sink's task for one slot.
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

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether no delivery is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.all.len()
    }

    /// The batches under way.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Pending> + Clone {
        self.all.iter().flatten()
    }

    /// The same, to have them let go of memory.
    pub(crate) fn pending_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.all.iter_mut().flatten()
    }

    /// Puts a delivery that has [begun](Pending::begin) into a free slot: the sink gets it with the next poll.
    pub(crate) fn put(&mut self, pending: Pending) {
        let Some(slot) = self.free.pop() else { unreachable!("there is a free slot") };
        self.all[slot] = Some(pending);
        if self.wakers.is_some() {
            self.begins.push_back(slot);
        }
    }

    /// Ready with the answer to a delivery, and what that was.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut dyn DynSink,
    ) -> Poll<(Pending, Result<Vec<Exception>>)> {
        let Some(wakers) = &self.wakers else { return self.poll_slot(0, context, sink) };
        let woken = wakers.woken.clone();
        let count = {
            let (slots, task) = &mut *lock(&woken);
            *task = Some(context.waker().clone());
            slots.len()
        };
        // What wakes itself again and again waits for the task's next turn.
        for _ in 0..self.begins.len() + count {
            let Some(wakers) = &self.wakers else { break };
            let begins = self.begins.pop_front();
            let Some(slot) = begins.or_else(|| lock(&woken).0.pop_front()) else { break };
            let (own, waker) = wakers.slots[slot].clone();
            // From here on another wake counts.
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
    ) -> Poll<(Pending, Result<Vec<Exception>>)> {
        let pending = self.all[slot].as_mut();
        let Some(encoded) = pending.and_then(Pending::in_flight_mut) else { return Poll::Pending };
        let Poll::Ready(result) = sink.poll_deliver(context, slot, encoded) else {
            return Poll::Pending;
        };
        let Some(pending) = self.all[slot].take() else { return Poll::Pending };
        self.free.push(slot);
        Poll::Ready((pending, result))
    }

    /// Gives up all deliveries that are under way.
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
    /// Frees the `at`th slot in use, as if the sink had answered.
    pub(crate) fn take(&mut self, at: usize) -> Option<Pending> {
        let slot = (0..self.count()).filter(|slot| self.all[*slot].is_some()).nth(at)?;
        self.free.push(slot);
        self.all[slot].take()
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
