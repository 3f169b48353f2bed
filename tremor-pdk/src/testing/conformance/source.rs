//! Checks of sources.

use std::time::{Duration, Instant};

use super::{
    call::{direct, timed},
    construct::MANY,
    report::{Finding, Verdict, ensure, fault},
    subject::{Connected, Subject, is_of_peer},
    transcript::Transcript,
};
use crate::{Batch, ErrorKind, ErrorPolicy, EventRef, InFlight, Limit, Pull};

/// How often an undisturbed source is pulled, and how much of what it brings is kept, in bytes.
const MOST: (usize, usize) = (300, 4 << 20);

/// Real time for which one source is pulled at most in a check: a peer that answers slowly could keep a check busy
/// for longer than it may take.
const PULLED_FOR: Duration = Duration::from_secs(2);

/// How often in a row a pull may bring nothing and ask for the next one at once.
const EMPTY_PULLS: usize = 50;

/// Number of pulls in a row that may wait and bring nothing, such as long polls, before the peer is taken to be
/// silent.
const LONG_POLLS: usize = 20;

const FORGED: &str = "push events with the methods of the batch, and do not edit their fields";

const UNKIND: &str =
    "answer with the kind of error that says what happened: `?` on an error of I/O does";

/// How many polls a pull gets at most that is given up.
const DROPPED_AFTER: usize = 4;

/// A source that is pulled.
struct Pulling {
    connected: Connected,
    transcript: Transcript,
    /// Pulls in a row that returned at once and without an event.
    empty: usize,
    /// Pulls in a row that waited and returned without an event.
    in_vain: usize,
    pulls: usize,
    /// Limit of each pull.
    limit: Limit,
    started: Instant,
}

/// Whether a source is to be pulled again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    /// It waits for something outside.
    Waits,
    Finished,
}

impl Pulling {
    fn new(subject: &Subject) -> Verdict<Self> {
        let connected = subject.with_source()?;
        let (transcript, started) = (Transcript::default(), Instant::now());
        let limit = Limit::default();
        Ok(Self { connected, transcript, empty: 0, in_vain: 0, pulls: 0, limit, started })
    }

    /// Returns the number of waits of all calls so far: for a peer, for a time, for a thread.
    fn waited(&self) -> u64 {
        self.connected.calls.host.0.lock().waited
    }

    /// Counts a pull that brought nothing and did not say how long to wait.
    fn add_empty(&mut self, has_waited: bool) {
        if has_waited {
            (self.empty, self.in_vain) = (0, self.in_vain + 1);
        } else {
            self.empty += 1;
        }
    }

    /// Pulls once; where that is still pending after so many polls, it is given up.
    fn pull(&mut self, polls: usize) -> Verdict<Goes> {
        let mut batch = Batch::new();
        batch.set_limit(self.limit);
        let waited = self.waited();
        let pulled = self.connected.pull(polls, &mut batch)?;
        self.transcript.add(&batch);
        self.pulls += 1;
        let is_empty = batch.is_empty();
        let goes_on = [ErrorPolicy::DEAD_LETTER, ErrorPolicy::RETRY];
        match pulled {
            // Given up.
            None if polls < usize::MAX => return Ok(Goes::On),
            None => return Ok(Goes::Waits),
            Some(Ok(Pull::Finished)) => {
                self.transcript.finished = true;
                return Ok(Goes::Finished);
            }
            Some(Ok(Pull::Events)) if is_empty => self.add_empty(self.waited() > waited),
            Some(Ok(Pull::Idle(time))) if is_empty && time.is_zero() => {
                self.add_empty(self.waited() > waited);
            }
            Some(Ok(Pull::Idle(time))) => self.connected.calls.host.advance(time),
            Some(Ok(Pull::Events)) => (self.empty, self.in_vain) = (0, 0),
            Some(Err(error)) if goes_on.contains(&error.policy()) => {}
            Some(Err(error)) if error.kind() == ErrorKind::INTERNAL => {
                // What the host finds in a batch.
                let is_forged = error.message().contains("of a batch");
                let help = if is_forged { FORGED } else { UNKIND };
                return Err(fault(format_args!("`pull` failed: {error}"), help));
            }
            Some(Err(error)) => {
                return Err(Finding::skip(format_args!(
                    "it cannot be pulled with this configuration: {error}"
                )));
            }
        }
        ensure(
            self.empty < EMPTY_PULLS,
            || {
                format!(
                    "{EMPTY_PULLS} pulls in a row brought nothing and asked for the next at once"
                )
            },
            "wait in `pull` until there is an event, or answer `Pull::Idle` with a time",
        )?;
        let is_silent = self.in_vain >= LONG_POLLS || self.started.elapsed() > PULLED_FOR;
        Ok(if is_silent { Goes::Waits } else { Goes::On })
    }

    /// Compares what came with what is expected: all of it, if the expected source finished and there was time for
    /// that, and otherwise its beginning.
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

    /// Pulls to the end, or as often as is of use.
    fn pull_all(&mut self) -> Verdict<Goes> {
        while self.pulls < MOST.0 && self.transcript.bytes < MOST.1 {
            match self.pull(usize::MAX)? {
                Goes::On => {}
                goes => return Ok(goes),
            }
        }
        Ok(Goes::On)
    }
}

/// Why sources are not compared that have one peer.
fn silent_peer() -> Finding {
    Finding::skip(
        "a further instance gets no event: give a configuration with a peer that sends to all its clients",
    )
}

/// What an undisturbed source brings.
fn undisturbed(subject: &Subject) -> Verdict<Transcript> {
    let mut pulling = Pulling::new(subject)?;
    pulling.pull_all()?;
    Ok(pulling.transcript)
}

/// Why a check of what follows `Pull::Finished` is not made.
fn endless() -> Finding {
    Finding::skip(format_args!(
        "the source does not finish within {} pulls: give a configuration with which it does",
        MOST.0
    ))
}

/// The reason why checks of a source are skipped whose peer sends nothing.
pub const NO_EVENT: &str =
    "the source brings no event here: give a configuration with a peer that sends some";

pub(super) fn pulls(subject: &Subject) -> Verdict {
    if undisturbed(subject)?.has_nothing_yet() {
        return Err(Finding::skip(NO_EVENT));
    }
    Ok(())
}

pub(super) fn heeds_the_limit(subject: &Subject) -> Verdict {
    let help = "ask `Batch::is_full` before each event, and return once it says so";
    let (mut has_event, mut has_finished) = (false, false);
    for limit in [Limit { events: 3, bytes: 1 << 20 }, Limit { events: 10_000, bytes: 256 }] {
        let mut pulling = Pulling::new(subject)?;
        for _ in 0..20 {
            let mut batch = Batch::new();
            batch.set_limit(limit);
            let pulled = pulling.connected.pull(usize::MAX, &mut batch)?;
            let sizes = batch.iter().filter_map(EventRef::raw).map(<[u8]>::len);
            let before_last: usize = sizes.rev().skip(1).sum();
            let events = batch.iter().filter(|it| !it.is_stream_end()).count();
            has_event |= !batch.is_empty();
            ensure(
                events <= limit.events as usize + 1 && before_last <= limit.bytes as usize,
                || {
                    let Limit { events: most, bytes } = limit;
                    let found = batch.bytes().len();
                    format!(
                        "a pull of {most} events or {bytes} bytes brought {events} events, {found} bytes"
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

pub(super) fn stays_finished(subject: &Subject) -> Verdict {
    let mut pulling = Pulling::new(subject)?;
    if pulling.pull_all()? != Goes::Finished {
        return Err(endless());
    }
    let help = "keep in `self` that it has finished, and answer `Pull::Finished` from then on";
    for _ in 0..3 {
        let mut batch = Batch::new();
        let pulled = pulling.connected.pull(usize::MAX, &mut batch)?;
        let is_finished = matches!(pulled, Some(Ok(Pull::Finished))) && batch.is_empty();
        let seen = || {
            format!(
                "after `Pull::Finished`, a pull answered {pulled:?} with {} events",
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
    let help = "put what was read into the batch, or into `self`, before the next `await`; keep the \
        future of `Host::blocking` in `self`";
    for polls in 1..=DROPPED_AFTER {
        let mut pulling = Pulling::new(subject)?;
        // After a dropped pull, one is not dropped, so that the source advances. An endless source is compared
        // in its first events.
        for round in 0..2 * MOST.0 {
            let polls = if round % 2 == 0 { polls } else { usize::MAX };
            let is_enough = !expected.finished && pulling.transcript.bytes >= expected.bytes;
            if is_enough || pulling.pull(polls)? != Goes::On {
                break;
            }
        }
        let seen = |it: &str| format!("with pulls that are dropped after {polls} polls, {it}");
        // A peer may send to its first client only.
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
    for _ in 0..MANY {
        all.push((Pulling::new(subject)?, Goes::On));
    }
    // By turns.
    for _ in 0..MOST.0 {
        for (pulling, goes) in &mut all {
            if *goes == Goes::On && pulling.transcript.bytes < MOST.1 {
                *goes = pulling.pull(usize::MAX)?;
            }
        }
    }
    for (position, (pulling, goes)) in all.iter().enumerate() {
        let seen = |it: &str| {
            format!(
                "instance {} of {MANY} with one configuration brings other events than the first: \
                 {it}",
                position + 2
            )
        };
        let help = "keep state in `self` and not in a static; what a source brings follows from \
            its configuration, its peer and `Host::now_ns`";
        if *goes == Goes::Waits && pulling.transcript.has_nothing_yet() {
            return Err(silent_peer());
        }
        pulling.compare(&expected, seen, help)?;
    }
    Ok(())
}

pub(super) fn hears_acknowledgements(subject: &Subject) -> Verdict {
    let mut pulling = Pulling::new(subject)?;
    for _ in 0..3 {
        if pulling.pull(usize::MAX)? != Goes::On {
            break;
        }
    }
    let Some(acks) = &mut pulling.connected.acks else { return Err(without_acks()) };
    check_limits(subject, timed("most_in_flight", || acks.most_in_flight())?)?;
    let known = direct("ack", || acks.ack(1))?;
    if let Err(error) = known
        && pulling.connected.pulls > 0
        && !is_of_peer(&error)
    {
        let help = "answer `Ok` to the acknowledgement of a pull that there was";
        return Err(fault(format_args!("`ack` of the first pull failed: {error}"), help));
    }
    // Whatever it says to these, it goes on.
    for pull in [1, 2, 0, u64::MAX] {
        let _ = direct("ack", || acks.ack(pull))?;
        let _ = direct("fail", || acks.fail(pull, &[0..1, 3..usize::MAX]))?;
    }
    pulling.pull(usize::MAX).map(drop)
}

fn without_acks() -> Finding {
    Finding::skip("the source has no `acks`: it does not want to know")
}

/// Checks the limits of what a source has in flight.
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
    // Few events at a time, so that a short input makes several pulls.
    pulling.limit.events = 3;
    let mut last = Transcript::default();
    while pulling.connected.pulls < 2 && pulling.pulls < MOST.0 {
        let before = pulling.connected.pulls;
        pulling.transcript = Transcript::default();
        let goes = pulling.pull(usize::MAX)?;
        if pulling.connected.pulls > before {
            last = std::mem::take(&mut pulling.transcript);
        }
        match goes {
            Goes::On => {}
            Goes::Waits => break,
            Goes::Finished => {
                return Err(Finding::skip(
                    "the source finishes within two pulls: give a configuration with more events",
                ));
            }
        }
    }
    let failed = pulling.connected.pulls;
    let Some(acks) = &mut pulling.connected.acks else { return Err(without_acks()) };
    if !timed("brings_again", || acks.brings_again())? {
        return Err(Finding::skip("the source says that it does not read again what has failed"));
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
        let help = "answer `Ok` to the failure of a pull that there was";
        return Err(fault(format_args!("`fail` of a pull failed: {error}"), help));
    }
    (pulling.transcript, pulling.limit) = (Transcript::default(), Limit::default());
    let (mut goes, most) = (Goes::On, pulling.pulls + MOST.0);
    while goes == Goes::On && pulling.pulls < most {
        goes = pulling.pull(usize::MAX)?;
        if pulling.transcript.has_all_of(&last) {
            return Ok(());
        }
    }
    Err(fault(
        format_args!(
            "pull {failed} failed, and its events were not read again in {} more pulls",
            pulling.connected.pulls - failed
        ),
        "go back to where `Watermarks::begin` says, or answer `false` to `Acks::brings_again`",
    ))
}
