//! The circuit breaker: while a sink is down, the sources that feed it are not pulled.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tremor_pdk::lock;

use crate::engine::{
    queue::stalled::Stalled,
    sync::watch::{Waiter, Watch},
};

/// The breaker of one source. It is open while any sink that the source feeds is down.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// Number of the sinks that the source feeds and that are down. Atomic, because the source reads it at every pull.
    down: AtomicUsize,
    changes: Watch<()>,
}

/// The registration of a source that waits for its breaker to change.
#[derive(Debug)]
pub(crate) struct Changes<'b>(&'b Breaker, Waiter<'b, ()>);

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.down.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes(self, self.changes.waiter())
    }

    /// Counts a sink that is down now, or no longer.
    fn count(&self, is_down: bool) {
        self.changes.update(|()| {
            if is_down {
                self.down.fetch_add(1, Ordering::Relaxed);
            } else {
                self.down.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }
}

impl Changes<'_> {
    /// Completes when the breaker's state differs from `is_open`.
    pub(crate) fn poll(&mut self, context: &Context<'_>, is_open: bool) -> Poll<()> {
        let Self(breaker, waiter) = self;
        waiter.poll(context, |()| (breaker.is_open() != is_open).then_some(()))
    }
}

/// The outage state of one sink. While the sink is down, the breakers of the sources that feed the sink are open.
///
/// A sink is down if its peer accepts no events. It is also down from the loss of its connection, or a failed attempt
/// to connect, until it is connected.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    stalled: Arc<Stalled>,
    /// Breakers of the sources that feed the sink. Locked while the state changes.
    sources: Mutex<Vec<Arc<Breaker>>>,
}

impl Outage {
    /// Creates the state of a sink that is not down. The state is also set in `stalled`.
    pub(crate) fn new(sources: Vec<Arc<Breaker>>, stalled: Arc<Stalled>) -> Self {
        Self { stalled, sources: Mutex::new(sources) }
    }

    /// Sets the breakers of the sources that feed the sink from now on.
    pub(crate) fn set_sources(&self, next: Vec<Arc<Breaker>>) {
        let mut sources = lock(&self.sources);
        if self.is_down() {
            next.iter().for_each(|it| it.count(true));
            sources.iter().for_each(|it| it.count(false));
        }
        *sources = next;
    }

    /// Returns whether the sink is down.
    pub(crate) fn is_down(&self) -> bool {
        self.stalled.is_down()
    }

    /// Returns the state that the tasks share which feed the sink.
    pub(crate) fn stalled(&self) -> &Stalled {
        &self.stalled
    }

    /// Marks the sink as down.
    pub(crate) fn begin(&self) {
        self.set(true);
    }

    /// Marks the sink as not down, because it works or because its state is not known.
    pub(crate) fn end(&self) {
        // Called for every batch, so the usual case does not write to the atomic.
        if self.is_down() {
            self.set(false);
        }
    }

    fn set(&self, is_down: bool) {
        let sources = lock(&self.sources);
        if self.stalled.set_down(is_down) != is_down {
            sources.iter().for_each(|it| it.count(is_down));
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Breaker, Outage};

    #[test]
    fn breaker_is_open_while_any_sink_is_down() {
        let breaker = Arc::<Breaker>::default();
        let sink = || Outage::new(vec![breaker.clone()], Arc::default());
        let (one, other) = (sink(), sink());
        one.end();
        assert!(!breaker.is_open());
        one.begin();
        one.begin();
        other.begin();
        one.end();
        assert!(breaker.is_open());
        drop(other);
        assert!(!breaker.is_open(), "a dropped sink does not keep the breaker open");
    }
}
