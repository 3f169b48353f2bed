//! The component that is checked. Each check creates new instances of the component.

use std::{path::PathBuf, task::Context};

use serde_json::Value as Json;

use super::{
    call::{Awaited, Calls, OF_CALLS, Patience, answer, direct, timed},
    report::{Finding, UNCONNECTED, Verdict, ensure, fault},
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

/// A function that creates an instance from a configuration.
pub type Make = Box<dyn Fn(&Json, &TestHost) -> Result<Instance>>;

/// A component to check.
#[allow(missing_debug_implementations)]
pub struct Subject {
    /// Kind of component, as in the metadata of a plugin.
    pub kind: String,
    /// Whether the component is a stateless operator: see [`Component::STATELESS`](crate::Component::STATELESS).
    pub stateless: bool,
    /// JSON Schema of the configuration.
    pub schema: Option<Json>,
    /// A valid configuration.
    pub config: Json,
    /// Additional input for the checks of a codec (messages) or of a preprocessor (byte streams).
    pub samples: Vec<Vec<u8>>,
    /// Folder from which relative paths of the configuration start.
    pub folder: PathBuf,
    /// `true` if no other code runs in this process, so that all new descriptors and threads belong to the component.
    pub is_alone: bool,
    /// Time that the checks wait for an answer of a peer.
    pub patience: Patience,
    /// Function that creates an instance.
    pub make: Make,
}

/// Returns whether the cause of an error may be a missing peer, or a peer that rejects the connection.
pub(super) fn is_of_peer(error: &Error) -> bool {
    [ErrorPolicy::RECONNECT, ErrorPolicy::RETRY].contains(&error.policy())
        || error.kind() == ErrorKind::AUTHENTICATION
}

impl Subject {
    /// Creates a host for an instance.
    pub(super) fn host(&self) -> TestHost {
        let host = TestHost::new();
        host.set_folder(&self.folder);
        host
    }

    /// Creates an instance from `config`.
    pub(super) fn make_from(&self, config: &Json, host: &TestHost) -> Verdict<Result<Instance>> {
        answer("new", timed("new", || (self.make)(config, host))?)
    }

    /// Creates an instance from the valid configuration.
    pub(super) fn instance(&self, host: &TestHost) -> Verdict<Instance> {
        self.make_from(&self.config, host)?
            .map_err(|error| Finding::skip(format_args!("needs a configuration: {error}")))
    }

    /// Creates an instance of a connector.
    pub(super) fn connector(&self, host: &TestHost) -> Verdict<Box<dyn DynConnector>> {
        match self.instance(host)? {
            Instance::Connector(connector) => Ok(connector),
            _ => Err(Finding::skip("this is not a connector")),
        }
    }

    /// Creates a connector, connects it with all its sides, and starts it.
    pub(super) fn connected(&self) -> Verdict<Connected> {
        self.connected_for(1)
    }

    /// Creates, connects and starts an instance. The sink is granted `deliveries` deliveries in flight, or fewer if it
    /// supports fewer.
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

    /// Creates, connects and starts a connector. Skips the check if the connector has no source.
    pub(super) fn with_source(&self) -> Verdict<Connected> {
        let connected = self.connected()?;
        if connected.source.is_none() {
            return Err(Finding::skip("the connector has no source in this configuration"));
        }
        Ok(connected)
    }

    /// Creates, connects and starts a connector. Skips the check if the connector has no sink.
    pub(super) fn with_sink(&self) -> Verdict<Connected> {
        self.with_sink_for(1)
    }

    /// Creates, connects and starts a connector, whose sink is granted `deliveries` deliveries in flight, or fewer if
    /// it supports fewer. Skips the check if the connector has no sink.
    pub(super) fn with_sink_for(&self, deliveries: usize) -> Verdict<Connected> {
        let connected = self.connected_for(deliveries)?;
        if connected.sink.is_none() {
            return Err(Finding::skip("the connector has no sink in this configuration"));
        }
        Ok(connected)
    }
}

/// Number of attempts to connect, for a connector whose peer is not ready yet.
const ATTEMPTS: usize = 3;

/// A connector with its sides, which are dropped before the connector.
pub(super) struct Connected {
    pub(super) source: Option<Box<dyn DynSource>>,
    pub(super) acks: Option<Box<dyn Acks>>,
    pub(super) sink: Option<Box<dyn DynSink>>,
    pub(super) connector: Box<dyn DynConnector>,
    pub(super) calls: Calls,
    /// Number of deliveries in flight that the sink is granted. Before the sink is connected, the number that the sink
    /// will be granted.
    pub(super) slots: usize,
    /// `true` if the sink answers several deliveries together, so that it has to be flushed.
    pub(super) gathers: bool,
    /// Number of pulls of this connection that returned events.
    pub(super) pulls: u64,
}

impl Connected {
    /// Creates a connector without a connection.
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
                    let help = "return an error of the kind that describes the failure, such as \
                        `connection_refused` if a later attempt may succeed";
                    return Err(fault(format_args!("`connect` failed: {error}"), help));
                }
                Err(error) => {
                    return Err(Finding::skip(format_args!("{UNCONNECTED}: {error}")));
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
                "pass to `Demand::at_most` at least the number that `Demand::gather` or `Demand::in_flight` sets",
            )?;
            self.slots = self.slots.min(supported).max(1);
            self.gathers = demand.gathers;
            let grant = Grant::new(self.slots, demand.ordered, None);
            timed("on_grant", || sink.on_grant(grant))?;
        }
        Ok(())
    }

    /// Calls a hook of the connector.
    pub(super) fn hook(&mut self, hook: Hook) -> Verdict {
        let what = hook.as_str();
        match self.calls.finish(what, self.connector.hook(hook))? {
            Ok(()) => Ok(()),
            Err(error) if is_of_peer(&error) => {
                Err(Finding::skip(format_args!("`{what}`: {error}")))
            }
            Err(error) => {
                let help =
                    "return `Ok` from a call in its legal order, even if there is nothing to do";
                Err(fault(format_args!("`{what}` returned an error: {error}"), help))
            }
        }
    }

    /// Pulls once, and polls the pull at most `polls` times. If the pull is still pending then, cancels it and returns
    /// `None`; `batch` then contains the events that the pull had added.
    pub(super) fn pull(
        &mut self,
        polls: usize,
        batch: &mut Batch,
    ) -> Verdict<Option<Result<Pull>>> {
        let Some(source) = &mut self.source else {
            return Err(Finding::skip("the connector has no source"));
        };
        // After a pull without an event, the next pull has the same number.
        batch.set_pull(self.pulls + 1);
        let awaited = if self.pulls == 0 { Awaited::FirstEvents } else { Awaited::MoreEvents };
        let poll = |context: &mut Context<'_>| source.poll_pull(context, batch);
        let pulled = self.calls.poll("pull", awaited, polls, poll)?;
        if pulled.is_none() {
            source.give_up(batch);
        }
        self.pulls += u64::from(!batch.is_empty());
        batch.validate().map_err(|error| {
            let help = "push events with the methods of the batch, and do not edit their fields";
            fault(format_args!("the batch of a pull is invalid: {error}"), help)
        })?;
        Ok(pulled)
    }

    /// Polls the delivery in `slot` at most `polls` times. Returns `None` if the delivery is still pending then, or if
    /// it waits for a peer that does not answer.
    pub(super) fn deliver_in(
        &mut self,
        slot: usize,
        batch: &mut Batch,
        polls: usize,
    ) -> Verdict<Option<Result<Vec<Exception>>>> {
        let Some(sink) = &mut self.sink else {
            return Err(Finding::skip("the connector has no sink"));
        };
        let poll = |context: &mut Context<'_>| sink.poll_deliver(context, slot, batch);
        self.calls.poll("deliver", Awaited::Answer, polls, poll)
    }

    /// Cancels the delivery in `slot`.
    pub(super) fn give_up(&mut self, slot: usize) -> Verdict {
        let Some(sink) = &mut self.sink else {
            return Err(Finding::skip("the connector has no sink"));
        };
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

    /// Calls [`Sink::on_tick`](crate::Sink::on_tick) once.
    pub(super) fn tick(&mut self) -> Verdict<Result<()>> {
        let Some(sink) = &mut self.sink else {
            return Err(Finding::skip("the connector has no sink"));
        };
        self.calls.finish("on_tick", sink.on_tick()).map_err(|finding| finding.of(OF_CALLS))
    }

    /// Asks the sink to answer the deliveries in flight.
    pub(super) fn flush(&mut self) -> Verdict<Result<()>> {
        let Some(sink) = &mut self.sink else {
            return Err(Finding::skip("the connector has no sink"));
        };
        self.calls.finish("flush", sink.flush()).map_err(|finding| finding.of(OF_CALLS))
    }

    /// Closes the sink.
    pub(super) fn close(&mut self) -> Verdict<Result<()>> {
        let Some(sink) = &mut self.sink else {
            return Err(Finding::skip("the connector has no sink"));
        };
        self.calls.finish("close", sink.close()).map_err(|finding| finding.of(OF_CALLS))
    }

    /// Stops the connector, with or without a drain, and returns its host.
    pub(super) fn stop(mut self, drains: bool) -> Verdict<TestHost> {
        if drains && self.sink.is_some() {
            // The answer is ignored, because another check examines it.
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
        (false, false) => "no side",
    }
}
