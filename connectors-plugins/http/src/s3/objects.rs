//! The objects that gather events, by the text of the template for their events.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tremor_pdk::{
    Counter, Exceptions, Gauge, Host, RawBatch, Task, lock, oneshot, template::TimeCache,
};

use super::{
    object::{Object, Stored, Storing},
    requests::Client,
    state::State,
};

/// Maximum age of objects after one could not be stored, so that the state of the connector follows that of the server.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The objects that gather events. At most a fixed number of them gathers at the same time.
pub(super) struct Objects {
    host: Host,
    client: Arc<Client>,
    state: Option<Arc<State>>,
    open: Mutex<Open>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    by_name: HashMap<Arc<str>, Entry>,
    /// Tasks of all objects, also of those that are being stored.
    tasks: Vec<(Arc<Object>, Task)>,
    /// Number of the last object.
    number: u64,
    /// Number of the last use of an object.
    used: u64,
    cache: TimeCache,
}

struct Entry {
    object: Arc<Object>,
    /// By the monotonic clock, in ns.
    began_ns: u64,
    /// Number of the last use.
    used: u64,
}

struct Metrics {
    open: Gauge,
    stored: Counter,
    stored_bytes: Counter,
    failed: Counter,
    /// `true` if the last object could not be stored.
    has_failed: AtomicBool,
}

/// Events of a delivery that are in one object.
pub(super) struct Share {
    pub(super) answer: oneshot::Receiver<Stored>,
    /// Positions of the events in the batch.
    pub(super) events: Vec<usize>,
}

impl Objects {
    pub(super) fn new(host: &Host, client: Arc<Client>, state: Option<Arc<State>>) -> Self {
        let metrics = Metrics {
            open: host.gauge("objects_open", "Objects that gather events."),
            stored: host.counter("objects_stored", "Objects that were stored."),
            stored_bytes: host
                .counter("objects_bytes", "Bytes of events in stored objects, before compression."),
            failed: host.counter(
                "objects_failed",
                "Objects that could not be stored, so that their events are delivered again.",
            ),
            has_failed: AtomicBool::new(false),
        };
        Self {
            host: host.clone(),
            client,
            state,
            open: Mutex::default(),
            metrics: Arc::new(metrics),
        }
    }

    /// Adds the events of a batch to their objects. Events without a key are added to `exceptions` instead.
    pub(super) fn gather(&self, batch: &RawBatch, exceptions: &mut Exceptions) -> Vec<Share> {
        let open = &mut *lock(&self.open);
        let keys = &self.client.settings.keys;
        let mut groups: Vec<(Arc<str>, Vec<usize>)> = Vec::new();
        let mut numbers: HashMap<Arc<str>, usize> = HashMap::new();
        let (mut name, mut last) = (String::new(), 0);
        for (position, event) in batch.iter().enumerate() {
            name.clear();
            if let Err(error) = keys.render(event.into(), &mut name, &mut open.cache) {
                exceptions.reject(event, error);
                continue;
            }
            // Events of one object often follow each other.
            let is_last = groups.get(last).is_some_and(|(it, _)| **it == *name);
            let known = if is_last { Some(last) } else { numbers.get(&*name).copied() };
            last = known.unwrap_or_else(|| {
                let name = Arc::<str>::from(&*name);
                numbers.insert(name.clone(), groups.len());
                groups.push((name, Vec::new()));
                groups.len() - 1
            });
            groups[last].1.push(position);
        }
        let shares = groups.into_iter().map(|(name, events)| {
            let answer = self.append(open, &name, batch, &events);
            Share { answer, events }
        });
        let shares = shares.collect();
        self.metrics.open.set_integer(open.by_name.len());
        shares
    }

    /// Adds events to the open object with a name, or to a new one.
    fn append(
        &self,
        open: &mut Open,
        name: &Arc<str>,
        batch: &RawBatch,
        events: &[usize],
    ) -> oneshot::Receiver<Stored> {
        open.used += 1;
        loop {
            let used = open.used;
            let entry = match open.by_name.get_mut(name) {
                Some(entry) => entry,
                None => self.begin(open, name),
            };
            entry.used = used;
            let payloads = events.iter().filter_map(|position| Some(batch.get(*position)?.raw()));
            match entry.object.append(payloads) {
                Some((answer, length)) => {
                    if length >= self.client.settings.config.rotate.max_bytes.get() {
                        entry.object.complete();
                        open.by_name.remove(name);
                    }
                    return answer;
                }
                // The object has failed while it gathered events.
                None => drop(open.by_name.remove(name)),
            }
        }
    }

    /// Begins an object. Completes the object that was not used for the longest time if too many are open.
    fn begin<'o>(&self, open: &'o mut Open, name: &Arc<str>) -> &'o mut Entry {
        let settings = &self.client.settings;
        if open.by_name.len() >= settings.config.max_open_objects.get()
            && let Some(oldest) = open
                .by_name
                .iter()
                .min_by_key(|(_, entry)| entry.used)
                .map(|(name, _)| name.clone())
            && let Some(entry) = open.by_name.remove(&oldest)
        {
            entry.object.complete();
        }
        open.tasks.retain(|(object, _)| !object.is_done());
        open.number += 1;
        let key = settings.keys.unique(name, self.host.now_ns(), open.number);
        let object = Arc::new(Object::new(&self.host, key));
        let storing = Storing {
            object: object.clone(),
            client: self.client.clone(),
            state: self.state.clone(),
        };
        let metrics = self.metrics.clone();
        let task = self.host.spawn("stores an object", async move {
            let (stored, length) = storing.run().await;
            metrics.has_failed.store(stored.is_err(), Ordering::Relaxed);
            if stored.is_ok() {
                metrics.stored.add(1);
                metrics.stored_bytes.add(length);
            } else {
                metrics.failed.add(1);
            }
        });
        open.tasks.push((object.clone(), task));
        let entry = Entry { object, began_ns: self.host.monotonic_ns(), used: open.used };
        open.by_name.entry(name.clone()).insert_entry(entry).into_mut()
    }

    /// Completes the objects that have reached their age.
    pub(super) fn complete_old(&self) {
        let mut most = self.client.settings.config.rotate.every.get();
        if self.metrics.has_failed.load(Ordering::Relaxed) {
            most = most.min(AFTER_FAILURE);
        }
        let (now_ns, most_ns) = (self.host.monotonic_ns(), most.as_nanos());
        self.complete(|entry| u128::from(now_ns.saturating_sub(entry.began_ns)) >= most_ns);
    }

    /// Completes all objects, and waits until each of them is stored or has failed: all deliveries are answered.
    pub(super) async fn store_all(&self) {
        self.complete(|_| true);
        let waits: Vec<_> =
            lock(&self.open).tasks.iter().filter_map(|(object, _)| object.wait()).collect();
        for stored in waits {
            // The deliveries report the failure.
            _ = stored.await;
        }
    }

    fn complete(&self, is_complete: impl Fn(&Entry) -> bool) {
        let mut open = lock(&self.open);
        open.by_name.retain(|_, entry| {
            let is_complete = is_complete(entry);
            if is_complete {
                entry.object.complete();
            }
            !is_complete
        });
        open.tasks.retain(|(object, _)| !object.is_done());
        self.metrics.open.set_integer(open.by_name.len());
    }
}
