//! Checks of operators.

use std::collections::BTreeMap;

use super::{
    call::direct,
    construct::MANY,
    corpus,
    report::{Finding, Verdict, ensure, fault},
    subject::{Instance, Subject},
};
use tremor_abi::batch::{HostBatch, HostOutput, Identities};

use crate::{Batch, Operator, Output, Result, ValueRef, literal};

/// Number of batches that an operator gets.
const BATCHES: u64 = 6;
/// Maximum number of calls of `on_time` in a row.
const TIMES: usize = 1_000;

/// Names of the usual ports in transcripts.
const OUT: &str = "out";
const ERR: &str = "err";

/// An operator with the counts of its events.
struct Accounted {
    operator: Box<dyn Operator>,
    ports: usize,
    output: Output,
    identities: Identities,
    /// Number of buffered events, by the number of the batch that contained them.
    buffered: BTreeMap<u64, u64>,
    /// Emitted events, by port.
    transcript: Vec<(String, String)>,
    /// `true` if the operator has not rejected every event of the check.
    has_accepted: bool,
}

const ACCOUNTS: &str = "`Operator::process`: every event is left, sent, rejected, discarded or absorbed once, and \
    every event that leaves was in the batch, was buffered, or is created";

impl Accounted {
    fn new(subject: &Subject) -> Verdict<Self> {
        let Instance::Operator(operator) = subject.instance(&subject.host())? else {
            return Err(Finding::skip("this is not an operator"));
        };
        let ports = operator.ports().len();
        let (output, buffered, transcript) = (Output::new(), BTreeMap::new(), Vec::new());
        let (identities, has_accepted) = (Identities::default(), false);
        Ok(Self { operator, ports, output, identities, buffered, transcript, has_accepted })
    }

    /// Skips the check if the operator has rejected every event, because the check then shows nothing.
    fn ensure_accepted(&self) -> Verdict {
        if self.has_accepted {
            return Ok(());
        }
        Err(Finding::skip(
            "the operator rejected every event of the check; pass a configuration that names the field `verify`, \
             or no field",
        ))
    }

    /// Returns the number of buffered events.
    fn buffered(&self) -> u64 {
        self.buffered.values().sum()
    }

    /// Runs one call, and checks that all events are accounted for.
    fn call(
        &mut self,
        what: &str,
        number: u64,
        batch: &mut Batch,
        call: impl FnOnce(&mut dyn Operator, &mut Batch, &mut Output) -> Result<()>,
    ) -> Verdict {
        let (came, before) = (batch.len() as u64, self.buffered());
        self.output.begin(number);
        let Self { operator, output, identities, .. } = self;
        identities.record(batch);
        let result = direct(what, || call(&mut **operator, batch, output))?;
        let surplus = identities.surplus(batch, output);
        let absorbed = self.absorb(what, number)?;
        let sent: usize = self.output.batches().map(Batch::len).sum();
        let failed: usize = self.output.failed().iter().map(|failed| failed.batch.len()).sum();
        let (left, rejected) = (batch.len(), self.output.rejected().len() + failed);
        let (created, merged) = (self.output.take_created(), self.output.take_merged());
        let discarded = self.output.take_discarded();
        let released = before + absorbed - self.buffered();
        let had = came + released + created as u64;
        let accounted = (left + sent + rejected + discarded + merged) as u64 + absorbed;
        let seen = || {
            format!(
                "`{what}` had {had} events ({came} were in the batch, {released} were buffered, {created} created) and \
                 accounts for {accounted}: {left} left, {sent} sent, {rejected} rejected, {discarded} \
                 discarded, {merged} merged, {absorbed} absorbed"
            )
        };
        let help = "account for each event: `Output::divert`, `Output::discard_all`, `Buffered::absorb`, \
            `Buffered::emit`, and `Output::create` for new events";
        match &result {
            Ok(()) => ensure(had == accounted, seen, help),
            // After an error, the events that remain in the batch go to `err`.
            Err(_) => ensure(
                had <= accounted,
                seen,
                "leave in the batch the events that a failed call has not handled",
            ),
        }
        .map_err(|finding| finding.of(ACCOUNTS))?;
        let seen = || format!("`{what}` returned {surplus}");
        let help = "return each event once, add events only with `Output::create`, and absorb the events that a later \
            call returns with `Buffered::emit_events`";
        ensure(surplus.is_none(), seen, help).map_err(|finding| finding.of(ACCOUNTS))?;
        let refused = if result.is_ok() { rejected } else { rejected + left };
        self.has_accepted |= came > refused as u64;
        self.send(what, batch, if result.is_ok() { OUT } else { ERR })
    }

    /// Records the events that were buffered and released. Returns the number of events that were absorbed.
    fn absorb(&mut self, what: &str, number: u64) -> Verdict<u64> {
        let absorbed = self.output.take_absorbed();
        *self.buffered.entry(number).or_default() += absorbed;
        for share in self.output.take_released() {
            let buffered = self.buffered.entry(share.batch).or_default();
            let Some(left) = buffered.checked_sub(share.events) else {
                let seen = format!(
                    "`{what}` emits, rejects or discards {} buffered events of batch {}, of which it has \
                     absorbed {buffered}",
                    share.events, share.batch
                );
                let help =
                    "return the verdict of `Buffered::absorb` from the closure of `Output::divert`";
                let contract =
                    "`Buffered`: only absorbed events can be emitted, rejected or discarded";
                return Err(fault(seen, help).of(contract));
            };
            *buffered = left;
        }
        Ok(absorbed)
    }

    /// Records the output. The events that remain in `batch` leave by the port `left`.
    fn send(&mut self, what: &str, batch: &Batch, left: &str) -> Verdict {
        let forged =
            self.output.all_batches().chain([batch]).find_map(|batch| batch.validate().err());
        if let Some(error) = forged {
            let help = "move events with the methods of the batch, and do not edit their fields";
            return Err(fault(format_args!("after `{what}`: {error}"), help));
        }
        for (port, text) in
            self.output.rejected().iter().map(|rejected| (ERR, rejected.error.to_string()))
        {
            self.transcript.push((port.to_owned(), text));
        }
        let _ = self.output.take_rejected();
        for failed in self.output.take_failed() {
            note(&mut self.transcript, ERR, &failed.batch);
        }
        for sent in self.output.take_ports() {
            let is_known = sent.port == Output::OUT || usize::from(sent.port) < self.ports;
            let seen = || format!("`{what}` sends to port {} of {}", sent.port, self.ports);
            let help =
                "name every port in `Operator::ports`, and send to its position in that list";
            ensure(is_known, seen, help).map_err(|finding| {
                finding.of("`Operator::ports`: events are sent to the position of a port")
            })?;
            let port = if sent.port == Output::OUT { OUT } else { &*sent.port.to_string() };
            note(&mut self.transcript, port, &sent.batch);
        }
        note(&mut self.transcript, left, batch);
        Ok(())
    }

    /// Processes a batch whose events are later than all earlier events.
    fn process(&mut self, number: u64) -> Verdict {
        let mut batch = input(number);
        self.call("process", number, &mut batch, Operator::process)
    }

    /// Calls `on_time` until the operator is no longer due.
    fn pass_time(&mut self) -> Verdict {
        for _ in 0..TIMES {
            let Some(due) = self.operator.due() else { return Ok(()) };
            self.call("on_time", 0, &mut Batch::new(), |operator, _, output| {
                operator.on_time(due, output)
            })?;
            let next = self.operator.due();
            let seen = || {
                format!(
                    "after `on_time` was called for {due}, `due` returned {next:?}, so that the call is repeated forever"
                )
            };
            let help = "return a later time from `due`, or `None`, once `on_time` was called";
            ensure(next.is_none_or(|next| next > due), seen, help).map_err(|finding| {
                finding.of("`Operator::due`: returns the time of the next call of `on_time`")
            })?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Verdict {
        self.call("flush", 0, &mut Batch::new(), |operator, _, output| operator.flush(output))
    }
}

fn note(transcript: &mut Vec<(String, String)>, port: &str, batch: &Batch) {
    for event in batch {
        let text =
            |value: Option<ValueRef<'_>>| value.map_or_else(String::new, |it| it.to_string());
        let text = format!("{} {}", text(event.value()), text(event.metadata()));
        transcript.push((port.to_owned(), text));
    }
}

fn input(number: u64) -> Batch {
    let mut batch = Batch::new();
    // The minimal configuration sets texts, such as the path of a field, to `verify`.
    let fields =
        [literal!({ "verify": "a" }), literal!({ "verify": "a" }), literal!({ "verify": 2 })];
    // A document can contain each of these values, so no call fails.
    corpus::values()
        .iter()
        .chain(&fields)
        .for_each(|value| drop(batch.stream(number % 2).push(value)));
    let mut now = 1_000_000_000 * number;
    for event in batch.events_mut() {
        now += 1_000_000;
        (event.ingest_ns, event.pull) = (now, number);
    }
    batch
}

pub(super) fn names_ports(subject: &Subject) -> Verdict {
    let ports = || match subject.instance(&subject.host())? {
        Instance::Operator(operator) => super::call::timed("ports", || operator.ports()),
        _ => Err(Finding::skip("this is not an operator")),
    };
    let (first, second) = (ports()?, ports()?);
    let help = "return the same ports for the same configuration";
    ensure(first == second, || format!("`ports` returned {first:?}, and then {second:?}"), help)?;
    for (position, port) in first.iter().enumerate() {
        let is_good = !port.is_empty()
            && !["in", "out", "err"].contains(&&**port)
            && !port.contains(|c: char| c.is_whitespace() || c == '/')
            && !first[..position].contains(port);
        let help =
            "give each port a unique name without spaces and `/`, other than `in`, `out` and `err`";
        ensure(is_good, || format!("`ports` returned `{port}` in {first:?}"), help)?;
    }
    Ok(())
}

pub(super) fn accounts(subject: &Subject) -> Verdict {
    let mut operator = Accounted::new(subject)?;
    (1..=BATCHES).try_for_each(|number| operator.process(number))?;
    operator.call("process", BATCHES + 1, &mut Batch::new(), Operator::process)?;
    operator.ensure_accepted()
}

pub(super) fn knows_the_time(subject: &Subject) -> Verdict {
    let mut operator = Accounted::new(subject)?;
    operator.pass_time()?;
    for number in 1..=BATCHES {
        operator.process(number)?;
        operator.pass_time()?;
    }
    operator.ensure_accepted()
}

pub(super) fn drains(subject: &Subject) -> Verdict {
    let mut operator = Accounted::new(subject)?;
    operator.drain()?;
    (1..=BATCHES).try_for_each(|number| operator.process(number))?;
    operator.drain()?;
    let buffered = operator.buffered();
    let seen = || format!("after `flush`, {buffered} events are still buffered");
    let help = "emit, reject or discard all buffered events in `flush`, and do not drop a `Buffered` before";
    ensure(buffered == 0, seen, help)?;
    operator.ensure_accepted()
}

pub(super) fn shares_nothing(subject: &Subject) -> Verdict {
    let mut first = Accounted::new(subject)?;
    (1..=BATCHES).try_for_each(|number| first.process(number))?;
    first.drain()?;
    let mut all = (0..MANY).map(|_| Accounted::new(subject)).collect::<Verdict<Vec<_>>>()?;
    for number in 1..=BATCHES {
        all.iter_mut().try_for_each(|operator| operator.process(number))?;
    }
    for (position, operator) in all.iter_mut().enumerate() {
        operator.drain()?;
        let mut pairs = first.transcript.iter().zip(&operator.transcript);
        let differs = pairs.position(|(a, b)| a != b);
        let lengths = (first.transcript.len(), operator.transcript.len());
        let seen = || {
            format!(
                "instance {} of {MANY} emits {} events and the first instance {}; they differ from event {} on",
                position + 2,
                lengths.1,
                lengths.0,
                differs.map_or(lengths.0.min(lengths.1), |position| position) + 1,
            )
        };
        let help = "keep state in `self` and not in a static; the output of an operator must depend only on its \
            configuration, its events and their times";
        ensure(differs.is_none() && lengths.0 == lengths.1, seen, help)?;
    }
    first.ensure_accepted()
}

/// Number of instances that process single events in turn. No number of events after which a fault repeats is likely to
/// be a multiple of it.
const IN_TURN: usize = 3;

const DECLARE: &str = "remove `STATELESS`, or keep nothing of an event in `self`: the results for an event must not \
    depend on other events, their number, the batch, or the instance";

/// Checks that a stateless operator gives the same results for each event in any batch and on any instance.
pub(super) fn is_stateless(subject: &Subject) -> Verdict {
    if !subject.stateless {
        return Ok(());
    }
    // Each batch is processed by a new instance.
    let mut expected = Vec::new();
    for number in 1..=BATCHES {
        let mut fresh = Accounted::new(subject)?;
        fresh.process(number)?;
        expected.push(fresh.ports());
        fresh.keeps_nothing()?;
    }
    let mut used = Accounted::new(subject)?;
    for number in (1..=BATCHES).chain((1..=BATCHES).rev()) {
        used.transcript.clear();
        used.process(number)?;
        let expected = usize::try_from(number).ok().and_then(|number| expected.get(number - 1));
        let when = format_args!("by an instance that has processed other batches");
        is_same(expected.unwrap_or(&Ports::new()), &used.ports(), when)?;
    }
    used.keeps_nothing()?;
    let mut all = Ports::new();
    for (port, texts) in expected.into_iter().flatten() {
        all.entry(port).or_default().extend(texts);
    }
    let (mut joined, mut together) = (Batch::new(), Accounted::new(subject)?);
    let mut in_turn = (0..IN_TURN).map(|_| Accounted::new(subject)).collect::<Verdict<Vec<_>>>()?;
    let (mut alone, mut turn) = (Ports::new(), 0);
    for number in 1..=BATCHES {
        let batch = input(number);
        for position in 0..batch.len() {
            let operator = &mut in_turn[turn % IN_TURN];
            turn += 1;
            let mut single = batch.part(position..position + 1);
            operator.transcript.clear();
            operator.call("process", number, &mut single, Operator::process)?;
            for (port, texts) in operator.ports() {
                alone.entry(port).or_default().extend(texts);
            }
        }
        joined.append(batch);
    }
    is_same(&all, &alone, format_args!("in batches of one event, by {IN_TURN} instances in turn"))?;
    together.call("process", BATCHES + 1, &mut joined, Operator::process)?;
    is_same(&all, &together.ports(), format_args!("in one batch"))?;
    together.ensure_accepted()
}

/// The events and errors that left an operator, by port.
type Ports = BTreeMap<String, Vec<String>>;

impl Accounted {
    fn ports(&self) -> Ports {
        let mut ports = Ports::new();
        for (port, text) in &self.transcript {
            ports.entry(port.clone()).or_default().push(text.clone());
        }
        ports
    }

    /// Checks that the operator buffers no event, is not due, and emits nothing at its end.
    fn keeps_nothing(&mut self) -> Verdict {
        let (buffered, due) = (self.buffered(), self.operator.due());
        let seen = || {
            format!("after `process`, {buffered} events are buffered, and `due` returns {due:?}")
        };
        ensure(buffered == 0 && due.is_none(), seen, DECLARE)?;
        self.transcript.clear();
        self.drain()?;
        let emitted = self.transcript.len();
        ensure(emitted == 0, || format!("`flush` emits {emitted} events"), DECLARE)
    }
}

/// Checks that `found`, the results for events that were processed as `when` says, are those of a new instance.
fn is_same(expected: &Ports, found: &Ports, when: std::fmt::Arguments<'_>) -> Verdict {
    let none = Vec::new();
    let names = expected.keys().chain(found.keys());
    let differs = names.into_iter().find(|port| expected.get(*port) != found.get(*port));
    let Some(port) = differs else { return Ok(()) };
    let [expected, found] = [expected, found].map(|ports| ports.get(port).unwrap_or(&none));
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let seen = format!(
        "{when}, the same events give {} events at the port `{port}`, and {} by new instances; they differ from \
         event {} on",
        found.len(),
        expected.len(),
        at + 1
    );
    Err(fault(seen, DECLARE))
}
