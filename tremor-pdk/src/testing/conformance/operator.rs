//! Checks of operators.

use super::{
    call::direct,
    construct::MANY,
    corpus,
    report::{Finding, Verdict, ensure, fault},
    subject::{Instance, Subject},
};
use tremor_abi::batch::HostBatch;

use crate::{Batch, Operator, Output, Result};

/// How many batches an operator gets, and how often it may be told the time at one moment.
const BATCHES: u64 = 6;
const TIMES: usize = 1_000;

/// An operator with the books of what it had.
struct Accounted {
    operator: Box<dyn Operator>,
    ports: usize,
    output: Output,
    held: usize,
    /// The batches that it has said to hold events of, as often as it has said so.
    holds: Vec<u64>,
    /// What it put out, by port.
    transcript: Vec<(String, String)>,
}

const ACCOUNTS: &str = "`Operator::process`: every event is left, sent, rejected, discarded, merged or \
    held, and what is put out came in or was created";

impl Accounted {
    fn new(subject: &Subject) -> Verdict<Self> {
        let Instance::Operator(operator) = subject.instance(&subject.host())? else {
            return Err(Finding::skip("this is no operator"));
        };
        let ports = operator.ports().len();
        let (output, holds, transcript) = (Output::new(), Vec::new(), Vec::new());
        Ok(Self { operator, ports, output, held: 0, holds, transcript })
    }

    /// One call, and what became of all events.
    fn call(
        &mut self,
        what: &str,
        number: u64,
        batch: &mut Batch,
        call: impl FnOnce(&mut dyn Operator, &mut Batch, &mut Output) -> Result<()>,
    ) -> Verdict {
        let came = batch.len();
        self.output.begin(number);
        let Self { operator, output, .. } = self;
        let result = direct(what, || call(&mut **operator, batch, output))?;
        let held = self.operator.held();
        let ports: usize = self.output.batches().map(Batch::len).sum();
        let (left, rejected) = (batch.len(), self.output.rejected().len());
        let (created, merged) = (self.output.take_created(), self.output.take_merged());
        let discarded = self.output.take_discarded();
        let had = came + self.held + created;
        let accounted = left + ports + rejected + discarded + merged + held;
        let seen = || {
            format!(
                "`{what}` had {had} events ({came} came in, {} were held, {created} created) and accounts \
                 for {accounted}: {left} left, {ports} sent, {rejected} rejected, {discarded} discarded, \
                 {merged} merged, {held} held",
                self.held
            )
        };
        let help = "say what became of each event: `Output::discard`, `merge`, `create`, and \
            `Operator::held`; `Output::divert` does it for you";
        match &result {
            Ok(()) => ensure(had == accounted, seen, help),
            // What is left goes to `err`.
            Err(_) => ensure(
                had <= accounted,
                seen,
                "leave in the batch what a failed call has not handled",
            ),
        }
        .map_err(|finding| finding.of(ACCOUNTS))?;
        self.held = held;
        self.hold(what, number)?;
        self.send(what, batch)
    }

    /// Which batches are held.
    fn hold(&mut self, what: &str, number: u64) -> Verdict {
        let contract = "`Operator::held`: what is held of a batch is also said with `Output::hold`, and \
            with `Output::release` once it goes out";
        (0..self.output.holds()).for_each(|_| self.holds.push(number));
        for released in self.output.take_released() {
            let known = self.holds.iter().position(|held| *held == released);
            let Some(known) = known else {
                let seen = format!("`{what}` releases batch {released}, which is not held");
                return Err(fault(seen, "release a `Holds` once").of(contract));
            };
            self.holds.swap_remove(known);
        }
        let seen = || {
            format!("{} events are held and no batch is: it is acknowledged too early", self.held)
        };
        let help = "call `Output::hold` where an event of the batch in hand is kept";
        ensure(self.held == 0 || !self.holds.is_empty(), seen, help)
            .map_err(|it| it.of(contract))?;
        let seen = || {
            format!(
                "no event is held and {} batches are: they are never acknowledged",
                self.holds.len()
            )
        };
        let help = "call `Output::release` where what was held goes out or is dropped";
        ensure(self.held > 0 || self.holds.is_empty(), seen, help).map_err(|it| it.of(contract))
    }

    /// Takes what was put out.
    fn send(&mut self, what: &str, batch: &Batch) -> Verdict {
        let forged = self.output.batches().chain([batch]).find_map(|batch| batch.validate().err());
        if let Some(error) = forged {
            let help = "move events with the methods of the batch, and do not edit their fields";
            return Err(fault(format_args!("after `{what}`: {error}"), help));
        }
        for (port, text) in self.output.rejected().iter().map(|it| ("err", it.error.to_string())) {
            self.transcript.push((port.to_owned(), text));
        }
        let _ = self.output.take_rejected();
        for sent in self.output.take_ports() {
            let is_known = sent.port == Output::OUT || usize::from(sent.port) < self.ports;
            let seen = || format!("`{what}` sends out of port {} of {}", sent.port, self.ports);
            let help = "name every port in `Operator::ports`, and send by its position there";
            ensure(is_known, seen, help)
                .map_err(|it| it.of("`Operator::ports`: an event leaves by a port's position"))?;
            note(&mut self.transcript, &sent.port.to_string(), &sent.batch);
        }
        note(&mut self.transcript, "out", batch);
        Ok(())
    }

    /// A batch of events, later than those before.
    fn process(&mut self, number: u64) -> Verdict {
        let mut batch = input(number);
        self.call("process", number, &mut batch, Operator::process)
    }

    /// It is late enough for what is due.
    fn pass_time(&mut self) -> Verdict {
        for _ in 0..TIMES {
            let Some(due) = self.operator.due() else { return Ok(()) };
            self.call("on_time", 0, &mut Batch::new(), |operator, batch, output| {
                operator.on_time(due, batch, output)
            })?;
            let next = self.operator.due();
            let seen = || {
                format!(
                    "`on_time` was called for {due}, and {next:?} is due: it is called again and again"
                )
            };
            let help = "answer `due` with a later time, or none, once `on_time` was called for one";
            ensure(next.is_none_or(|next| next > due), seen, help)
                .map_err(|it| it.of("`Operator::due`: when `on_time` is to be called next"))?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Verdict {
        self.call("flush", 0, &mut Batch::new(), Operator::flush)
    }
}

fn note(transcript: &mut Vec<(String, String)>, port: &str, batch: &Batch) {
    for event in batch {
        let text = event.value().map_or_else(String::new, |value| value.to_string());
        transcript.push((port.to_owned(), text));
    }
}

fn input(number: u64) -> Batch {
    let mut batch = Batch::new();
    // They are values that every document can hold.
    corpus::values().iter().for_each(|value| drop(batch.stream(number % 2).push(value)));
    let mut now = 1_000_000_000 * number;
    batch.for_each_mut(|mut event| {
        now += 1_000_000;
        event.set_ingest_ns(now);
    });
    batch
}

pub(super) fn names_ports(subject: &Subject) -> Verdict {
    let ports = || match subject.instance(&subject.host())? {
        Instance::Operator(operator) => super::call::timed("ports", || operator.ports()),
        _ => Err(Finding::skip("this is no operator")),
    };
    let (first, second) = (ports()?, ports()?);
    let help = "give the same ports for the same configuration";
    ensure(first == second, || format!("it has the ports {first:?}, and then {second:?}"), help)?;
    for (position, port) in first.iter().enumerate() {
        let is_good = !port.is_empty()
            && !["in", "out", "err"].contains(&&**port)
            && !port.contains(|c: char| c.is_whitespace() || c == '/')
            && !first[..position].contains(port);
        let help = "give each port a name of its own, without space or `/`, and not in, out or err";
        ensure(is_good, || format!("a port is called `{port}`, of {first:?}"), help)?;
    }
    Ok(())
}

pub(super) fn accounts(subject: &Subject) -> Verdict {
    let mut operator = Accounted::new(subject)?;
    (1..=BATCHES).try_for_each(|number| operator.process(number))?;
    operator.call("process", BATCHES + 1, &mut Batch::new(), Operator::process)
}

pub(super) fn knows_the_time(subject: &Subject) -> Verdict {
    let mut operator = Accounted::new(subject)?;
    operator.pass_time()?;
    for number in 1..=BATCHES {
        operator.process(number)?;
        operator.pass_time()?;
    }
    Ok(())
}

pub(super) fn drains(subject: &Subject) -> Verdict {
    let mut operator = Accounted::new(subject)?;
    operator.drain()?;
    (1..=BATCHES).try_for_each(|number| operator.process(number))?;
    operator.drain()?;
    let seen = || format!("after `flush` it still holds {} events", operator.held);
    ensure(operator.held == 0, seen, "put out all that is held in `flush`")
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
        let mut both = first.transcript.iter().zip(&operator.transcript);
        let differs = both.position(|(a, b)| a != b);
        let lengths = (first.transcript.len(), operator.transcript.len());
        let seen = || {
            format!(
                "instance {} of {MANY} puts out {} events and the first {}; they differ from event {} on",
                position + 2,
                lengths.1,
                lengths.0,
                differs.map_or(lengths.0.min(lengths.1), |it| it) + 1,
            )
        };
        let help = "keep state in `self` and not in a static; what an operator puts out follows from its \
            configuration, its events and their times";
        ensure(differs.is_none() && lengths.0 == lengths.1, seen, help)?;
    }
    Ok(())
}
