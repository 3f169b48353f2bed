//! Counters of events by component and outcome, updated once a batch.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_channel::Receiver;
use serde::Serialize;
use tremor_pdk::lock;

use crate::clock::Clock;
use crate::engine::{
    sync::gauge::{Gauge, Queue},
    tracking::{
        deliveries::{Deliveries, Latencies},
        stored::{Stored, StoredCounters},
        tap::{IN, Tap},
    },
};
use crate::flow::{ERR, OUT, Role, owner_of};

/// Numbers of events that were left in a queue or in a sink at the end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Number of events that were left.
    pub(crate) events: usize,
    /// Number of these events whose source is not notified that they failed.
    pub(crate) lost: usize,
}

macro_rules! counts {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// Numbers of a component's events so far, by their outcome.
        ///
        /// `taken + created = delivered + dead_lettered + discarded + merged + failed + dropped + returned +`
        /// [`in_flight`](ComponentCounts::in_flight).
        ///
        /// The admin API serializes this type. The serialized form omits the fields that an API response has elsewhere
        /// or not at all.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct ComponentCounts {
            $($(#[$about])* pub $name: u64,)*
        }

        /// The counters behind [`ComponentCounts`].
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $($name: AtomicU64,)*
            /// Sends samples of the component's events to listeners.
            pub(crate) tap: Tap,
            /// The duration of deliveries, if the component is a sink.
            pub(crate) deliveries: Deliveries,
            /// `true` if the component is a source that reads failed events again, and `false` if it is one that only
            /// reports failures to its peers. Not set for other components.
            pub(crate) replays_failed: OnceLock<bool>,
        }

        impl Stats {
            $(pub(crate) fn $name(&self, events: usize) {
                if events > 0 {
                    self.$name.fetch_add(events as u64, Ordering::Relaxed);
                }
            })*

            /// Counts events that failed before this component received them. They count as taken and as failed.
            pub(crate) fn lost(&self, events: usize) {
                self.taken(events);
                self.failed(events);
            }

            /// Counts events that failed at the end of their flow, because they were left in the queue of this component.
            pub(crate) fn left(&self, left: Left) {
                self.lost(left.events);
                self.undelivered(left.lost);
            }

            /// Adds the time for which a task of a source worked on a batch, and the part of it that only one task can
            /// do at a time.
            pub(crate) fn worked(&self, busy: Duration, in_order: Duration) {
                let ns = |time: Duration| usize::try_from(time.as_nanos()).unwrap_or(usize::MAX);
                self.busy_ns(ns(busy));
                self.in_order_ns(ns(in_order.min(busy)));
            }

            /// Returns the current counts.
            pub(crate) fn counts(&self) -> ComponentCounts {
                let counts = ComponentCounts { $($name: self.$name.load(Ordering::Relaxed),)* };
                // An event is counted as taken or created before its outcome is counted. These two counters are read
                // last, so that the counts of outcomes do not exceed them.
                let (taken, created) = (&self.taken, &self.created);
                let [taken, created] = [taken, created].map(|it| it.load(Ordering::Relaxed));
                ComponentCounts { taken, created, ..counts }
            }
        }
    };
}

counts! {
    /// Events that the component received. For a source, messages of its connector, whether or not they could be
    /// decoded; for other components, events of the components before it.
    taken,
    /// Events that the component created: copies for further links of a port, rows, pieces.
    created,
    /// Events that the component passed on: a source or a pipeline to the targets of a port, a sink to its connector,
    /// which delivered them.
    delivered,
    /// Dead letters among the events that a sink delivered.
    #[serde(skip)]
    letters,
    /// Events that left through a linked `err` port.
    dead_lettered,
    /// Events that were dropped on purpose, left through a port without a link, or could not be handled while `err` is
    /// set to `discard`.
    discarded,
    /// Events that became part of other events.
    merged,
    /// Events that could not be processed or delivered while no `err` port was linked. They fail back to their source.
    failed,
    /// Events that a sink dropped because its queue was full or the flow ended, as `queue.when_full` of the sink sets.
    dropped,
    /// Events among `dropped` that the sink dropped because the flow ended.
    dropped_at_end,
    /// Events that a sink has taken and not delivered when its flow ended, and that stay in its queue on disk.
    returned,
    /// Failed events whose source is not notified, because it requests no acknowledgements.
    #[serde(skip)]
    unrecoverable,
    /// Events that failed when their flow ended, because they were not delivered by then, and whose source is not
    /// notified.
    #[serde(skip)]
    undelivered,
    /// Bytes (not events) that the connector of a source read, or that were encoded for the connector of a sink.
    #[serde(skip)]
    bytes,
    /// Time (not events) in ns that the tasks of a source worked, without waits.
    #[serde(skip)]
    busy_ns,
    /// Part of `busy_ns` in which only one task of the source can work at a time.
    #[serde(skip)]
    in_order_ns,
}

impl ComponentCounts {
    /// Returns the number of events that the component has: buffered by an operator, or being delivered. Excludes
    /// events in a queue, which have left one component and have not been taken by the next. A negative number means
    /// that more events left the component than entered it, which is a fault of the component.
    pub fn in_flight(&self) -> i64 {
        let entered = self.taken + self.created;
        let handed_on = self.delivered + self.dead_lettered;
        let left = handed_on + self.discarded + self.merged + self.failed + self.dropped;
        let left = left + self.returned;
        entered.cast_signed().wrapping_sub(left.cast_signed())
    }

    /// Adds the events that failed in the queue on disk of this sink, as if the sink had taken them. All other events of
    /// the queue are on disk or were counted by the sink.
    fn add_failed(&mut self, queue: &Self) {
        self.taken += queue.dead_lettered + queue.discarded + queue.failed + queue.dropped;
        self.dead_lettered += queue.dead_lettered;
        self.discarded += queue.discarded;
        self.failed += queue.failed;
        self.dropped += queue.dropped;
        self.dropped_at_end += queue.dropped_at_end;
        // Copies of dead letters for further targets of `err`.
        self.created += queue.created;
        self.delivered += queue.created;
        self.letters += queue.created;
        self.unrecoverable += queue.unrecoverable;
        self.undelivered += queue.undelivered;
    }
}

/// A component with its counts. A connector with a source and a sink is two components.
#[derive(Clone, Debug)]
pub struct Component {
    /// Name of the component in the flow.
    pub name: String,
    /// Role of the component: source, pipeline or sink.
    pub kind: Role,
    /// Numbers of the component's events, by their outcome.
    pub counts: ComponentCounts,
    /// Fill level of the component's queue, if it has one.
    pub queue: Option<Queue>,
    /// Histogram of the duration of a sink's deliveries, from the time when the measurement was turned on; `None` for
    /// other components.
    pub latencies: Option<Latencies>,
    /// `true` if the component is a source that reads failed events again, and `false` if it is one that only reports
    /// failures to its peers. `None` for other components, and for sources that request no acknowledgements.
    pub replays_failed: Option<bool>,
    /// Numbers of the events in the queue on disk, if the component is a sink that has one.
    pub stored: Option<Stored>,
}

/// Numbers of a flow's events so far, by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that sources read, whether or not they could be decoded.
    pub events_in: u64,
    /// Events that sinks delivered. An event that two sinks delivered counts twice; dead letters do not count.
    pub events_out: u64,
    /// Events that left through a linked `err` port.
    pub dead_lettered: u64,
    /// Events that were dropped on purpose, left through a port without a link, or could not be handled while `err` is
    /// set to `discard`.
    pub discarded: u64,
    /// Events that could not be processed or delivered while no `err` port was linked. They fail back to their source.
    pub failed: u64,
    /// Events that sinks dropped because their queues were full or the flow ended, as `queue.when_full` sets.
    pub dropped: u64,
    /// Events that are in queues on disk, and that the next run of the flow delivers.
    pub stored: u64,
    /// Events that were in queues on disk when these were opened.
    pub stored_at_start: u64,
    /// Events that queues on disk have delivered again, because events of the same record were lost without an answer.
    /// Each of them is counted twice, by its first outcome and by its last one.
    pub redelivered: u64,
    /// Failed events whose source is not notified, because it requests no acknowledgements. Excludes `undelivered`.
    pub unrecoverable: u64,
    /// Events that failed when the flow ended, because they were not delivered by then, and whose source is not
    /// notified.
    pub undelivered: u64,
}

impl Counts {
    /// Returns the sums over all components.
    pub(crate) fn of(components: &[Component]) -> Self {
        let mut sum = Self::default();
        for Component { kind, counts, stored, .. } in components {
            let Stored { at_start, now, redelivered, .. } = stored.unwrap_or_default();
            sum.stored += now;
            sum.stored_at_start += at_start;
            sum.redelivered += redelivered;
            match kind {
                Role::Source => sum.events_in += counts.taken,
                Role::Sink => sum.events_out += counts.delivered.saturating_sub(counts.letters),
                Role::Pipeline => {}
            }
            sum.dead_lettered += counts.dead_lettered;
            sum.discarded += counts.discarded;
            sum.failed += counts.failed;
            sum.dropped += counts.dropped;
            sum.unrecoverable += counts.unrecoverable;
            sum.undelivered += counts.undelivered;
        }
        sum
    }

    /// Returns the counts of a flow that was abandoned because calls of its components hang. Events that were read or
    /// created, and whose outcome is unknown, count as failed.
    pub(crate) fn with_remainder_failed(mut self, components: &[Component]) -> Self {
        let mut entered = self.events_in + self.stored_at_start + self.redelivered;
        let mut ended = self.discarded + self.failed + self.dropped + self.stored;
        for Component { kind, counts, .. } in components {
            entered += counts.created;
            ended += counts.merged + if *kind == Role::Sink { counts.delivered } else { 0 };
        }
        self.failed += entered.saturating_sub(ended);
        self
    }
}

impl ComponentCounters {
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
pub(crate) struct FlowCounters(Mutex<Vec<ComponentCounters>>);

/// The counters of one component, identified by its name and its role.
#[derive(Debug)]
struct ComponentCounters {
    name: String,
    kind: Role,
    stats: Arc<Stats>,
    queue: Option<Gauge>,
    /// Names of the component's ports other than `in`, `out` and `err`.
    ports: Vec<String>,
    /// Counters of the component's queue on disk, if it has one.
    stored: Option<Arc<StoredCounters>>,
    /// `true` if a reload has removed the component. Only the report of the flow contains its counts.
    is_removed: bool,
}

impl FlowCounters {
    /// Returns the counters of a component. Adds the component if it is new. If it was removed, its counts continue.
    pub(crate) fn of(&self, name: &str, kind: Role) -> Arc<Stats> {
        self.update(name, kind, |it| it.stats.clone())
    }

    /// Sets the queue of a component.
    pub(crate) fn set_queue(&self, name: &str, kind: Role, queue: Gauge) {
        self.update(name, kind, |it| it.queue = Some(queue));
    }

    /// Returns the counters of the queue on disk of a sink. Adds the queue if it is new.
    pub(crate) fn stored(&self, sink: &str) -> Arc<StoredCounters> {
        self.update(sink, Role::Sink, |it| it.stored.get_or_insert_default().clone())
    }

    /// Sets the names of a component's ports other than `in`, `out` and `err`.
    pub(crate) fn set_ports(&self, name: &str, kind: Role, ports: Vec<String>) {
        self.update(name, kind, |it| it.ports = ports);
    }

    /// Records that the component was removed from the flow.
    pub(crate) fn remove(&self, name: &str, kind: Role) {
        self.update(name, kind, |it| (it.is_removed, it.queue) = (true, None));
    }

    /// Returns the ports of the components called `name`, sorted, or `None` if there is no such component.
    pub(crate) fn ports(&self, name: &str) -> Option<Vec<String>> {
        let all = lock(&self.0);
        let named = all.iter().filter(|it| it.name == name && !it.is_removed);
        let mut ports: Vec<String> =
            named.flat_map(ComponentCounters::ports).map(str::to_owned).collect();
        ports.sort_unstable();
        ports.dedup();
        (!ports.is_empty()).then_some(ports)
    }

    /// Measures the duration of deliveries by `clock` from now on.
    pub(crate) fn watch_deliveries(&self, clock: &Clock) {
        lock(&self.0).iter().for_each(|component| component.stats.deliveries.watch(clock));
    }

    /// Adds a listener at a port of the components called `name`. Returns a receiver for each of these components that
    /// has the port.
    pub(crate) fn listen(&self, name: &str, port: &str, clock: &Clock) -> Vec<Receiver<String>> {
        let all = lock(&self.0);
        let named = all.iter().filter(|it| it.name == name && !it.is_removed);
        let with_port = named.filter(|component| component.ports().any(|it| it == port));
        with_port.map(|component| component.stats.tap.listen(port, clock.clone())).collect()
    }

    fn update<T>(
        &self,
        name: &str,
        kind: Role,
        update: impl FnOnce(&mut ComponentCounters) -> T,
    ) -> T {
        let mut all = lock(&self.0);
        let known = all.iter().position(|it| it.name == name && it.kind == kind);
        let at = known.unwrap_or_else(|| {
            let (name, stats) = (name.to_owned(), Arc::default());
            let (queue, ports, stored, is_removed) = (None, Vec::new(), None, false);
            all.push(ComponentCounters { name, kind, stats, queue, ports, stored, is_removed });
            all.len() - 1
        });
        let component = &mut all[at];
        if std::mem::take(&mut component.is_removed) {
            component.stored = None;
        }
        update(component)
    }

    /// Returns all components with their current counts, without those that were removed.
    pub(crate) fn components(&self) -> Vec<Component> {
        self.list(false)
    }

    /// Returns all components with their current counts, including those that were removed.
    pub(crate) fn all_components(&self) -> Vec<Component> {
        self.list(true)
    }

    /// Returns components with their current counts. Queues on disk are part of their sinks.
    fn list(&self, with_removed: bool) -> Vec<Component> {
        let component = |it: &ComponentCounters| Component {
            name: it.name.clone(),
            kind: it.kind,
            counts: it.stats.counts(),
            queue: it.queue.as_ref().map(Gauge::queue),
            latencies: (it.kind == Role::Sink).then(|| it.stats.deliveries.latencies()),
            replays_failed: it.stats.replays_failed.get().copied(),
            stored: it.stored.as_ref().map(|it| it.stored()),
        };
        let is_queue = |it: &&ComponentCounters| owner_of(&it.name) != it.name;
        let all = lock(&self.0);
        let all = || all.iter().filter(|it| with_removed || !it.is_removed);
        let mut components: Vec<_> = all().filter(|it| !is_queue(it)).map(component).collect();
        for queue in all().filter(is_queue) {
            let sink =
                |it: &&mut Component| it.kind == Role::Sink && it.name == owner_of(&queue.name);
            if let Some(sink) = components.iter_mut().find(sink) {
                sink.counts.add_failed(&queue.stats.counts());
            }
        }
        components
    }
}
