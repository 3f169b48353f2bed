//! The tasks that take the batches of one source through: its own, and those that help it while
//! events come without end and there are processors that no other task needs.

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
    processors::{Busy, Processors},
    source::{intake::Intake, preprocessors::Next, worker::Worker},
    spin,
    sync::{turn::Turn, watch::Watch},
    tuning::{HELPER_TIME_SLICE, WITHOUT_MORE_HELP},
};
use crate::executor;

/// The intake of one connection, as its tasks share it.
pub(crate) struct SharedIntake {
    intake: Mutex<Intake>,
    processors: Processors,
    /// The source's own task, where it waits for the intake.
    waiting: Mutex<Option<Waker>>,
    is_awaited: AtomicBool,
    offers: Watch<Offers>,
    /// Helpers that wait for an offer,
    idle: AtomicUsize,
    /// and those that work.
    working: AtomicUsize,
    /// When a helper left because it mostly waited for in-order sections.
    crowded_at: Mutex<Option<Instant>>,
}

/// The intake, in use by one task. A call of the plugin may be under way, and may take long: so a
/// task waits for it without holding a thread, and helpers do not wait at all.
pub(crate) struct IntakeGuard<'l> {
    // In this order: fields are dropped as they stand here.
    guard: MutexGuard<'l, Intake>,
    _wakes: Wakes<'l>,
}

/// Wakes the task that waits for the intake, once it is let go of.
struct Wakes<'l> {
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
    pub(crate) fn new(intake: Intake, processors: Processors) -> Self {
        Self {
            intake: Mutex::new(intake),
            processors,
            waiting: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            offers: Watch::default(),
            idle: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            crowded_at: Mutex::default(),
        }
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
            spin::briefly(&self.processors, || {
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
        Some(IntakeGuard { guard: intake, _wakes: Wakes { of: self } })
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a helper work, where one waits and there is a processor for it.
    pub(crate) fn offer(&self) {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(place) = self.processors.busy_if_free()
            && !self.was_crowded()
        {
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
            let _working = self.processors.working();
            self.working.fetch_add(1, Ordering::Relaxed);
            worker.pace.forget_waits();
            let mut turn = Turn::of(HELPER_TIME_SLICE);
            turn.begin(Instant::now());
            while self.help_once(&mut worker).await
                && !self.processors.are_crowded()
                && !self.is_one_too_many(&worker)
            {
                let now = Instant::now();
                if turn.is_over(now) {
                    turn.begin(now);
                    executor::yield_now().await;
                }
            }
            self.working.fetch_sub(1, Ordering::Relaxed);
        }
        worker
    }

    /// Whether the others do the same without this helper, which then leaves. The first one stays.
    fn is_one_too_many(&self, worker: &Worker) -> bool {
        let leaves = worker.pace.mostly_waits() && self.working.load(Ordering::Relaxed) > 1;
        if leaves {
            *self.lock_crowded_at() = Some(Instant::now());
        }
        leaves
    }

    /// Whether a helper was one too many a short time ago.
    fn was_crowded(&self) -> bool {
        self.lock_crowded_at().is_some_and(|at| at.elapsed() < WITHOUT_MORE_HELP)
    }

    fn lock_crowded_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.crowded_at.lock().unwrap_or_else(PoisonError::into_inner)
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
            let Some(mut intake) = self.lock_soon() else {
                return Poll::Ready((Next::Nothing, false));
            };
            if intake.has_more() {
                return Poll::Ready((intake.next(egress), intake.is_steady()));
            }
            let goes_on = intake.try_pull(context, &mut batch);
            Poll::Ready((intake.next(egress), goes_on))
        })
        .await;
        let yields = match pulled {
            Next::Piece((pulled, ticket)) => worker.take_through(pulled, ticket, since).await,
            Next::More => true,
            Next::Nothing => false,
        };
        if yields || !self.processors.are_roomy() {
            // The sink may wait for this processor, and other tasks while a round follows another.
            executor::yield_now().await;
        }
        goes_on
    }
}

impl Deref for IntakeGuard<'_> {
    type Target = Intake;

    fn deref(&self) -> &Intake {
        &self.guard
    }
}

impl DerefMut for IntakeGuard<'_> {
    fn deref_mut(&mut self) -> &mut Intake {
        &mut self.guard
    }
}

impl Drop for Wakes<'_> {
    fn drop(&mut self) {
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
