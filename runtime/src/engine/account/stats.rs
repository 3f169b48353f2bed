//! Counts of what became of events, a component's and updated once a batch.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_channel::Receiver;
use serde::Serialize;

use crate::engine::{
    account::{
        deliveries::{Deliveries, Latencies},
        tap::{IN, Tap},
    },
    sync::gauge::{Gauge, Queue},
};
use crate::flow::{ERR, OUT, Role};

macro_rules! counts {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// What became of a component's events so far.
        ///
        /// `taken + created = delivered + dead_lettered + discarded + merged + failed`, and what is
        /// [in flight](ComponentCounts::in_flight).
        ///
        /// The admin API writes it as it is, less what it says elsewhere or not at all.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct ComponentCounts {
            $($(#[$about])* pub $name: u64,)*
        }

        /// The counters behind [`ComponentCounts`].
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $($name: AtomicU64,)*
            /// Shows events to those that listen.
            pub(crate) tap: Tap,
            /// Of a sink: counts how long they take.
            pub(crate) deliveries: Deliveries,
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
                let counts = ComponentCounts { $($name: self.$name.load(Ordering::Relaxed),)* };
                // What has left has come before: these are looked at last.
                let (taken, created) = (&self.taken, &self.created);
                let [taken, created] = [taken, created].map(|it| it.load(Ordering::Relaxed));
                ComponentCounts { taken, created, ..counts }
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
    #[serde(skip)]
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
    /// Failed events whose source is not told, because it asks for no acknowledgements.
    #[serde(skip)]
    unrecoverable,
    /// Failed events that were not delivered when their flow ended, and whose source is not told.
    #[serde(skip)]
    undelivered,
    /// No events, but bytes: brought by the connector of a source, or encoded for that of a sink.
    #[serde(skip)]
    bytes,
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

/// A component, and what became of its events. A connector with two sides is two components.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name in the flow.
    pub name: String,
    /// What it is.
    pub kind: Role,
    /// What became of its events.
    pub counts: ComponentCounts,
    /// What waits for it, where it has a queue.
    pub queue: Option<Queue>,
    /// How long the deliveries of a sink took, since there was somebody to ask.
    pub latencies: Option<Latencies>,
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
    /// Failed events whose source is not told, because it asks for no acknowledgements. Excludes `undelivered`.
    pub unrecoverable: u64,
    /// Failed events that were not delivered when the flow ended, and whose source is not told.
    pub undelivered: u64,
}

impl Counts {
    /// What the counts of all components come to.
    pub(crate) fn of(components: &[Component]) -> Self {
        let mut sum = Self::default();
        for Component { kind, counts, .. } in components {
            match kind {
                Role::Source => sum.events_in += counts.taken,
                Role::Sink => sum.events_out += counts.delivered.saturating_sub(counts.letters),
                Role::Pipeline => {}
            }
            sum.dead_lettered += counts.dead_lettered;
            sum.discarded += counts.discarded;
            sum.failed += counts.failed;
            sum.unrecoverable += counts.unrecoverable;
            sum.undelivered += counts.undelivered;
        }
        sum
    }

    /// These, where calls that hang keep events for good: what has come in or was made, and is not
    /// known to have ended, has failed.
    pub(crate) fn with_the_rest_failed(mut self, components: &[Component]) -> Self {
        let (mut came, mut ended) = (self.events_in, self.discarded + self.failed);
        for Component { kind, counts, .. } in components {
            came += counts.created;
            ended += counts.merged + if *kind == Role::Sink { counts.delivered } else { 0 };
        }
        self.failed += came.saturating_sub(ended);
        self
    }
}

impl Account {
    fn ports(&self) -> impl Iterator<Item = &str> {
        let usual: &[&str] = match self.kind {
            Role::Source => &[OUT, ERR],
            Role::Pipeline => &[IN, OUT, ERR],
            Role::Sink => &[IN, ERR],
        };
        usual.iter().copied().chain(self.ports.iter().map(String::as_str))
    }
}

/// The counters of a flow's components.
#[derive(Debug, Default)]
pub(crate) struct Books(Vec<Account>);

/// What is known of a component's events.
#[derive(Debug)]
struct Account {
    name: String,
    kind: Role,
    stats: Arc<Stats>,
    queue: Option<Gauge>,
    /// Its ports besides `in`, `out` and `err`.
    ports: Vec<String>,
}

impl Books {
    /// The counters of a component, made where there were none.
    pub(crate) fn of(&mut self, name: &str, kind: Role) -> Arc<Stats> {
        self.account(name, kind).stats.clone()
    }

    /// A component has a queue.
    pub(crate) fn has_queue(&mut self, name: &str, kind: Role, queue: Gauge) {
        self.account(name, kind).queue = Some(queue);
    }

    /// A component has these ports besides `in`, `out` and `err`.
    pub(crate) fn has_ports(&mut self, name: &str, kind: Role, ports: Vec<String>) {
        self.account(name, kind).ports = ports;
    }

    /// Whether there is a component of this name, and its ports.
    pub(crate) fn ports(&self, name: &str) -> Option<Vec<&str>> {
        let accounts = self.0.iter().filter(|account| account.name == name);
        let mut ports: Vec<&str> = accounts.flat_map(Account::ports).collect();
        ports.sort_unstable();
        ports.dedup();
        (!ports.is_empty()).then_some(ports)
    }

    /// Counts how long deliveries take, from now on.
    pub(crate) fn watch_deliveries(&self) {
        self.0.iter().for_each(|account| account.stats.deliveries.watch());
    }

    /// Listens at a port of a component.
    pub(crate) fn listen(&self, name: &str, port: &str) -> Vec<Receiver<String>> {
        let accounts = self.0.iter().filter(|account| account.name == name);
        let with_port = accounts.filter(|account| account.ports().any(|it| it == port));
        with_port.map(|account| account.stats.tap.listen(port)).collect()
    }

    fn account(&mut self, name: &str, kind: Role) -> &mut Account {
        let known = self.0.iter().position(|it| it.name == name && it.kind == kind);
        let at = known.unwrap_or_else(|| {
            let (name, stats) = (name.to_owned(), Arc::default());
            self.0.push(Account { name, kind, stats, queue: None, ports: Vec::new() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// What became of the events of every component.
    pub(crate) fn components(&self) -> Vec<Component> {
        let component = |Account { name, kind, stats, queue, .. }: &Account| Component {
            name: name.clone(),
            kind: *kind,
            counts: stats.counts(),
            queue: queue.as_ref().map(Gauge::queue),
            latencies: (*kind == Role::Sink).then(|| stats.deliveries.latencies()),
        };
        self.0.iter().map(component).collect()
    }
}
