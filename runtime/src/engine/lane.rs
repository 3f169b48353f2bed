//! The tasks that take the batches of one source through: its own, and those that help it while
//! events come without end and there are processors that nobody else needs.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
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
    offers: Watch<Offers>,
    /// Helpers that wait for an offer.
    idle: AtomicUsize,
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
        Self { intake: Mutex::new(intake), offers, idle }
    }

    pub(crate) fn intake(&self) -> MutexGuard<'_, Intake> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn end(&self) {
        self.intake().pauses();
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
            let mut intake = self.intake();
            let goes_on = intake.try_pull(context, &mut batch);
            Poll::Ready((intake.take(&mut batch, way), goes_on))
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
