//! The tasks that take the batches of one source through: its own, and those that help it while
//! events come without end and there are processors that nobody else needs.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

use super::{
    intake::Intake,
    spin::{self, Busy},
    watch::Watch,
    worker::Worker,
};
use crate::executor;

/// What they share as long as one connection lasts.
pub(crate) struct Lane {
    intake: Mutex<Intake>,
    /// The source's own task, where it waits for the intake.
    waiting: Mutex<Option<Waker>>,
    is_awaited: AtomicBool,
    offers: Watch<Offers>,
    /// Helpers that wait for an offer.
    idle: AtomicUsize,
}

/// The intake, in use by one task. A call of the plugin may be under way, and may take long: so a
/// task waits for it without holding a thread, and helpers do not wait at all.
pub(crate) struct InUse<'l> {
    /// None within `drop` only.
    intake: Option<MutexGuard<'l, Intake>>,
    lane: &'l Lane,
}

/// What helpers wait for.
#[derive(Debug, Default)]
struct Offers {
    /// A processor to work on.
    place: Option<Busy>,
    /// Nothing more is pulled.
    ended: bool,
}

impl Lane {
    pub(crate) fn new(intake: Intake) -> Self {
        let (offers, idle) = (Watch::default(), AtomicUsize::new(0));
        let (waiting, is_awaited) = (Mutex::default(), AtomicBool::new(false));
        Self { intake: Mutex::new(intake), waiting, is_awaited, offers, idle }
    }

    /// Waits for the intake. One task may: the source's own.
    pub(crate) async fn intake(&self) -> InUse<'_> {
        poll_fn(|context| self.poll_intake(context)).await
    }

    /// As [`Lane::intake`].
    pub(crate) fn poll_intake(&self, context: &Context<'_>) -> Poll<InUse<'_>> {
        if let Some(intake) = self.soon_intake() {
            return Poll::Ready(intake);
        }
        *self.lock_waiting() = Some(context.waker().clone());
        self.is_awaited.store(true, Ordering::Relaxed);
        // Either that is seen by the task that lets go of the intake, or here that it has done so.
        fence(Ordering::SeqCst);
        self.try_intake().map_or(Poll::Pending, Poll::Ready)
    }

    /// The intake, if no task uses it, or not for long.
    fn soon_intake(&self) -> Option<InUse<'_>> {
        self.try_intake().or_else(|| {
            let mut intake = None;
            spin::for_a_turn(|| {
                intake = self.try_intake();
                intake.is_some()
            });
            intake
        })
    }

    fn try_intake(&self) -> Option<InUse<'_>> {
        let intake = match self.intake.try_lock() {
            Ok(intake) => intake,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(InUse { intake: Some(intake), lane: self })
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a helper work, where one waits and there is a processor for it.
    pub(crate) fn offer(&self) {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(place) = Busy::enter_if_free() {
            self.offers.update(|offers| _ = offers.place.get_or_insert(place));
        }
    }

    /// Helpers end as soon as they have taken through what they have pulled.
    pub(crate) async fn end(&self) {
        self.intake().await.pauses();
        self.offers.update(|offers| *offers = Offers { place: None, ended: true });
    }

    /// Takes batches through whenever that helps, until the lane ends.
    pub(crate) async fn help(self: Arc<Self>, mut worker: Worker) -> Worker {
        while let Some(_place) = self.offered().await {
            let _working = spin::Working::enter();
            while self.help_once(&mut worker).await && !spin::is_crowded() {}
        }
        worker
    }

    /// A processor to work on; none when the lane has ended.
    async fn offered(&self) -> Option<Busy> {
        self.idle.fetch_add(1, Ordering::Relaxed);
        let offered = loop {
            self.offers.wait(|it| (it.ended || it.place.is_some()).then_some(())).await;
            match self.offers.update(|offers| (offers.ended, offers.place.take())) {
                (true, _) => break None,
                (false, Some(place)) => break Some(place),
                // Another one was faster.
                (false, None) => {}
            }
        };
        self.idle.fetch_sub(1, Ordering::Relaxed);
        offered
    }

    /// Takes one batch through. Whether another one may follow.
    pub(super) async fn help_once(&self, worker: &mut Worker) -> bool {
        let mut batch = worker.batch();
        let since = Instant::now();
        let way = &worker.router.way;
        let (pulled, goes_on) = poll_fn(|context| {
            let Some(mut intake) = self.soon_intake() else { return Poll::Ready((None, false)) };
            if intake.has_more() {
                return Poll::Ready((intake.next(way), intake.is_steady()));
            }
            let goes_on = intake.try_pull(context, &mut batch);
            intake.take(&mut batch);
            Poll::Ready((intake.next(way), goes_on))
        })
        .await;
        let woke = match pulled {
            Some((pulled, ticket)) => worker.take_through(pulled, ticket, since).await,
            None => false,
        };
        if woke || !spin::is_roomy() {
            // The sink may wait for this processor.
            executor::yield_now().await;
        }
        goes_on
    }
}

impl Deref for InUse<'_> {
    type Target = Intake;

    fn deref(&self) -> &Intake {
        match &self.intake {
            Some(intake) => intake,
            None => unreachable!("it is there until it is let go of"),
        }
    }
}

impl DerefMut for InUse<'_> {
    fn deref_mut(&mut self) -> &mut Intake {
        match &mut self.intake {
            Some(intake) => intake,
            None => unreachable!("it is there until it is let go of"),
        }
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        drop(self.intake.take());
        fence(Ordering::SeqCst);
        if self.lane.is_awaited.load(Ordering::Relaxed) {
            self.lane.is_awaited.store(false, Ordering::Relaxed);
            let waiting = self.lane.lock_waiting().take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }
}
