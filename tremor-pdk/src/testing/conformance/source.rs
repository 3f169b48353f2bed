//! Checks of sources.

use std::{
    thread,
    time::{Duration, Instant},
};

use tremor_abi::host::MetricKind;

use super::{
    call::{direct, timed},
    construct::MANY,
    report::{Finding, Verdict, ensure, fault},
    subject::{Connected, Subject, is_of_peer},
    transcript::Transcript,
};
use crate::{Batch, ErrorKind, ErrorPolicy, EventRef, InFlight, Limit, Pull};

/// Maximum number of pulls of a source in a check, and maximum number of bytes of its events that are recorded.
const MOST: (usize, usize) = (300, 4 << 20);

/// Maximum real time for which a check pulls one source, so that a slow peer does not exceed the time limit of the
/// check.
const PULLED_FOR: Duration = Duration::from_secs(2);

/// Maximum number of pulls in a row that may return no event and ask for the next pull at once.
const EMPTY_PULLS: usize = 50;

/// Number of pulls in a row that may wait and return no event, such as long polls, before the peer is considered
/// silent.
const LONG_POLLS: usize = 20;

const FORGED: &str = "push events with the methods of the batch, and do not edit their fields";

const UNKIND: &str =
    "return an error of the kind that describes the failure, as `?` does for an I/O error";

/// Maximum number of polls after which a pull is cancelled.
const DROPPED_AFTER: usize = 4;

/// A source that is being pulled.
struct Pulling {
    connected: Connected,
    transcript: Transcript,
    /// Number of pulls in a row that returned at once and without an event.
    empty: usize,
    /// Number of pulls in a row that waited and returned without an event.
    empty_waits: usize,
    pulls: usize,
    /// Limit of each pull.
    limit: Limit,
    started: Instant,
}

/// State of a source after a pull.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceState {
    /// The source can be pulled again.
    Active,
    /// The source waits for a peer.
    Waiting,
    Finished,
}

impl Pulling {
    fn new(subject: &Subject) -> Verdict<Self> {
        let connected = subject.with_source()?;
        let (transcript, started) = (Transcript::default(), Instant::now());
        let limit = Limit::default();
        Ok(Self { connected, transcript, empty: 0, empty_waits: 0, pulls: 0, limit, started })
    }

    /// Returns the number of steps in which calls waited for a peer, a timer or a thread.
    fn waited(&self) -> u64 {
        self.connected.calls.host.0.lock().waited
    }

    /// Counts a pull that returned no event, although the next pull follows at once.
    fn add_empty(&mut self, has_waited: bool) {
        if has_waited {
            (self.empty, self.empty_waits) = (0, self.empty_waits + 1);
        } else {
            self.empty += 1;
        }
    }

    /// Pulls once. A pull that is still pending after `polls` polls is cancelled.
    fn pull(&mut self, polls: usize) -> Verdict<SourceState> {
        let mut batch = Batch::new();
        batch.set_limit(self.limit);
        let waited = self.waited();
        let pulled = self.connected.pull(polls, &mut batch)?;
        self.transcript.add(&batch);
        self.pulls += 1;
        let is_empty = batch.is_empty();
        let continues = [ErrorPolicy::DEAD_LETTER, ErrorPolicy::RETRY];
        match pulled {
            // The pull was cancelled.
            None if polls < usize::MAX => return Ok(SourceState::Active),
            None => return Ok(SourceState::Waiting),
            Some(Ok(Pull::Finished)) => {
                self.transcript.finished = true;
                return Ok(SourceState::Finished);
            }
            Some(Ok(Pull::Events)) if is_empty => self.add_empty(self.waited() > waited),
            Some(Ok(Pull::Idle(time))) if is_empty && time.is_zero() => {
                self.add_empty(self.waited() > waited);
            }
            Some(Ok(Pull::Idle(time))) => self.connected.calls.host.advance(time),
            Some(Ok(Pull::Events)) => (self.empty, self.empty_waits) = (0, 0),
            Some(Err(error)) if continues.contains(&error.policy()) => {}
            Some(Err(error)) if error.kind() == ErrorKind::INTERNAL => {
                // The host returns this error if it finds an invalid batch.
                let is_forged = error.message().contains("of a batch");
                let help = if is_forged { FORGED } else { UNKIND };
                return Err(fault(format_args!("`pull` failed: {error}"), help));
            }
            Some(Err(error)) => {
                return Err(Finding::skip(format_args!(
                    "the source cannot be pulled with this configuration: {error}"
                )));
            }
        }
        ensure(
            self.empty < EMPTY_PULLS,
            || {
                format!(
                    "{EMPTY_PULLS} pulls in a row returned no event and asked for the next pull at once"
                )
            },
            "wait in `pull` until there is an event, or return `Pull::Idle` with a time",
        )?;
        let is_silent = self.empty_waits >= LONG_POLLS || self.started.elapsed() > PULLED_FOR;
        Ok(if is_silent { SourceState::Waiting } else { SourceState::Active })
    }

    /// Compares the events with `expected`: all events if the expected source has finished and there was enough time,
    /// and otherwise only the beginning of each stream.
    fn compare(
        &self,
        expected: &Transcript,
        seen: impl FnOnce(&str) -> String,
        help: &'static str,
    ) -> Verdict {
        if expected.finished && self.started.elapsed() <= PULLED_FOR {
            expected.expect(&self.transcript, seen, help)
        } else {
            expected.expect_beginning(&self.transcript, seen, help)
        }
    }

    /// Pulls until the source finishes or waits for a peer, or a limit is reached.
    fn pull_all(&mut self) -> Verdict<SourceState> {
        while self.pulls < MOST.0 && self.transcript.bytes < MOST.1 {
            match self.pull(usize::MAX)? {
                SourceState::Active => {}
                state => return Ok(state),
            }
        }
        Ok(SourceState::Active)
    }
}

/// Returns the reason for skipping the comparison of instances if the peer sends to only one of them.
fn silent_peer() -> Finding {
    Finding::skip(
        "another instance gets no event: pass a configuration with a peer that sends to all its clients",
    )
}

/// Returns the events of a source whose pulls are not cancelled.
fn undisturbed(subject: &Subject) -> Verdict<Transcript> {
    let mut pulling = Pulling::new(subject)?;
    pulling.pull_all()?;
    Ok(pulling.transcript)
}

/// Returns the reason for skipping the checks of the behaviour after `Pull::Finished`.
fn endless() -> Finding {
    Finding::skip(format_args!(
        "the source does not finish within {} pulls: pass a configuration with which it does",
        MOST.0
    ))
}

/// Reason for skipping checks of a source whose peer sends nothing.
pub const NO_EVENT: &str =
    "the source produces no event here: pass a configuration with a peer that sends events";

pub(super) fn pulls(subject: &Subject) -> Verdict {
    if undisturbed(subject)?.has_nothing_yet() {
        return Err(Finding::skip(NO_EVENT));
    }
    Ok(())
}

pub(super) fn heeds_the_limit(subject: &Subject) -> Verdict {
    let help = "call `Batch::is_full` before each event, and return once it is `true`";
    let (mut has_event, mut has_finished) = (false, false);
    for limit in [Limit { events: 3, bytes: 1 << 20 }, Limit { events: 10_000, bytes: 256 }] {
        let mut pulling = Pulling::new(subject)?;
        for _ in 0..20 {
            let mut batch = Batch::new();
            batch.set_limit(limit);
            let pulled = pulling.connected.pull(usize::MAX, &mut batch)?;
            let sizes = batch.iter().filter_map(EventRef::raw).map(<[u8]>::len);
            let before_last: usize = sizes.rev().skip(1).sum();
            let events = batch.iter().filter(|event| !event.is_stream_end()).count();
            has_event |= !batch.is_empty();
            ensure(
                events <= limit.events + 1 && before_last <= limit.bytes,
                || {
                    let Limit { events: most, bytes } = limit;
                    let found = batch.bytes().len();
                    format!(
                        "a pull of {most} events or {bytes} bytes returned {events} events with {found} bytes"
                    )
                },
                help,
            )?;
            match pulled {
                Some(Ok(Pull::Idle(time))) => pulling.connected.calls.host.advance(time),
                Some(Ok(Pull::Events)) => {}
                Some(Ok(Pull::Finished)) => {
                    has_finished = true;
                    break;
                }
                _ => break,
            }
        }
    }
    if has_event || has_finished { Ok(()) } else { Err(Finding::skip(NO_EVENT)) }
}

/// Parts of the names of gauges that describe what waits to be read.
const WAITING: [&str; 6] = ["backlog", "behind", "lag", "pending", "unread", "waiting"];

/// Time for which a source is not pulled. A gauge that describes what waits has to be set within this time.
const NOT_PULLED: Duration = Duration::from_mins(1);

pub(super) fn keeps_gauges_true(subject: &Subject) -> Verdict {
    let mut pulling = Pulling::new(subject)?;
    // With a small limit, more of a short input waits.
    pulling.limit.events = 3;
    for _ in 0..3 {
        // A source that has finished has no input that waits to be read.
        if pulling.pull(usize::MAX)? == SourceState::Finished {
            return Ok(());
        }
    }
    let host = &pulling.connected.calls.host;
    let set = || {
        let state = host.0.lock();
        let gauges =
            state.metrics.iter().filter(|it| it.kind == MetricKind::GAUGE && it.records > 0);
        let of_words = |name: &str| name.split('_').any(|word| WAITING.contains(&word));
        let gauges = gauges.filter(|it| of_words(&it.name));
        gauges.map(|it| (it.name.clone(), it.records)).collect::<Vec<_>>()
    };
    let before = set();
    let is_stale = || before.iter().find(|it| set().contains(it));
    host.block_on(host.host().sleep(NOT_PULLED));
    // The minute has passed in an instant, but a peer that the source asks needs real time to answer.
    let start = Instant::now();
    while is_stale().is_some() && start.elapsed() < PULLED_FOR {
        thread::sleep(Duration::from_millis(5));
        host.block_on(host.host().sleep(Duration::from_millis(5)));
    }
    let Some((name, _)) = is_stale() else { return Ok(()) };
    let seen =
        format!("the gauge `{name}` was not set while the source was not pulled for one minute");
    let help = "set the gauge in the function of `Host::upkeep`, which is also called while the source is paused and \
        while a sink is down";
    Err(fault(seen, help))
}

pub(super) fn stays_finished(subject: &Subject) -> Verdict {
    let mut pulling = Pulling::new(subject)?;
    if pulling.pull_all()? != SourceState::Finished {
        return Err(endless());
    }
    let help =
        "store in `self` that the source has finished, and return `Pull::Finished` from then on";
    for _ in 0..3 {
        let mut batch = Batch::new();
        let pulled = pulling.connected.pull(usize::MAX, &mut batch)?;
        let is_finished = matches!(pulled, Some(Ok(Pull::Finished))) && batch.is_empty();
        let seen = || {
            format!(
                "after `Pull::Finished`, a pull returned {pulled:?} with {} events",
                batch.len()
            )
        };
        ensure(is_finished, seen, help)?;
    }
    Ok(())
}

pub(super) fn survives_dropped_pulls(subject: &Subject) -> Verdict {
    let expected = undisturbed(subject)?;
    if expected.has_nothing_yet() {
        return Err(Finding::skip(NO_EVENT));
    }
    let help = "put all data that was read into the batch, or into `self`, before the next `await`; keep the \
        future of `Host::blocking` in `self`";
    for polls in 1..=DROPPED_AFTER {
        let mut pulling = Pulling::new(subject)?;
        // Only every second pull is cancelled, so that the source makes progress. Of an endless source, only the first
        // events are compared.
        for round in 0..2 * MOST.0 {
            let polls = if round % 2 == 0 { polls } else { usize::MAX };
            let is_enough = !expected.finished && pulling.transcript.bytes >= expected.bytes;
            if is_enough || pulling.pull(polls)? != SourceState::Active {
                break;
            }
        }
        let seen = |difference: &str| {
            let ending = if polls == 1 { "" } else { "s" };
            format!("with pulls that are dropped after {polls} poll{ending}, {difference}")
        };
        // A peer may send only to its first client.
        if pulling.transcript.has_nothing_yet() && undisturbed(subject)?.has_nothing_yet() {
            return Err(silent_peer());
        }
        pulling.compare(&expected, seen, help)?;
    }
    Ok(())
}

pub(super) fn shares_nothing(subject: &Subject) -> Verdict {
    let expected = undisturbed(subject)?;
    if expected.has_nothing_yet() {
        return Err(Finding::skip(NO_EVENT));
    }
    let mut all = Vec::new();
    for others in 0..MANY {
        let pulling = Pulling::new(subject).map_err(|finding| finding.beside(others))?;
        all.push((pulling, SourceState::Active));
    }
    // The instances are pulled alternately.
    for _ in 0..MOST.0 {
        for (pulling, state) in &mut all {
            if *state == SourceState::Active && pulling.transcript.bytes < MOST.1 {
                *state = pulling.pull(usize::MAX)?;
            }
        }
    }
    for (position, (pulling, state)) in all.iter().enumerate() {
        let seen = |difference: &str| {
            format!(
                "instance {} of {MANY} with the same configuration has other events than the first instance: \
                 {difference}",
                position + 2
            )
        };
        let help = "keep state in `self` and not in a static; the events of a source must depend only on \
            its configuration, its peer and `Host::now_ns`";
        if *state == SourceState::Waiting && pulling.transcript.has_nothing_yet() {
            return Err(silent_peer());
        }
        pulling.compare(&expected, seen, help)?;
    }
    Ok(())
}

pub(super) fn accepts_acknowledgements(subject: &Subject) -> Verdict {
    let mut pulling = Pulling::new(subject)?;
    for _ in 0..3 {
        if pulling.pull(usize::MAX)? != SourceState::Active {
            break;
        }
    }
    let Some(acks) = &mut pulling.connected.acks else { return Err(without_acks()) };
    check_limits(subject, timed("most_in_flight", || acks.most_in_flight())?)?;
    let has_event = pulling.connected.pulls > 0;
    let known = direct("ack", || acks.ack(1))?;
    if let Err(error) = known
        && has_event
        && !is_of_peer(&error)
    {
        let help = "return `Ok` for the acknowledgement of an earlier pull";
        return Err(fault(format_args!("`ack` of the first pull failed: {error}"), help));
    }
    // The source has to continue after these calls, whether or not they return errors.
    for pull in [1, 2, 0, u64::MAX] {
        let _ = direct("ack", || acks.ack(pull))?;
        let _ = direct("fail", || acks.fail(pull, &[0..1, 3..usize::MAX]))?;
    }
    pulling.pull(usize::MAX)?;
    // Without an event, no pull was acknowledged by the calls above.
    if has_event { Ok(()) } else { Err(Finding::skip(NO_EVENT)) }
}

fn without_acks() -> Finding {
    Finding::skip("the source has no `acks`, so it is not notified")
}

/// Checks the limits of the events that a source has in flight.
fn check_limits(subject: &Subject, InFlight { events, bytes, key }: InFlight) -> Verdict {
    ensure(
        events > 0 && bytes > 0,
        || format!("`most_in_flight` allows {events} events and {bytes} bytes"),
        "allow at least one event and one byte, or use `InFlight::UNLIMITED`",
    )?;
    let keys = subject.schema.as_ref().and_then(|schema| schema.get("properties"));
    let is_known = keys.is_none_or(|keys| key.is_empty() || keys.get(key).is_some());
    ensure(
        is_known,
        || format!("`most_in_flight` names the key `{key}`, which the configuration does not have"),
        "name the key of the configuration that sets the limits, or none",
    )
}

pub(super) fn reads_again(subject: &Subject) -> Verdict {
    let mut pulling = Pulling::new(subject)?;
    // With a small limit, even a short input needs several pulls.
    pulling.limit.events = 3;
    let mut last = Transcript::default();
    while pulling.connected.pulls < 2 && pulling.pulls < MOST.0 {
        let before = pulling.connected.pulls;
        pulling.transcript = Transcript::default();
        let state = pulling.pull(usize::MAX)?;
        if pulling.connected.pulls > before {
            last = std::mem::take(&mut pulling.transcript);
        }
        match state {
            SourceState::Active => {}
            SourceState::Waiting => break,
            SourceState::Finished => {
                return Err(Finding::skip(
                    "the source finishes within two pulls: pass a configuration with more events",
                ));
            }
        }
    }
    let failed = pulling.connected.pulls;
    let Some(acks) = &mut pulling.connected.acks else { return Err(without_acks()) };
    if !timed("replays_failed", || acks.replays_failed())? {
        return Err(Finding::skip("the source states that it does not read failed events again"));
    }
    last.forget_ends();
    if last.bytes == 0 {
        return Err(Finding::skip("the source has no event with this configuration"));
    }
    let answered = direct("fail", || acks.fail(failed, std::slice::from_ref(&(0..usize::MAX))))?;
    if let Err(error) = answered {
        if is_of_peer(&error) {
            return Err(Finding::skip(format_args!("`fail`: {error}")));
        }
        let help = "return `Ok` for the failure of an earlier pull";
        return Err(fault(format_args!("`fail` of a pull failed: {error}"), help));
    }
    (pulling.transcript, pulling.limit) = (Transcript::default(), Limit::default());
    let (mut state, most) = (SourceState::Active, pulling.pulls + MOST.0);
    while state == SourceState::Active && pulling.pulls < most {
        state = pulling.pull(usize::MAX)?;
        if pulling.transcript.has_all_of(&last) {
            return Ok(());
        }
    }
    Err(fault(
        format_args!(
            "pull {failed} failed, and its events were not read again in {} more pulls",
            pulling.connected.pulls - failed
        ),
        "go back to the positions of `Watermarks::begin`, or return `false` from `Acks::replays_failed`",
    ))
}
