//! The current call of a component, as the watchdog sees it.
//!
//! A single word contains the current call, whether the call is unanswered, and whether a thread is inside it. The code
//! that calls the component writes the word with two relaxed stores for each poll, and reads no clock. A third store
//! names the thread. The watchdog samples the word. A word that does not change between samples shows a long call.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use tremor_pdk::lock;

use super::{limit::Limit, word::Word};

/// Bit that is set while a thread is inside the call.
const INSIDE: u64 = 1;
/// Bit that is set while the call is unanswered.
const OPEN: u64 = 1 << 1;
/// Bits that contain the kind of the call.
const CALL: u64 = 0x3f << CALL_AT;
const CALL_AT: u32 = 2;
/// Bits that contain the number of polls, so that two polls of a call differ. The number wraps.
const POLLS: u64 = 0x00ff_ffff << POLLS_AT;
const POLLS_AT: u32 = 8;
/// Number of polls of an unanswered call within one sample from which the call counts as busy: 10,000 a second. A call
/// that transfers data is answered long before that many polls.
const BUSY: u64 = 500;
/// Position of the number of calls, which makes two calls differ. The number wraps.
const CALLS_AT: u32 = 32;

macro_rules! calls {
    ($($name:ident => $text:literal,)*) => {
        /// A call into a plugin, or a turn, which is one poll of a task that belongs to the runtime.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Call {
            $(
                #[doc = concat!("`", $text, "`.")]
                $name,
            )*
        }

        impl Call {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name of the call in log lines: for a call into a plugin, the name of the method in
            /// `tremor-pdk`.
            const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

calls! {
    New => "new",
    Connect => "connect",
    Start => "on_start",
    Pause => "on_pause",
    Resume => "on_resume",
    Pull => "pull",
    Acks => "acks",
    Acknowledge => "ack",
    Fail => "fail",
    Close => "close",
    CircuitBreaker => "on_circuit_breaker",
    Demand => "demand",
    Grant => "on_grant",
    Deliver => "deliver",
    Flushed => "deliver",
    Tick => "on_tick",
    Flush => "flush",
    CloseSink => "close",
    Process => "process",
    Time => "on_time",
    Due => "due",
    HasMore => "has_more",
    Buffers => "buffers",
    Streams => "streams",
    Decode => "decode",
    Encode => "encode",
    Task => "a task",
    Drop => "drop",
    Turn => "one poll",
}

impl Call {
    /// Returns whether the call has to be answered at some time. A pull may wait for events without a limit, and a task
    /// may run as long as its component.
    pub(super) const fn is_to_be_answered(self) -> bool {
        !matches!(self, Self::Pull | Self::Task | Self::Turn)
    }

    /// Returns whether many polls without an answer are normal, because the call may have much to do.
    pub(super) const fn may_be_busy(self) -> bool {
        matches!(self, Self::Task | Self::Turn)
    }

    /// Returns whether the instance exists before and after the call. If another call takes too long, replacing the
    /// instance does not help.
    pub(super) const fn is_within_life(self) -> bool {
        !matches!(self, Self::New | Self::Close | Self::Drop | Self::Task | Self::Turn)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The calls of one component or of one side of a connector. A record has one call at a time.
pub(crate) struct Record {
    word: Word,
    /// Number of events of the last delivery.
    events: AtomicUsize,
    /// Name of the component in the flow.
    pub(super) component: Box<str>,
    /// Part of the component, such as ``operator `vrl` ``; `None` for the connector itself.
    pub(super) part: Option<Box<str>>,
    /// Limit for calls that block their thread and return, if there is one.
    pub(super) limit: Option<Limit>,
    seen: Mutex<Seen>,
}

/// Observations of the watchdog about a record.
#[derive(Debug, Default)]
pub(super) struct Seen {
    word: u64,
    /// Number of consecutive samples, after the first, in which a thread was inside the same poll.
    pub(super) blocked: u32,
    /// Call that a thread was inside in earlier samples and that has returned since, with the value of `blocked` at
    /// that time.
    pub(super) returned: Option<(Call, u32)>,
    /// Number of consecutive samples, after the first, in which the same call was unanswered.
    pub(super) open: u32,
    /// Number of samples in which the same call was polled at least [`BUSY`] times, less the number of other samples.
    /// The thread of a busy call may have no processor for a while.
    pub(super) busy: u32,
    /// `true` if a thread was in the call since the sample before.
    pub(super) was_entered: bool,
    /// `true` if the current call was reported.
    pub(super) reported: bool,
}

/// An unanswered call. `inside` is `true` while a thread is in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) call: Call,
    pub(super) inside: bool,
}

impl Record {
    pub(super) fn new(
        component: &str,
        part: Option<&str>,
        limit: Option<Limit>,
        word: Word,
    ) -> Self {
        // A record that no longer exists may have used the word before.
        word.store(0, Ordering::Relaxed);
        Self {
            word,
            events: AtomicUsize::new(0),
            component: component.into(),
            part: part.map(Into::into),
            limit,
            seen: Mutex::default(),
        }
    }

    /// Marks the start of a call. The previous call counts as ended.
    pub(super) fn enter(&self, call: Call) -> Inside<'_> {
        let next = (self.word.load(Ordering::Relaxed) >> CALLS_AT).wrapping_add(1);
        self.store(next << CALLS_AT | (call as u64) << CALL_AT | OPEN | INSIDE)
    }

    /// Marks the next poll of the unanswered call, or the start of `call` if no call is unanswered.
    pub(super) fn poll(&self, call: Call) -> Inside<'_> {
        let word = self.word.load(Ordering::Relaxed);
        if word & OPEN == 0 {
            return self.enter(call);
        }
        let polls = word.wrapping_add(1 << POLLS_AT) & POLLS;
        self.store(word & !POLLS | polls | INSIDE)
    }

    /// Marks a poll of a delivery of `events` events; see [`Record::poll`].
    pub(super) fn poll_deliver(&self, events: usize) -> Inside<'_> {
        let inside = self.poll(Call::Deliver);
        if events > 0 {
            // While a delivery is pending, the plugin owns its events, so the batch is empty.
            self.events.store(events, Ordering::Relaxed);
        }
        inside
    }

    /// Records that the sink answered a flush. Returns `true` if the delivery of this record is still unanswered.
    /// Counts the call as a [`Flushed`](Call::Flushed) call from now on.
    pub(super) fn flushed(&self) -> bool {
        let is_open = self.state().is_some_and(|state| state.call == Call::Deliver);
        if is_open {
            self.enter(Call::Flushed).leave(false);
        }
        is_open
    }

    fn store(&self, word: u64) -> Inside<'_> {
        // The caller is the only writer of the word.
        self.word.enter();
        self.word.store(word, Ordering::Relaxed);
        Inside { record: self, after: word & !(OPEN | INSIDE) }
    }

    /// Marks the unanswered call as cancelled.
    pub(super) fn close(&self) {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word & !(OPEN | INSIDE), Ordering::Relaxed);
    }

    /// Returns whether the last call was a turn, not a call into a plugin.
    pub(super) fn is_of_runtime(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CALL == (Call::Turn as u64) << CALL_AT
    }

    /// Returns the thread that has been inside the same poll since the last sample, if there is one.
    pub(super) fn blocked_thread(&self, seen: &Seen) -> Option<u32> {
        let word = self.word.load(Ordering::Relaxed);
        (word & INSIDE != 0 && word == seen.word).then(|| self.word.thread())
    }

    /// Returns the number of events of the last delivery.
    pub(super) fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Returns the unanswered call, if there is one.
    pub(super) fn state(&self) -> Option<State> {
        State::of(self.word.load(Ordering::Relaxed))
    }

    /// Returns the last call, even if it was answered. Returns `None` before the first call.
    pub(super) fn last_call(&self) -> Option<Call> {
        let word = self.word.load(Ordering::Relaxed);
        State::of(word | OPEN).map(|state| state.call).filter(|_| word != 0)
    }

    /// Samples the record. If a call that was reported has ended since, returns the call and the number of samples that
    /// it took.
    pub(super) fn sample(&self, seen: &mut Seen) -> Option<(Call, u32)> {
        let word = self.word.load(Ordering::Relaxed);
        let last = std::mem::replace(&mut seen.word, word);
        let before = std::mem::take(&mut seen.blocked);
        seen.returned = None;
        seen.was_entered = word != last || word & INSIDE != 0;
        if word & INSIDE != 0 && word == last {
            seen.blocked = before.saturating_add(1);
        } else if before > 0 {
            seen.returned = State::of(last).map(|state| (state.call, before));
        }
        let is_same = word >> CALLS_AT == last >> CALLS_AT && word & last & OPEN != 0;
        if is_same {
            seen.open = seen.open.saturating_add(1);
            let polls = (word & POLLS).wrapping_sub(last & POLLS) & POLLS;
            let is_busy = polls >> POLLS_AT >= BUSY;
            seen.busy =
                if is_busy { seen.busy.saturating_add(1) } else { seen.busy.saturating_sub(1) };
            return None;
        }
        seen.busy = 0;
        let lasted = std::mem::take(&mut seen.open);
        let was_reported = std::mem::take(&mut seen.reported);
        State::of(last).filter(|_| was_reported).map(|state| (state.call, lasted))
    }
}

/// Returns whether the word belongs to a task that is not being polled. The record of such a task cannot change before
/// the next poll.
pub(super) fn is_idle(word: &Word) -> bool {
    const IDLE: u64 = (Call::Task as u64) << CALL_AT | OPEN;
    word.load(Ordering::Relaxed) & (CALL | OPEN | INSIDE) == IDLE
}

impl State {
    fn of(word: u64) -> Option<Self> {
        let call = usize::try_from((word & CALL) >> CALL_AT).ok();
        let call = call.filter(|_| word & OPEN != 0).and_then(|call| Call::ALL.get(call));
        call.map(|call| Self { call: *call, inside: word & INSIDE != 0 })
    }
}

/// Marks that a thread is in a call, until the value is dropped.
pub(super) struct Inside<'r> {
    record: &'r Record,
    /// Word to store when the thread leaves the call.
    after: u64,
}

impl Inside<'_> {
    /// Ends the poll, and the call as well if `has_answered` is `true`.
    pub(super) fn leave(mut self, has_answered: bool) {
        if !has_answered {
            self.after |= OPEN;
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.record.word.store(self.after, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::word::Words, Call, Ordering, Record, Seen, State};

    fn record(component: &str) -> Record {
        Record::new(component, None, None, Words::default().take())
    }

    /// Samples the record. Returns the numbers of consecutive samples, after the first, with the same poll and with the
    /// same unanswered call.
    fn sample(record: &Record, seen: &mut Seen) -> (u32, u32) {
        record.sample(seen);
        (seen.blocked, seen.open)
    }

    #[test]
    fn long_call_is_distinguished_from_consecutive_calls() {
        let (record, mut seen) = (record("input"), Seen::default());
        for _ in 0..3 {
            let _inside = record.enter(Call::Pull);
            assert_eq!(sample(&record, &mut seen), (0, 0), "each sample sees another call");
        }
        let _inside = record.enter(Call::Pull);
        let samples = [(0, 0), (1, 1), (2, 2)];
        assert_eq!(samples.map(|_| sample(&record, &mut seen)), samples);
    }

    #[test]
    fn repeatedly_polled_call_is_unanswered_and_blocks_no_thread() {
        let (record, mut seen) = (record("output"), Seen::default());
        for open in 0..3 {
            let inside = record.poll_deliver(7);
            assert_eq!(sample(&record, &mut seen), (0, open * 2), "another poll");
            inside.leave(false);
            assert_eq!(
                sample(&record, &mut seen),
                (0, open * 2 + 1),
                "no thread is inside the call"
            );
        }
        assert_eq!(record.events(), 7);
        record.poll(Call::Deliver).leave(true);
        assert_eq!(sample(&record, &mut seen), (0, 0), "the call was answered");
        assert_eq!(record.state(), None);
    }

    #[test]
    fn end_of_reported_call_is_returned_once() {
        let (record, mut seen) = (record("output"), Seen::default());
        record.poll_deliver(1).leave(false);
        for _ in 0..3 {
            assert_eq!(record.sample(&mut seen), None);
        }
        seen.reported = true;
        record.poll_deliver(0).leave(true);
        assert_eq!(record.sample(&mut seen), Some((Call::Deliver, 2)));
        assert_eq!(record.sample(&mut seen), None);
    }

    #[test]
    fn every_call_is_distinguished() {
        let record = record("input");
        for call in Call::ALL {
            let _inside = record.enter(*call);
            assert_eq!(record.state(), Some(State { call: *call, inside: true }));
        }
        assert_eq!(record.state(), None);
    }

    #[test]
    fn record_works_after_counters_wrap() {
        let record = record("output");
        let open = |call| Some(State { call, inside: false });
        let last = !(super::INSIDE | super::CALL) | (Call::Deliver as u64) << super::CALL_AT;
        record.word.store(last, Ordering::Relaxed);
        record.poll(Call::Deliver).leave(false);
        assert_eq!(record.state(), open(Call::Deliver));
        record.enter(Call::Tick).leave(false);
        assert_eq!(record.state(), open(Call::Tick));
    }
}
