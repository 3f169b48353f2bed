//! The intake that the tasks of one source share: the source's own task and its helper tasks. Helpers work while the
//! source always has data and there are processors that no other task needs.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::{Arc, TryLockError},
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
use crate::sync::{
    AtomicBool, AtomicUsize, Mutex, Ordering, TryMutex, TryMutexGuard, fault, fence, lock,
};
use crate::{clock::Clock, executor};

/// The intake of one connection, shared between the source's own task and its helpers.
pub(crate) struct SharedIntake {
    intake: TryMutex<Intake>,
    processors: Processors,
    clock: Clock,
    /// Waker of the source's own task while it waits for the intake.
    waiting: Mutex<Option<Waker>>,
    /// `true` if the source's own task waits for the intake.
    is_awaited: AtomicBool,
    offers: Watch<Offers>,
    /// Number of helpers that wait for an offer.
    idle: AtomicUsize,
    /// Number of helpers that work.
    working: AtomicUsize,
    /// Time at which a helper last stopped because it mostly waited for in-order sections. See [`WITHOUT_MORE_HELP`]
    /// for the benchmark runs.
    crowded_at: Mutex<Option<Instant>>,
}

/// Exclusive access to the intake.
///
/// The task that has the guard may be inside a call of the plugin, which may take long. Therefore other tasks never
/// block a thread for the intake: the source's own task waits asynchronously, and helpers spin for a short time and
/// give up.
pub(crate) struct IntakeGuard<'l> {
    // Fields are dropped in this order: the lock is released before the waiting task is woken.
    guard: TryMutexGuard<'l, Intake>,
    _wakes: Wakes<'l>,
}

/// A guard that wakes the task that waits for the intake. `drop` wakes the task, after the lock was released.
struct Wakes<'l> {
    of: &'l SharedIntake,
}

/// State that idle helpers watch for changes.
#[derive(Debug, Default)]
struct Offers {
    /// A processor on which one helper may work.
    processor: Option<Busy>,
    /// `true` once nothing more is pulled. All helpers end then.
    ended: bool,
}

impl SharedIntake {
    pub(crate) fn new(intake: Intake, processors: Processors, clock: Clock) -> Self {
        Self {
            intake: TryMutex::new(intake),
            processors,
            clock,
            waiting: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            offers: Watch::default(),
            idle: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            crowded_at: Mutex::default(),
        }
    }

    /// Waits for the intake. Only the source's own task may call this, because only one waker is kept.
    pub(crate) async fn lock(&self) -> IntakeGuard<'_> {
        poll_fn(|context| self.poll_lock(context)).await
    }

    /// Completes with the intake once it is free. Only the source's own task may call this, as with
    /// [`SharedIntake::lock`].
    pub(crate) fn poll_lock(&self, context: &Context<'_>) -> Poll<IntakeGuard<'_>> {
        if let Some(intake) = self.lock_soon() {
            return Poll::Ready(intake);
        }
        *lock(&self.waiting) = Some(context.waker().clone());
        self.is_awaited.store(true, Ordering::Relaxed);
        // Pairs with the fence in `Wakes::drop`: either the releasing task sees `is_awaited`, or the second attempt
        // below sees that the lock is free.
        if !fault("intake_waits_without_fence") {
            fence(Ordering::SeqCst);
        }
        if fault("intake_waits_without_second_try") {
            return Poll::Pending;
        }
        self.try_lock().map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns the intake if it is free, or if it becomes free while this function spins briefly.
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

    /// Starts an idle helper, if there is one, if a processor is free, and if no helper was superfluous recently.
    pub(crate) fn offer(&self) {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(processor) = self.processors.busy_if_free()
            && !self.was_crowded()
        {
            self.offers.update(|offers| _ = offers.processor.get_or_insert(processor));
        }
    }

    /// Ends the helpers. Each helper first finishes the batch that it has pulled.
    pub(crate) async fn end(&self) {
        self.lock().await.leave_steady();
        let ended = !fault("intake_ends_without_notice");
        self.offers.update(|offers| *offers = Offers { processor: None, ended });
    }

    /// Runs a helper until the intake ends. The helper waits for an offer. Then it processes batches as long as the
    /// source has data, processors are free, and the helper does not mostly wait. Returns the worker for reuse.
    pub(crate) async fn help(self: Arc<Self>, mut worker: Worker) -> Worker {
        while let Some(_processor) = self.next_offer().await {
            let _working = self.processors.working();
            self.working.fetch_add(1, Ordering::Relaxed);
            worker.sizer.forget_waits();
            let mut turn = Turn::of(HELPER_TIME_SLICE);
            turn.begin(self.clock.now());
            while self.help_once(&mut worker).await
                && !self.processors.are_crowded()
                && !self.is_superfluous(&worker)
            {
                let now = self.clock.now();
                if turn.is_over(now) {
                    turn.begin(now);
                    executor::yield_now().await;
                }
            }
            self.working.fetch_sub(1, Ordering::Relaxed);
        }
        worker
    }

    /// Returns whether this helper should stop because it mostly waits for in-order sections. If so, records the time.
    /// If only one helper works, it never stops for this reason.
    fn is_superfluous(&self, worker: &Worker) -> bool {
        let leaves = worker.sizer.mostly_waits() && self.working.load(Ordering::Relaxed) > 1;
        if leaves {
            *lock(&self.crowded_at) = Some(self.clock.now());
        }
        leaves
    }

    /// Returns whether a helper stopped as superfluous within the last [`WITHOUT_MORE_HELP`].
    fn was_crowded(&self) -> bool {
        lock(&self.crowded_at).is_some_and(|at| self.clock.elapsed(at) < WITHOUT_MORE_HELP)
    }

    /// Waits for an offer. Returns the processor that was offered, or `None` once the intake has ended.
    async fn next_offer(&self) -> Option<Busy> {
        self.idle.fetch_add(1, Ordering::Relaxed);
        let offered = loop {
            self.offers.wait(|it| (it.ended || it.processor.is_some()).then_some(())).await;
            match self.offers.update(|offers| (offers.ended, offers.processor.take())) {
                (true, _) => break None,
                (false, Some(processor)) => break Some(processor),
                // The offer was taken by another helper.
                (false, None) => {}
            }
        };
        self.idle.fetch_sub(1, Ordering::Relaxed);
        offered
    }

    /// Processes one batch. Returns whether another batch may follow.
    pub(crate) async fn help_once(&self, worker: &mut Worker) -> bool {
        let mut batch = worker.batch();
        let since = self.clock.now();
        let egress = &worker.router.egress;
        let (pulled, may_continue) = poll_fn(|context| {
            let Some(mut intake) = self.lock_soon() else {
                return Poll::Ready((Next::Nothing, false));
            };
            if intake.has_more() {
                return Poll::Ready((intake.next(egress), intake.is_steady()));
            }
            let may_continue = intake.try_pull(context, &mut batch);
            Poll::Ready((intake.next(egress), may_continue))
        })
        .await;
        let yields = match pulled {
            Next::Piece((pulled, ticket)) => worker.decode_and_route(pulled, ticket, since).await,
            Next::More => true,
            Next::Nothing => false,
        };
        if yields || !self.processors.suffice() {
            // The woken sink, or another task, may be waiting for this processor.
            executor::yield_now().await;
        }
        may_continue
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
        if !fault("intake_is_released_without_fence") {
            fence(Ordering::SeqCst);
        }
        if self.of.is_awaited.load(Ordering::Relaxed) {
            self.of.is_awaited.store(false, Ordering::Relaxed);
            let waiting = lock(&self.of.waiting).take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }
}
