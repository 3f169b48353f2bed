//! What is checked: a component that can be made again and again.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::{
    call::{Calls, OF_CALLS, Patience, answer, direct, timed},
    report::{Finding, Verdict, ensure, fault},
};
use tremor_abi::{batch::HostBatch, connector::Hook};

use crate::{
    Acks, Batch, Error, ErrorKind, ErrorPolicy, Exception, Grant, Operator, Postprocessor,
    Preprocessor, Pull, Result, Sides,
    dynamic::{DynCodec, DynConnector, DynSink, DynSource},
    testing::TestHost,
};

/// An instance of a component of any kind.
#[allow(missing_debug_implementations)]
pub enum Instance {
    /// A connector.
    Connector(Box<dyn DynConnector>),
    /// An operator.
    Operator(Box<dyn Operator>),
    /// A codec.
    Codec(Box<dyn DynCodec>),
    /// A preprocessor.
    Preprocessor(Box<dyn Preprocessor>),
    /// A postprocessor.
    Postprocessor(Box<dyn Postprocessor>),
}

/// Makes an instance from a configuration.
pub type Make = Box<dyn Fn(&Json, &TestHost) -> Result<Instance>>;

/// A component to check.
#[allow(missing_debug_implementations)]
pub struct Subject {
    /// Its kind, in the words of metadata.
    pub kind: String,
    /// The JSON Schema of its configuration.
    pub schema: Option<Json>,
    /// A configuration that works.
    pub config: Json,
    /// Messages of the format of a codec, or byte streams of a preprocessor. The suite adds them to its own input.
    pub samples: Vec<Vec<u8>>,
    /// The folder that relative paths of it start from.
    pub folder: PathBuf,
    /// Whether nothing else runs in this process, so that its descriptors and threads are those of the
    /// component.
    pub is_alone: bool,
    /// How long a peer may take.
    pub patience: Patience,
    /// Makes an instance.
    pub make: Make,
}

/// Errors that say that a peer is missing.
pub(super) fn is_of_peer(error: &Error) -> bool {
    [ErrorPolicy::RECONNECT, ErrorPolicy::RETRY].contains(&error.policy())
        || error.kind() == ErrorKind::AUTHENTICATION
}

impl Subject {
    /// A host for an instance.
    pub(super) fn host(&self) -> TestHost {
        let host = TestHost::new();
        host.set_folder(&self.folder);
        host.set_patience(self.patience.of_timers());
        host
    }

    /// Makes an instance from this configuration.
    pub(super) fn make_from(&self, config: &Json, host: &TestHost) -> Verdict<Result<Instance>> {
        answer("new", timed("new", || (self.make)(config, host))?)
    }

    /// An instance from the configuration that works.
    pub(super) fn instance(&self, host: &TestHost) -> Verdict<Instance> {
        self.make_from(&self.config, host)?
            .map_err(|error| Finding::skip(format_args!("needs a configuration: {error}")))
    }

    /// An instance of a connector.
    pub(super) fn connector(&self, host: &TestHost) -> Verdict<Box<dyn DynConnector>> {
        match self.instance(host)? {
            Instance::Connector(connector) => Ok(connector),
            _ => Err(Finding::skip("this is no connector")),
        }
    }

    /// A connector that is connected and started, with both sides.
    pub(super) fn connected(&self) -> Verdict<Connected> {
        self.connected_for(1)
    }

    /// Connects a new instance whose sink is granted `deliveries` at a time, or the maximum that it supports.
    fn connected_for(&self, deliveries: usize) -> Verdict<Connected> {
        let host = self.host();
        let connector = self.connector(&host)?;
        let calls = Calls { host, patience: self.patience.clone() };
        let mut connected = Connected::new(connector, calls);
        connected.slots = deliveries;
        connected.connect()?;
        connected.hook(Hook::START)?;
        Ok(connected)
    }

    /// A connector with a source.
    pub(super) fn with_source(&self) -> Verdict<Connected> {
        let connected = self.connected()?;
        if connected.source.is_none() {
            return Err(Finding::skip("it has no source in this configuration"));
        }
        Ok(connected)
    }

    /// A connector with a sink.
    pub(super) fn with_sink(&self) -> Verdict<Connected> {
        self.with_sink_for(1)
    }

    /// A connector with a sink that is granted `deliveries` at a time, or the maximum that it supports.
    pub(super) fn with_sink_for(&self, deliveries: usize) -> Verdict<Connected> {
        let connected = self.connected_for(deliveries)?;
        if connected.sink.is_none() {
            return Err(Finding::skip("it has no sink in this configuration"));
        }
        Ok(connected)
    }
}

/// Number of attempts to connect, for a connector whose peer is not ready yet.
const ATTEMPTS: usize = 3;

/// A connector with its sides. They are dropped before it.
pub(super) struct Connected {
    pub(super) source: Option<Box<dyn DynSource>>,
    pub(super) acks: Option<Box<dyn Acks>>,
    pub(super) sink: Option<Box<dyn DynSink>>,
    pub(super) connector: Box<dyn DynConnector>,
    pub(super) calls: Calls,
    /// Number of deliveries at a time that the sink is granted; before it is connected, the number that is wanted.
    pub(super) slots: usize,
    /// `true` if the sink is flushed while deliveries are in flight.
    pub(super) gathers: bool,
    /// How many pulls of this connection have brought something.
    pub(super) pulls: u64,
}

impl Connected {
    /// A connector without a connection.
    pub(super) fn new(connector: Box<dyn DynConnector>, calls: Calls) -> Self {
        Self {
            source: None,
            acks: None,
            sink: None,
            connector,
            calls,
            slots: 1,
            gathers: false,
            pulls: 0,
        }
    }

    /// Connects all sides that the connector has.
    pub(super) fn connect(&mut self) -> Verdict {
        let wanted = self.connector.sides();
        let mut attempt = 1;
        let halves = loop {
            match self.calls.finish("connect", self.connector.connect(wanted))? {
                Ok(halves) => break halves,
                Err(error) if attempt < ATTEMPTS && is_of_peer(&error) => attempt += 1,
                Err(error) if error.kind() == ErrorKind::INTERNAL => {
                    let help = "answer with an error whose kind says what to do: `connection_refused` if the \
                        peer may be there later";
                    return Err(fault(format_args!("`connect` failed: {error}"), help));
                }
                Err(error) => {
                    return Err(Finding::skip(format_args!(
                        "it does not connect with this configuration: {error}"
                    )));
                }
            }
        };
        let made = Sides::new(halves.source.is_some(), halves.sink.is_some());
        ensure(
            made == wanted,
            || format!("`connect` was asked for {}, and returned {}", text(wanted), text(made)),
            "return every wanted half, and have `Connector::sides` name only sides that the connector has \
             in this configuration",
        )?;
        self.pulls = 0;
        (self.source, self.sink) = (halves.source, halves.sink);
        if let Some(source) = &mut self.source {
            let refused = |error| fault(format_args!("`acks` failed: {error}"), OF_CALLS);
            self.acks = direct("acks", || source.acks())?.map_err(refused)?;
        }
        if let Some(sink) = &mut self.sink {
            let demand = timed("demand", || sink.demand())?;
            let (wanted, supported) = (demand.in_flight, demand.most_in_flight);
            ensure(
                wanted <= supported,
                || {
                    format!(
                        "`demand` asks for {wanted} deliveries in flight, and supports {supported}"
                    )
                },
                "set with `Demand::at_most` at least what `Demand::gather` or `Demand::in_flight` asks for",
            )?;
            self.slots = self.slots.min(supported).max(1);
            self.gathers = demand.gathers;
            let grant = Grant::new(self.slots, demand.ordered, None);
            timed("on_grant", || sink.on_grant(grant))?;
        }
        Ok(())
    }

    /// Calls a method that answers with nothing.
    pub(super) fn hook(&mut self, hook: Hook) -> Verdict {
        let what = hook.as_str();
        match self.calls.finish(what, self.connector.hook(hook))? {
            Ok(()) => Ok(()),
            Err(error) if is_of_peer(&error) => {
                Err(Finding::skip(format_args!("`{what}`: {error}")))
            }
            Err(error) => {
                let help = "answer `Ok` to a call in its legal order, whatever there is left to do";
                Err(fault(format_args!("`{what}` answered with an error: {error}"), help))
            }
        }
    }

    /// Pulls once, polling no more than `polls` times; `None` where the pull is still pending then. It
    /// has been given up in that case, and `batch` has what it had.
    pub(super) fn pull(
        &mut self,
        polls: usize,
        batch: &mut Batch,
    ) -> Verdict<Option<Result<Pull>>> {
        let Some(source) = &mut self.source else { return Err(Finding::skip("it has no source")) };
        // One that brings nothing leaves its number to the next.
        batch.set_pull(self.pulls + 1);
        let pulled = self.calls.poll("pull", polls, |context| source.poll_pull(context, batch))?;
        if pulled.is_none() {
            source.give_up(batch);
        }
        self.pulls += u64::from(!batch.is_empty());
        batch.validate().map_err(|error| {
            let help = "push events with the methods of the batch, and do not edit their fields";
            fault(format_args!("the batch of a pull points to what is not there: {error}"), help)
        })?;
        Ok(pulled)
    }

    /// Polls the delivery in a slot, no more than `polls` times; `None` where it is still pending then, or
    /// waits for something outside.
    pub(super) fn deliver_in(
        &mut self,
        slot: usize,
        batch: &mut Batch,
        polls: usize,
    ) -> Verdict<Option<Result<Vec<Exception>>>> {
        let Some(sink) = &mut self.sink else { return Err(Finding::skip("it has no sink")) };
        self.calls.poll("deliver", polls, |context| sink.poll_deliver(context, slot, batch))
    }

    /// Gives up the delivery in a slot.
    pub(super) fn give_up(&mut self, slot: usize) -> Verdict {
        let Some(sink) = &mut self.sink else { return Err(Finding::skip("it has no sink")) };
        timed("deliver", || sink.give_up(slot))
    }

    /// Delivers a batch. A sink that gathers deliveries is flushed if it does not answer at once.
    pub(super) fn deliver(&mut self, batch: &Batch) -> Verdict<Option<Result<Vec<Exception>>>> {
        let mut batch = batch.clone();
        if self.gathers {
            if let Some(answer) = self.deliver_in(0, &mut batch, 1)? {
                return Ok(Some(answer));
            }
            let _ = self.flush()?;
        }
        self.deliver_in(0, &mut batch, usize::MAX)
    }

    /// Notifies the sink that time has passed.
    pub(super) fn tick(&mut self) -> Verdict<Result<()>> {
        let Some(sink) = &mut self.sink else { return Err(Finding::skip("it has no sink")) };
        self.calls.finish("on_tick", sink.on_tick()).map_err(|finding| finding.of(OF_CALLS))
    }

    /// Asks the sink to answer the deliveries in flight.
    pub(super) fn flush(&mut self) -> Verdict<Result<()>> {
        let Some(sink) = &mut self.sink else { return Err(Finding::skip("it has no sink")) };
        self.calls.finish("flush", sink.flush()).map_err(|finding| finding.of(OF_CALLS))
    }

    /// Ends the sink.
    pub(super) fn close(&mut self) -> Verdict<Result<()>> {
        let Some(sink) = &mut self.sink else { return Err(Finding::skip("it has no sink")) };
        self.calls.finish("close", sink.close()).map_err(|finding| finding.of(OF_CALLS))
    }

    /// To the end, with or without a drain, and what is left then.
    pub(super) fn stop(mut self, drains: bool) -> Verdict<TestHost> {
        if drains && self.sink.is_some() {
            // Another check examines the answer.
            let _ = self.close()?;
        }
        (self.source, self.acks, self.sink) = (None, None, None);
        self.hook(Hook::CLOSE)?;
        Ok(self.calls.host)
    }
}

fn text(sides: Sides) -> &'static str {
    match (sides.has_source(), sides.has_sink()) {
        (true, true) => "a source and a sink",
        (true, false) => "a source and no sink",
        (false, true) => "a sink and no source",
        (false, false) => "no side at all",
    }
}
