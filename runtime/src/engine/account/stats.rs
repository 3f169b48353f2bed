//! Counts of what became of events, a component's and updated once a batch.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What became of a component's events so far.
        ///
        /// `taken + created = delivered + dead_lettered + discarded + merged + failed`, and what is
        /// [in flight](ComponentCounts::in_flight).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ComponentCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters behind [`ComponentCounts`].
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $($name: AtomicU64,)*
        }

        impl Stats {
            $(pub(crate) fn $name(&self, events: usize) {
                if events > 0 {
                    self.$name.fetch_add(events as u64, Ordering::Relaxed);
                }
            })*

            /// Events of the component that never got as far, and never will.
            pub(crate) fn lost(&self, events: usize) {
                self.taken(events);
                self.failed(events);
            }

            /// The counts at this moment.
            pub(crate) fn counts(&self) -> ComponentCounts {
                ComponentCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Came in: from the connector of a source, as messages, whether or not they could be decoded;
    /// from other components otherwise.
    taken,
    /// Were made here: copies for further links of a port, rows, pieces.
    created,
    /// Went on: to the components that a port is linked to, or to the connector of a sink.
    delivered,
    /// Of those that a sink delivered: dead letters.
    letters,
    /// Left by a linked `err` port.
    dead_lettered,
    /// Were dropped on purpose, left by a port that nothing is linked to, or could not be handled where
    /// `err` says `discard`.
    discarded,
    /// Became part of others.
    merged,
    /// Could not be processed or delivered, and no `err` port took them: failed back to their source.
    failed,
}

impl ComponentCounts {
    /// How many events the component has: held by an operator, being delivered. Those in a queue have
    /// left one component and have not come to the next. Below zero where more left than there were,
    /// which no component may do.
    pub fn in_flight(&self) -> i64 {
        let came = self.taken + self.created;
        let left = self.delivered + self.dead_lettered + self.discarded + self.merged + self.failed;
        came.cast_signed().wrapping_sub(left.cast_signed())
    }
}

/// What a component is to its flow. A connector with two sides is two components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Brings events in.
    Source,
    /// Processes them.
    Pipeline,
    /// Takes them out.
    Sink,
}

/// A component, and what became of its events.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name in the flow.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// What became of its events.
    pub counts: ComponentCounts,
}

/// What became of a flow's events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came in through sources: messages, whether or not they could be decoded.
    pub events_in: u64,
    /// Were delivered by sinks, once a sink; dead letters do not count.
    pub events_out: u64,
    /// Left by a linked `err` port.
    pub dead_lettered: u64,
    /// Were dropped by an operator on purpose, or left by a port that nothing is linked to.
    pub discarded: u64,
    /// Could not be processed or delivered, and no `err` port took them: failed back to their source.
    pub failed: u64,
}

impl Counts {
    /// What the counts of all components come to.
    pub(crate) fn of(components: &[Component]) -> Self {
        let mut sum = Self::default();
        for Component { kind, counts, .. } in components {
            match kind {
                Kind::Source => sum.events_in += counts.taken,
                Kind::Sink => sum.events_out += counts.delivered.saturating_sub(counts.letters),
                Kind::Pipeline => {}
            }
            sum.dead_lettered += counts.dead_lettered;
            sum.discarded += counts.discarded;
            sum.failed += counts.failed;
        }
        sum
    }

    /// These, where calls that hang keep events for good: what has come in or was made, and is not
    /// known to have ended, has failed.
    pub(crate) fn with_the_rest_failed(mut self, components: &[Component]) -> Self {
        let (mut came, mut ended) = (self.events_in, self.discarded + self.failed);
        for Component { kind, counts, .. } in components {
            came += counts.created;
            ended += counts.merged + if *kind == Kind::Sink { counts.delivered } else { 0 };
        }
        self.failed += came.saturating_sub(ended);
        self
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.events_in += other.events_in;
        self.events_out += other.events_out;
        self.dead_lettered += other.dead_lettered;
        self.discarded += other.discarded;
        self.failed += other.failed;
    }
}

/// The counters of a flow's components.
#[derive(Debug, Default)]
pub(crate) struct Books(Vec<(String, Kind, Arc<Stats>)>);

impl Books {
    /// The counters of a component, made where there were none.
    pub(crate) fn of(&mut self, name: &str, kind: Kind) -> Arc<Stats> {
        let found = self.0.iter().find(|(known, of, _)| known == name && *of == kind);
        if let Some((_, _, stats)) = found {
            return stats.clone();
        }
        let stats = Arc::<Stats>::default();
        self.0.push((name.to_owned(), kind, stats.clone()));
        stats
    }

    /// What became of the events of every component.
    pub(crate) fn components(&self) -> Vec<Component> {
        let component = |(name, kind, stats): &(String, Kind, Arc<Stats>)| Component {
            name: name.clone(),
            kind: *kind,
            counts: stats.counts(),
        };
        self.0.iter().map(component).collect()
    }
}
