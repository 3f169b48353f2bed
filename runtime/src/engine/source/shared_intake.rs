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

use crate::engine::{
    life::watch::Watch,
    source::{intake::Intake, worker::Worker},
    spin::{self, Busy},
};
use crate::executor;

/// The intake of one connection, as its tasks share it.
pub(crate) struct SharedIntake {
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
pub(crate) struct IntakeGuard<'l> {
    /// None within `drop` only.
    guard: Option<MutexGuard<'l, Intake>>,
    of: &'l SharedIntake,
}

/// What helpers wait for.
#[derive(Debug, Default)]
struct Offers {
    /// A processor to work on.
    place: Option<Busy>,
    /// Nothing more is pulled.
    ended: bool,
}

impl SharedIntake {
    pub(crate) fn new(intake: Intake) -> Self {
        let (offers, idle) = (Watch::default(), AtomicUsize::new(0));
        let (waiting, is_awaited) = (Mutex::default(), AtomicBool::new(false));
        Self { intake: Mutex::new(intake), waiting, is_awaited, offers, idle }
    }

    /// Waits for the intake. One task may: the source's own.
    pub(crate) async fn lock(&self) -> IntakeGuard<'_> {
        poll_fn(|context| self.poll_lock(context)).await
    }

    /// As [`SharedIntake::lock`].
    pub(crate) fn poll_lock(&self, context: &Context<'_>) -> Poll<IntakeGuard<'_>> {
        if let Some(intake) = self.lock_soon() {
            return Poll::Ready(intake);
        }
        *self.lock_waiting() = Some(context.waker().clone());
        self.is_awaited.store(true, Ordering::Relaxed);
        // Either that is seen by the task that lets go of the intake, or here that it has done so.
        fence(Ordering::SeqCst);
        self.try_lock().map_or(Poll::Pending, Poll::Ready)
    }

    /// The intake, if no task uses it, or not for long.
    fn lock_soon(&self) -> Option<IntakeGuard<'_>> {
        self.try_lock().or_else(|| {
            let mut intake = None;
            spin::for_a_turn(|| {
                intake = self.try_lock();
                intake.is_some()
            });
            intake
        })
    }

    fn try_lock(&self) -> Option<IntakeGuard<'_>> {
        let intake = match self.intake.try_lock() {
            Ok(intake) => intake,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(IntakeGuard { guard: Some(intake), of: self })
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
        self.lock().await.pauses();
        self.offers.update(|offers| *offers = Offers { place: None, ended: true });
    }

    /// Takes batches through whenever that helps, until the intake ends.
    pub(crate) async fn help(self: Arc<Self>, mut worker: Worker) -> Worker {
        while let Some(_place) = self.offered().await {
            let _working = spin::Working::enter();
            while self.help_once(&mut worker).await && !spin::is_crowded() {}
        }
        worker
    }

    /// A processor to work on; none when the intake has ended.
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
    pub(crate) async fn help_once(&self, worker: &mut Worker) -> bool {
        let mut batch = worker.batch();
        let since = Instant::now();
        let egress = &worker.router.egress;
        let (pulled, goes_on) = poll_fn(|context| {
            let Some(mut intake) = self.lock_soon() else { return Poll::Ready((None, false)) };
            if intake.has_more() {
                return Poll::Ready((intake.next(egress), intake.is_steady()));
            }
            let goes_on = intake.try_pull(context, &mut batch);
            intake.take(&mut batch);
            Poll::Ready((intake.next(egress), goes_on))
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

impl Deref for IntakeGuard<'_> {
    type Target = Intake;

    fn deref(&self) -> &Intake {
        match &self.guard {
            Some(intake) => intake,
            None => unreachable!("it is there until it is let go of"),
        }
    }
}

impl DerefMut for IntakeGuard<'_> {
    fn deref_mut(&mut self) -> &mut Intake {
        match &mut self.guard {
            Some(intake) => intake,
            None => unreachable!("it is there until it is let go of"),
        }
    }
}

impl Drop for IntakeGuard<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        fence(Ordering::SeqCst);
        if self.of.is_awaited.load(Ordering::Relaxed) {
            self.of.is_awaited.store(false, Ordering::Relaxed);
            let waiting = self.of.lock_waiting().take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }
}
