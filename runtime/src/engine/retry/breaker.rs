//! The circuit breaker: while a sink is down, the sources that feed it are not pulled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use crate::engine::sync::watch::{Waiter, Watch};

/// The breaker of one source: open while a sink that its events may come to is down.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// How many of them are. Read once a pull, without a lock.
    down: AtomicUsize,
    changes: Watch<()>,
}

/// A source's wait for its breaker.
#[derive(Debug)]
pub(crate) struct Changes<'b>(&'b Breaker, Waiter<'b, ()>);

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.down.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes(self, self.changes.waiter())
    }

    fn update(&self, change: impl FnOnce(&AtomicUsize)) {
        self.changes.update(|()| change(&self.down));
    }
}

impl Changes<'_> {
    /// Ready when the breaker is not as it is said to be.
    pub(crate) fn poll(&mut self, context: &Context<'_>, is_open: bool) -> Poll<()> {
        let Self(breaker, waiter) = self;
        waiter.poll(context, |()| (breaker.is_open() != is_open).then_some(()))
    }
}

/// Whether a sink is down: not connected after a connection or an attempt has failed, or with a peer that
/// takes nothing. It opens the breakers of the sources that feed it.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    is_down: AtomicBool,
    sources: Vec<Arc<Breaker>>,
}

impl Outage {
    pub(crate) fn new(sources: Vec<Arc<Breaker>>) -> Self {
        Self { is_down: AtomicBool::new(false), sources }
    }

    /// Returns whether the sink is down.
    pub(crate) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// The sink is down.
    pub(crate) fn begin(&self) {
        self.set(true);
    }

    /// The sink is back, or nothing shows that it is not.
    pub(crate) fn end(&self) {
        // Asked for once a batch.
        if self.is_down.load(Ordering::Relaxed) {
            self.set(false);
        }
    }

    fn set(&self, is_down: bool) {
        if self.is_down.swap(is_down, Ordering::Relaxed) == is_down {
            return;
        }
        for source in &self.sources {
            source.update(|down| {
                if is_down {
                    down.fetch_add(1, Ordering::Relaxed);
                } else {
                    down.fetch_sub(1, Ordering::Relaxed);
                }
            });
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
    fn a_breaker_is_open_as_long_as_any_sink_is_down() {
        let breaker = Arc::<Breaker>::default();
        let sink = || Outage::new(vec![breaker.clone()]);
        let (one, other) = (sink(), sink());
        one.end();
        assert!(!breaker.is_open());
        one.begin();
        one.begin();
        other.begin();
        one.end();
        assert!(breaker.is_open());
        drop(other);
        assert!(!breaker.is_open(), "a sink that is gone is not waited for");
    }
}
