//! The open log of a queue, with the state that its source and its sink share.

use std::{
    collections::{HashMap, HashSet, VecDeque},
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

use tremor_abi::batch::HostBatch;
use tremor_log::{Closed, Damage, Log, Opened, Status};
use tremor_pdk::{Acks, Batch, Result, lock};

use super::{
    DiskQueue,
    age::Ages,
    identity::Identity,
    recent::{Recent, RecentBatch},
    record::RecordReader,
    rejected::RejectedFiles,
};
use crate::engine::{
    control::{Control, Phase},
    retry::backoff::{Attempts, Policy},
    sync::flush_request::FlushRequest,
    tracking::{stats::Stats, stored::StoredCounters},
};
use crate::flow::WhenFull;
use crate::memory::Account;

/// Waits before a record is delivered again whose events were lost without an answer.
const AGAIN: Policy =
    Policy { attempts: None, first: Duration::from_millis(100), max: Duration::from_secs(30) };

/// Time after which a source that waits until records are settled is reported. Each start of a run waits for a moment.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The open log of a queue.
pub(super) struct OpenQueue {
    pub(super) log: Log,
    pub(super) path: PathBuf,
    /// Name of the sink to which the queue belongs.
    pub(super) sink: Arc<str>,
    pub(super) when_full: WhenFull,
    /// Metrics of the sink of the queue.
    pub(super) stats: Arc<Stats>,
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
    /// `None` unless events get metadata by which a peer recognises repeated ones.
    pub(super) identity: Option<Identity>,
    ages: Mutex<Ages>,
    /// The batches that the source takes instead of reading their records.
    pub(super) recent: Recent,
    state: Mutex<State>,
    /// `true` if there may be records that the source has not read, and whose batches are not retained.
    has_more: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Records whose pull has not ended, by the number of the pull.
    handed_out: HashMap<u64, HandedOut>,
    /// Numbers of the records that were handed out and are not settled. They are not dropped.
    taken: HashSet<u64>,
    /// Number of connections so far.
    connections: u64,
    /// Number of the last record that was dropped. Earlier ones that were not handed out are gone too.
    dropped_to: u64,
    /// Records that have to be delivered again, each with the time from which it may be.
    again: VecDeque<(Instant, HandedOut)>,
    /// Records with events that the sink has refused, each with the positions of these events.
    refused: VecDeque<(HandedOut, Vec<Range<usize>>)>,
    /// `true` while no record can be read before others are settled.
    waits_for_settlement: bool,
    /// Time since which the source waits until records are settled.
    waits_since: Option<Instant>,
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
    pub(super) fn new(
        queue: &DiskQueue,
        log: Log,
        found: Opened,
        identity: Option<Identity>,
    ) -> Self {
        let DiskQueue { path, max_bytes, control, counters, flush_request, account, .. } = queue;
        let DiskQueue { sink, when_full, stats, .. } = queue;
        counters.opened(found.events);
        let status = log.status();
        let rejected = RejectedFiles::new(path, *max_bytes, status.settled);
        Self {
            max_record: usize::try_from(log.max_record()).unwrap_or(usize::MAX),
            path: path.clone(),
            sink: sink.clone(),
            when_full: *when_full,
            stats: stats.clone(),
            run: RandomState::new().hash_one(path),
            control: control.clone(),
            counters: counters.clone(),
            flush_request: flush_request.clone(),
            rejected: Arc::new(Mutex::new(rejected)),
            account: account.clone(),
            ages: Mutex::new(Ages::new(oldest(&log))),
            recent: Recent::new(status.durable, account.clone()),
            log,
            found,
            identity,
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

    /// Closes the log, also if records that wait for the disk still use the queue. Returns an upper bound of the number
    /// of records that have ended and may be delivered again by the next run, and reports them. Blocks the thread.
    pub(super) fn close(&self, component: &str) -> u64 {
        // Ends the connection, so that a thread that drops records drops no further one: it would not become durable.
        lock(&self.state).connections += 1;
        let Closed { may_return, failure } = self.log.close();
        if may_return > 0 {
            tracing::warn!(
                component, path = %self.path.display(), records = may_return, error = failure,
                "could not write to the disk which records of the queue have ended; the next run may deliver their \
                 events again, although this run does not count them as stored"
            );
        }
        may_return
    }

    /// Forgets the records that an earlier connection has handed out, because the source of this connection reads them
    /// again.
    pub(super) fn begin_connection(&self) {
        self.recent.release();
        let mut state = lock(&self.state);
        state.handed_out.clear();
        state.again.clear();
        state.refused.clear();
        state.taken.clear();
        // The log no longer returns what was dropped, and what was handed out is not dropped.
        state.dropped_to = 0;
        state.connections += 1;
        state.waits_for_settlement = false;
        state.waits_since = None;
        self.set_has_more();
    }

    /// Sets the numbers of the queue that change without an event: bytes, damage, and the age of the oldest event.
    pub(super) fn update_condition(&self, status: &Status) {
        let certain = self.found.damage.iter().filter(|it| it.kind.is_certain()).count();
        let now = self.control.clock().now_ns();
        let oldest = (self.counters.stored().now > 0)
            .then(|| lock(&self.ages).oldest(status.settled, now))
            .flatten();
        let damaged = status.damaged_parts + certain as u64;
        self.counters.set_condition(status.live_bytes, damaged, oldest);
    }

    /// Records that the record `number` became durable, and retains its batch if possible.
    pub(super) fn added(&self, number: u64, events: u64, batch: Option<Batch>) {
        lock(&self.ages).add(number, self.control.clock().now_ns());
        self.counters.add(events);
        if !self.recent.add(number, batch) {
            self.set_has_more();
        }
        self.wake_source();
    }

    /// Records that nothing more is appended.
    pub(super) fn end_input(&self) {
        lock(&self.state).has_ended = true;
        self.set_has_more();
        self.wake_source();
    }

    /// Removes and returns the batch of the first record after `last`, which is the last one that the source has. Returns
    /// `None` if the record has to be read, or if no record can be handed out before others are settled.
    pub(super) fn take_recent(&self, last: u64) -> Option<RecentBatch> {
        if !self.recent.has_next(last) {
            return None;
        }
        if self.log.is_at_limit_of_ranges() {
            self.read_nothing();
            return None;
        }
        self.recent.take(last)
    }

    /// Releases the retained batches unless the source takes them. Call this from time to time.
    pub(super) fn release_unused(&self) {
        if self.recent.release_unused() {
            self.set_has_more();
            self.wake_source();
        }
    }

    fn wake_source(&self) {
        let source = lock(&self.state).source.take();
        source.into_iter().for_each(Waker::wake);
    }

    /// Wakes the task of `context` when the answer of another function of the source may have changed.
    pub(super) fn register(&self, context: &Context<'_>) {
        lock(&self.state).source = Some(context.waker().clone());
    }

    /// Returns whether there may be records that have to be read, and resets it. Call this before reading.
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

    /// Marks a record as handed out, so that it is not dropped. Returns `false` if the record was dropped.
    pub(super) fn take_out(&self, number: u64) -> bool {
        let mut state = lock(&self.state);
        let is_there = number > state.dropped_to;
        if is_there {
            state.taken.insert(number);
        }
        is_there
    }

    /// Returns the number of the current connection.
    pub(super) fn connection(&self) -> u64 {
        lock(&self.state).connections
    }

    /// Drops a record with this number of events, because the queue is full. Returns `Some(false)` if the record was
    /// handed out, and `None` if `connection` has ended. Call this in ascending order within a connection.
    pub(super) fn drop_record(&self, connection: u64, number: u64, events: u64) -> Option<bool> {
        let mut state = lock(&self.state);
        if state.connections != connection {
            return None;
        }
        // A record that was handed out may be settled since the caller has read it. It is settled before it leaves `taken`.
        if state.taken.contains(&number) || self.log.is_settled(number) {
            return Some(false);
        }
        state.dropped_to = number;
        // Settled before the connection can end, because the log may be closed then.
        self.log.settle(number);
        drop(state);
        self.recent.drop_to(number);
        self.end_record(number, events);
        Some(true)
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

    /// Sets whether the source waits until records are settled. While it does, the sink delivers what it has. Returns
    /// `true` if the source has begun to wait: it has to check again, because it was not woken by what was settled before.
    pub(super) fn set_waits(&self, waits: bool) -> bool {
        self.flush_request.set(waits);
        let since = &mut lock(&self.state).waits_since;
        let waited = since.is_some();
        *since = waits.then(|| since.unwrap_or_else(|| self.control.clock().now()));
        waits && !waited
    }

    /// Returns whether the source has waited for long until records are settled, although it has more.
    pub(super) fn waits_for_long(&self) -> bool {
        let state = lock(&self.state);
        let since = state.waits_since.filter(|_| !state.has_ended);
        since.is_some_and(|since| self.control.clock().elapsed(since) >= LONG_WAIT)
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
        self.end_record(record.number, record.events);
    }

    fn end_record(&self, number: u64, events: u64) {
        self.log.settle(number);
        self.counters.settle(events);
        let mut state = lock(&self.state);
        state.taken.remove(&number);
        let waited = std::mem::take(&mut state.waits_for_settlement);
        if waited {
            self.set_has_more();
        }
        let is_waiting = waited || state.waits_since.is_some();
        let source = if is_waiting { state.source.take() } else { None };
        drop(state);
        source.into_iter().for_each(Waker::wake);
    }

    fn take(&self, pull: u64) -> Option<HandedOut> {
        lock(&self.state).handed_out.remove(&pull)
    }
}

/// Returns the number of the oldest record of a log, and the time in ns at which its first event was read.
fn oldest(log: &Log) -> Option<(u64, u64)> {
    let record = log.reader().next().ok()??;
    let stored = RecordReader::default().read(record.number, &record.bytes).ok()?;
    Some((record.number, stored.batch.events().first()?.ingest_ns))
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
            self.0.counters.redeliver(record.events);
            self.0.deliver_again(record);
        }
        Ok(())
    }
}
