//! The open log of a queue, with the state that its source and its sink share.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    time::{Duration, Instant},
};

use tremor_log::{Damage, Log, Opened};
use tremor_pdk::{Acks, Result, lock};

use super::{DiskQueue, rejected::RejectedFiles};
use crate::engine::{
    control::{Control, Phase},
    retry::backoff::{Attempts, Policy},
    sync::flush_request::FlushRequest,
    tracking::stored::StoredCounters,
};
use crate::memory::Account;

/// Waits before a record is delivered again whose events were lost without an answer.
const AGAIN: Policy =
    Policy { attempts: None, first: Duration::from_millis(100), max: Duration::from_secs(30) };

/// The open log of a queue.
pub(super) struct OpenQueue {
    pub(super) log: Log,
    pub(super) path: PathBuf,
    /// Maximum bytes of a record.
    pub(super) max_record: usize,
    /// Random number of this run of the queue.
    pub(super) run: u64,
    pub(super) control: Arc<Control>,
    pub(super) counters: Arc<StoredCounters>,
    pub(super) flush_request: Arc<FlushRequest>,
    /// Files with the events that the sink refuses. Only the thread that reads for the source uses them.
    pub(super) rejected: Arc<Mutex<RejectedFiles>>,
    /// Account of the memory of records.
    pub(super) account: Arc<Account>,
    found: Opened,
    state: Mutex<State>,
    /// `true` if there may be records that the source has not read.
    has_more: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Records whose pull has not ended, by the number of the pull.
    handed_out: HashMap<u64, HandedOut>,
    /// Records that have to be delivered again, each with the time from which it may be.
    again: VecDeque<(Instant, HandedOut)>,
    /// Records with events that the sink has refused, each with the positions of these events.
    refused: VecDeque<(HandedOut, Vec<Range<usize>>)>,
    /// `true` while no record can be read before others are settled.
    waits_for_settlement: bool,
    /// `true` once nothing more is appended.
    has_ended: bool,
    /// The task of the source, while it waits.
    source: Option<Waker>,
}

/// A record that the source has handed out.
pub(super) struct HandedOut {
    pub(super) number: u64,
    pub(super) events: u64,
    /// Deliveries without an answer; `None` if there was none.
    attempts: Option<Box<Attempts>>,
}

impl HandedOut {
    pub(super) fn new(number: u64, events: u64) -> Self {
        Self { number, events, attempts: None }
    }
}

impl OpenQueue {
    pub(super) fn new(queue: &DiskQueue, log: Log, found: Opened) -> Self {
        let DiskQueue { path, max_bytes, control, counters, flush_request, account, .. } = queue;
        counters.opened(found.events);
        Self {
            max_record: usize::try_from(log.max_record()).unwrap_or(usize::MAX),
            log,
            path: path.clone(),
            run: RandomState::new().hash_one(path),
            control: control.clone(),
            counters: counters.clone(),
            flush_request: flush_request.clone(),
            rejected: Arc::new(Mutex::new(RejectedFiles::new(path, *max_bytes))),
            account: account.clone(),
            found,
            state: Mutex::default(),
            has_more: AtomicBool::new(true),
        }
    }

    /// Logs what the queue contained when it was opened, and what was damaged.
    pub(super) fn report(&self, component: &str) {
        let Self { found: Opened { records, bytes, events, damage, .. }, path, .. } = self;
        let path = path.display();
        tracing::info!(component, %path, records, events, bytes, "opened the queue on disk");
        for Damage { kind, path, from, to, records, kept } in damage {
            let (file, kept) = (path.display(), kept.as_ref().map(|it| it.display().to_string()));
            if kind.is_certain() {
                tracing::error!(
                    component, ?kind, %file, from, to, records, kept,
                    "a part of the queue on disk is damaged; events in it may be lost"
                );
            } else {
                tracing::warn!(
                    component, ?kind, %file, from, to, records, kept,
                    "a part of the queue on disk was cut off, as after a crash"
                );
            }
        }
    }

    /// Forgets the records that an earlier connection has handed out, because the source of this connection reads them
    /// again.
    pub(super) fn begin_connection(&self) {
        let mut state = lock(&self.state);
        state.handed_out.clear();
        state.again.clear();
        state.refused.clear();
        state.waits_for_settlement = false;
        self.set_has_more();
    }

    /// Records that a record became durable.
    pub(super) fn added(&self, events: u64) {
        self.counters.add(events);
        self.set_has_more();
        self.wake_source();
    }

    /// Records that nothing more is appended.
    pub(super) fn end_input(&self) {
        lock(&self.state).has_ended = true;
        self.set_has_more();
        self.wake_source();
    }

    fn wake_source(&self) {
        let source = lock(&self.state).source.take();
        source.into_iter().for_each(Waker::wake);
    }

    /// Wakes the task of `context` when the answer of another function of the source may have changed.
    pub(super) fn register(&self, context: &Context<'_>) {
        lock(&self.state).source = Some(context.waker().clone());
    }

    /// Returns whether there may be records that were not read, and resets it. Call this before reading.
    pub(super) fn take_has_more(&self) -> bool {
        self.has_more.swap(false, Ordering::AcqRel)
    }

    /// Lets the source read again.
    pub(super) fn set_has_more(&self) {
        self.has_more.store(true, Ordering::Release);
    }

    /// Records that a reader returned no record. If that is so because too few records are settled, the next settled one
    /// makes the source read again.
    pub(super) fn read_nothing(&self) {
        if !self.log.is_at_limit_of_ranges() {
            return;
        }
        lock(&self.state).waits_for_settlement = true;
        // Records may have been settled since the first check.
        if !self.log.is_at_limit_of_ranges() {
            self.set_has_more();
        }
    }

    /// Records that the pull `pull` hands out a record.
    pub(super) fn hand_out(&self, pull: u64, record: HandedOut) {
        lock(&self.state).handed_out.insert(pull, record);
    }

    /// Returns whether all records that were handed out are settled.
    pub(super) fn is_settled(&self) -> bool {
        let state = lock(&self.state);
        state.handed_out.is_empty() && state.again.is_empty() && state.refused.is_empty()
    }

    /// Returns whether the source waits until records are settled, although it has more or nothing more is appended.
    pub(super) fn waits_for_settlement(&self) -> bool {
        let state = lock(&self.state);
        state.waits_for_settlement || state.has_ended
    }

    /// Returns whether nothing more is appended.
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).has_ended
    }

    /// Removes and returns a record that is to be delivered again at `now`, if there is one.
    pub(super) fn take_again(&self, now: Instant) -> Option<HandedOut> {
        let again = &mut lock(&self.state).again;
        let due = again.iter().position(|(at, _)| *at <= now)?;
        again.remove(due).map(|(_, record)| record)
    }

    /// Removes and returns a record with events that the sink has refused, and the positions of these events.
    pub(super) fn take_refused(&self) -> Option<(HandedOut, Vec<Range<usize>>)> {
        lock(&self.state).refused.pop_front()
    }

    /// Adds a record with events that the sink has refused, which are not kept yet.
    pub(super) fn refuse(&self, record: HandedOut, positions: Vec<Range<usize>>) {
        lock(&self.state).refused.push_back((record, positions));
        self.wake_source();
    }

    /// Returns the time of the next record that is to be delivered again.
    pub(super) fn next_again(&self) -> Option<Instant> {
        lock(&self.state).again.iter().map(|(at, _)| *at).min()
    }

    /// Schedules another delivery of a record.
    pub(super) fn deliver_again(&self, mut record: HandedOut) {
        let attempts = record.attempts.get_or_insert_with(|| Box::new(Attempts::new(AGAIN)));
        attempts.fail();
        let at = self.control.clock().now() + attempts.wait();
        lock(&self.state).again.push_back((at, record));
        self.wake_source();
    }

    /// Settles a record: the queue no longer needs it.
    pub(super) fn settle(&self, record: &HandedOut) {
        self.log.settle(record.number);
        self.counters.settle(record.events);
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.waits_for_settlement) {
            self.set_has_more();
        }
        let source = state.source.take();
        drop(state);
        source.into_iter().for_each(Waker::wake);
    }

    fn take(&self, pull: u64) -> Option<HandedOut> {
        lock(&self.state).handed_out.remove(&pull)
    }
}

/// Receives the ends of the pulls of a queue's source.
pub(super) struct QueueAcks(pub(super) Arc<OpenQueue>);

impl Acks for QueueAcks {
    /// Returns `false`, because events that the sink refuses are kept beside the queue.
    fn replays_failed(&self) -> bool {
        false
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        if let Some(record) = self.0.take(pull) {
            self.0.settle(&record);
        }
        Ok(())
    }

    /// Keeps the events beside the queue. In a drain, the record stays in the queue, because its events may have failed
    /// only because the flow ends.
    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        if let Some(record) = self.0.take(pull)
            && !self.0.control.has_reached(Phase::Draining)
        {
            self.0.refuse(record, events.to_vec());
        }
        Ok(())
    }

    fn fail_unknown(&mut self, pull: u64, _: Range<usize>) -> Result<()> {
        if let Some(record) = self.0.take(pull)
            && !self.0.control.has_reached(Phase::Draining)
        {
            self.0.deliver_again(record);
        }
        Ok(())
    }
}
