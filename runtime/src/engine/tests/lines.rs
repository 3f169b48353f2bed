//! What the log says, counted.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// How many lines a component writes in this thread while this is done.
pub(super) fn lines(component: &'static str, work: impl FnOnce()) -> usize {
    let count = Arc::<AtomicUsize>::default();
    let lines = Lines { component, count: count.clone() };
    tracing::subscriber::with_default(lines, work);
    count.load(Ordering::Relaxed)
}

struct Lines {
    component: &'static str,
    count: Arc<AtomicUsize>,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut is_from = IsFrom { component: self.component, it_is: false };
        event.record(&mut is_from);
        self.count.fetch_add(usize::from(is_from.it_is), Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Tells lines of one component from those of tests that run at the same time.
struct IsFrom {
    component: &'static str,
    it_is: bool,
}

impl Visit for IsFrom {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.it_is |= field.name() == "component" && value == self.component;
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.it_is |= field.name() == "component" && format!("{value:?}") == self.component;
    }
}
