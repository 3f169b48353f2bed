//! What a component of a plugin is doing, as far as whoever looks from outside can tell.
//!
//! One word says it: which call, whether it is unanswered, and whether a thread is in it. Whoever
//! calls writes the word, with two relaxed stores a poll and no clock; the watchdog reads it from
//! time to time, and knows a call that lasts by a word that stays.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{limit::Limit, word::Word};
use crate::lock::lock;

/// A thread is in the call.
const INSIDE: u64 = 1;
/// The call has not been answered.
const OPEN: u64 = 1 << 1;
/// Which call it is.
const CALL: u64 = 0x3f << CALL_AT;
const CALL_AT: u32 = 2;
/// How often it was polled, modulo the field's size: two polls of a call differ.
const POLLS: u64 = 0x00ff_ffff << POLLS_AT;
const POLLS_AT: u32 = 8;
/// How many calls there were, modulo the field's size: two calls differ.
const CALLS_AT: u32 = 32;

macro_rules! calls {
    ($($name:ident => $text:literal,)*) => {
        /// A call into a plugin, or a poll of a task of the runtime's own.
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

            /// Its name, as authors know it.
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
    Holds => "holds",
    Streams => "streams",
    Decode => "decode",
    Encode => "encode",
    Task => "a task",
    Drop => "drop",
    Turn => "one turn",
}

impl Call {
    /// Whether it is to be answered some day: a pull waits for events, and a task may run for as
    /// long as its component does.
    pub(super) const fn is_to_be_answered(self) -> bool {
        !matches!(self, Self::Pull | Self::Task | Self::Turn)
    }

    /// Whether the instance is there before it and goes on after it, so that another may do better.
    pub(super) const fn is_within_life(self) -> bool {
        !matches!(self, Self::New | Self::Close | Self::Drop | Self::Task | Self::Turn)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The record of one component, or of one side of a connector: one call at a time.
pub(crate) struct Record {
    word: Word,
    /// How many events the delivery has.
    events: AtomicUsize,
    /// The component's name in the flow.
    pub(super) component: Box<str>,
    /// What of it, where that is not the connector itself: ``operator `vrl` ``.
    pub(super) part: Option<Box<str>>,
    /// How long its calls may hold their thread and return, where somebody wants to know.
    pub(super) limit: Option<Limit>,
    seen: Mutex<Seen>,
}

/// What the watchdog has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    word: u64,
    /// Looks in a row, after the first, that found the thread in the same poll.
    pub(super) held: u32,
    /// What held the thread at the last look and does not any more, with the looks that it was seen in.
    pub(super) returned: Option<(Call, u32)>,
    /// Looks in a row, after the first, that found the same call unanswered.
    pub(super) open: u32,
    /// Whether this call was reported.
    pub(super) reported: bool,
}

/// A component in a call.
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
        // The record that had it before is forgotten.
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

    /// A call begins. What is open so far is over.
    pub(super) fn enter(&self, call: Call) -> Inside<'_> {
        let next = (self.word.load(Ordering::Relaxed) >> CALLS_AT).wrapping_add(1);
        self.store(next << CALLS_AT | (call as u64) << CALL_AT | OPEN | INSIDE)
    }

    /// The open call is polled again; where none is open, one begins.
    pub(super) fn poll(&self, call: Call) -> Inside<'_> {
        let word = self.word.load(Ordering::Relaxed);
        if word & OPEN == 0 {
            return self.enter(call);
        }
        let polls = word.wrapping_add(1 << POLLS_AT) & POLLS;
        self.store(word & !POLLS | polls | INSIDE)
    }

    /// As [`Record::poll`], for a delivery of so many events.
    pub(super) fn poll_deliver(&self, events: usize) -> Inside<'_> {
        let inside = self.poll(Call::Deliver);
        if events > 0 {
            // While a delivery is pending its events live with the plugin.
            self.events.store(events, Ordering::Relaxed);
        }
        inside
    }

    /// Records that the sink has answered a flush. Returns `true` if the delivery of this record is still open, which
    /// is a [`Flushed`](Call::Flushed) one from now on.
    pub(super) fn flushed(&self) -> bool {
        let is_open = self.state().is_some_and(|state| state.call == Call::Deliver);
        if is_open {
            self.enter(Call::Flushed).leave(false);
        }
        is_open
    }

    fn store(&self, word: u64) -> Inside<'_> {
        // Whoever calls is the only one who writes.
        self.word.store(word, Ordering::Relaxed);
        Inside { record: self, after: word & !(OPEN | INSIDE) }
    }

    /// The open call is given up.
    pub(super) fn close(&self) {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word & !(OPEN | INSIDE), Ordering::Relaxed);
    }

    /// Returns whether the last call was a turn of a task of the runtime's own, and not a call into a plugin.
    pub(super) fn is_of_runtime(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CALL == (Call::Turn as u64) << CALL_AT
    }

    /// How many events the last delivery had.
    pub(super) fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// The call that is open now.
    pub(super) fn state(&self) -> Option<State> {
        State::of(self.word.load(Ordering::Relaxed))
    }

    /// Looks once. What was reported and is over since, with the looks that it lasted.
    pub(super) fn look(&self, seen: &mut Seen) -> Option<(Call, u32)> {
        let word = self.word.load(Ordering::Relaxed);
        let last = std::mem::replace(&mut seen.word, word);
        let before = std::mem::take(&mut seen.held);
        seen.returned = None;
        if word & INSIDE != 0 && word == last {
            seen.held = before.saturating_add(1);
        } else if before > 0 {
            seen.returned = State::of(last).map(|state| (state.call, before));
        }
        let is_same = word >> CALLS_AT == last >> CALLS_AT && word & last & OPEN != 0;
        if is_same {
            seen.open = seen.open.saturating_add(1);
            return None;
        }
        let lasted = std::mem::take(&mut seen.open);
        let was_reported = std::mem::take(&mut seen.reported);
        State::of(last).filter(|_| was_reported).map(|state| (state.call, lasted))
    }
}

/// Whether this is the word of a task that no thread is in. There is nothing to be seen of it before one is.
pub(super) fn rests(word: &Word) -> bool {
    const RESTS: u64 = (Call::Task as u64) << CALL_AT | OPEN;
    word.load(Ordering::Relaxed) & (CALL | OPEN | INSIDE) == RESTS
}

impl State {
    fn of(word: u64) -> Option<Self> {
        let call = usize::try_from((word & CALL) >> CALL_AT).ok();
        let call = call.filter(|_| word & OPEN != 0).and_then(|call| Call::ALL.get(call));
        call.map(|call| Self { call: *call, inside: word & INSIDE != 0 })
    }
}

/// A thread is in a call, as long as this lives.
pub(super) struct Inside<'r> {
    record: &'r Record,
    /// The word behind it.
    after: u64,
}

impl Inside<'_> {
    /// The poll is over; says whether the call is.
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

    /// Looks once: how often the thread was seen in the same poll, and the same call unanswered.
    fn look(record: &Record, seen: &mut Seen) -> (u32, u32) {
        record.look(seen);
        (seen.held, seen.open)
    }

    #[test]
    fn a_call_that_stays_is_told_from_calls_that_follow_one_another() {
        let (record, mut seen) = (record("input"), Seen::default());
        for _ in 0..3 {
            let _inside = record.enter(Call::Pull);
            assert_eq!(look(&record, &mut seen), (0, 0), "each time another call");
        }
        let _inside = record.enter(Call::Pull);
        let looks = [(0, 0), (1, 1), (2, 2)];
        assert_eq!(looks.map(|_| look(&record, &mut seen)), looks);
    }

    #[test]
    fn a_call_that_is_polled_again_and_again_is_unanswered_and_holds_no_thread() {
        let (record, mut seen) = (record("output"), Seen::default());
        for open in 0..3 {
            let inside = record.poll_deliver(7);
            assert_eq!(look(&record, &mut seen), (0, open * 2), "another poll");
            inside.leave(false);
            assert_eq!(look(&record, &mut seen), (0, open * 2 + 1), "no thread is in it");
        }
        assert_eq!(record.events(), 7);
        record.poll(Call::Deliver).leave(true);
        assert_eq!(look(&record, &mut seen), (0, 0), "it is over");
        assert_eq!(record.state(), None);
    }

    #[test]
    fn what_was_reported_is_told_to_be_over_once() {
        let (record, mut seen) = (record("output"), Seen::default());
        record.poll_deliver(1).leave(false);
        for _ in 0..3 {
            assert_eq!(record.look(&mut seen), None);
        }
        seen.reported = true;
        record.poll_deliver(0).leave(true);
        assert_eq!(record.look(&mut seen), Some((Call::Deliver, 2)));
        assert_eq!(record.look(&mut seen), None);
    }

    #[test]
    fn every_call_is_told_apart() {
        let record = record("input");
        for call in Call::ALL {
            let _inside = record.enter(*call);
            assert_eq!(record.state(), Some(State { call: *call, inside: true }));
        }
        assert_eq!(record.state(), None);
    }

    #[test]
    fn a_record_whose_numbers_have_come_round_goes_on() {
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
