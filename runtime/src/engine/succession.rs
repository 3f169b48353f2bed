//! The reload's access to connectors of a running flow: which of them can be replaced in the flow, and their hand-over to
//! successors.

use std::{
    fmt::{self, Debug, Formatter},
    sync::{Arc, Mutex, Weak},
};

use tremor_pdk::lock;

use crate::{
    engine::{
        FlowHandle, Phase, State,
        connector::{
            ConnectorTask,
            handover::{Handover, Replaceable},
        },
        handle::ConnectorHandle,
        parts::Parts,
        plan::assembly::successor,
        route::{haste::Hurried, router::Egress},
    },
    flow::{self, Flow},
    memory::FlowMemory,
    watchdog::Calls,
};

pub(crate) use crate::engine::connector::handover::Stage;

/// Keys of a connector whose change affects the tasks that decode or encode for the connector.
const CODED: [&str; 4] = ["type", "codec", "postprocessors", "pull"];

/// A running connector that can be handed over.
#[derive(Clone)]
pub(crate) struct Member {
    pub(super) handle: Arc<ConnectorHandle>,
    pub(super) handover: Arc<Handover>,
    is_coded_elsewhere: bool,
    /// The object through which the sink sends to its port `err`.
    egress: Weak<Egress>,
    /// Ends waits of the sink for the queues after its port `err`, while the connector has to close.
    hurried: Arc<Mutex<Option<Hurried>>>,
}

impl Debug for Member {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("connector", &self.handle.name()).finish_non_exhaustive()
    }
}

impl Member {
    pub(super) fn of(task: &ConnectorTask) -> Self {
        let ConnectorTask { handle, handover, is_coded_elsewhere, sink, .. } = task;
        let egress = sink.as_ref().map(|sink| Arc::downgrade(&sink.router.egress));
        Self {
            handle: handle.clone(),
            handover: handover.clone(),
            is_coded_elsewhere: *is_coded_elsewhere,
            egress: egress.unwrap_or_default(),
            hurried: Arc::default(),
        }
    }

    /// Ends waits of the sink for the queues after its port `err`, because the connector has to close.
    pub(super) fn hurry(&self) {
        *lock(&self.hurried) = self.egress.upgrade().map(|egress| egress.hurry());
    }

    /// Prepares the hand-over of the connector. `calls` are the records of its flow.
    pub(super) fn succession(&self, next: Replaceable, calls: &Arc<Calls>) -> Succession {
        let (connector, calls, next) = (self.clone(), calls.clone(), Some(Box::new(next)));
        Succession { connector, calls, next, was_connected: false }
    }
}

/// The hand-over of a connector to its successor. It ends when this value is dropped: the connector keeps the
/// specification that it has then, or for which it was released, and if it has failed on trial, it fails its flow.
pub(crate) struct Succession {
    connector: Member,
    calls: Arc<Calls>,
    next: Option<Box<Replaceable>>,
    /// `true` if the connector had a connection when the hand-over was requested.
    was_connected: bool,
}

impl FlowHandle {
    /// Returns the records of the flow's calls to plugins.
    pub(crate) fn calls(&self) -> &Arc<Calls> {
        self.control.calls()
    }

    /// Returns the memory of the flow.
    pub(crate) fn memory(&self) -> &FlowMemory {
        self.control.memory()
    }

    fn member(&self, connector: &str) -> Option<Member> {
        self.running.member(connector)
    }

    /// Returns whether other tasks decode or encode for the connector.
    pub(crate) fn is_coded_elsewhere(&self, connector: &str) -> bool {
        self.member(connector).is_some_and(|it| it.is_coded_elsewhere)
    }

    /// Returns the reason why the connector cannot be replaced while the flow runs, if there is one. `keys` are those of
    /// its specification that have changed.
    pub(crate) fn obstacle(&self, connector: &str, keys: &[String]) -> Option<String> {
        if self.control.has_reached(Phase::Draining) {
            return Some("the flow is ending".to_owned());
        }
        let member = self.member(connector)?;
        if matches!(member.handle.status().state, State::Draining | State::Failed | State::Stopped)
        {
            return Some(format!("the connector `{connector}` has ended"));
        }
        let key = keys.iter().find(|key| member.is_coded_elsewhere && CODED.contains(&&***key))?;
        Some(format!("`{key}` of `{connector}` has changed, and the source encodes for its sink"))
    }

    /// Creates the parts of the successor of a connector, which `flow` specifies. To find errors before anything changes,
    /// the parts are created twice: once with `trial`, with an instance that is dropped, and then with `parts`.
    ///
    /// # Errors
    /// Returns the reason why a component cannot be created, with its location in the flow file.
    pub(crate) fn succession(
        &self,
        flow: &Flow,
        connector: &str,
        trial: &dyn Parts,
        parts: &dyn Parts,
    ) -> Result<Succession, flow::Error> {
        let missing = || flow.error(flow::Span::START, format!("`{connector}` does not run"));
        let member = self.member(connector).ok_or_else(missing)?;
        rehearse(flow, connector, trial)?;
        Ok(member.succession(successor(flow, parts, connector)?, self.control.calls()))
    }
}

/// Creates an instance of a connector and drops it, to find errors of its constructor.
///
/// # Errors
/// Returns the reason why the instance cannot be created, with its location in the flow file.
pub(super) fn rehearse(
    flow: &Flow,
    connector: &str,
    trial: &dyn Parts,
) -> Result<(), flow::Diagnostic> {
    successor(flow, trial, connector)?.rehearse().map_err(|error| {
        let mut connectors = flow.spec.connectors.iter();
        let spec = connectors.find(|it| it.name.value == connector);
        let at = spec.map_or(flow::Span::START, |it| it.component.name.at);
        flow.error(at, format!("cannot create the connector `{connector}`: {error}"))
    })
}

impl Succession {
    /// Returns the name of the connector.
    pub(crate) fn connector(&self) -> &str {
        self.connector.handle.name()
    }

    /// Returns whether the hand-over has closed a connection.
    pub(crate) fn was_connected(&self) -> bool {
        self.was_connected
    }

    /// Lets the connector close. It connects only after [`Succession::release`].
    pub(crate) fn request(&mut self) {
        let Member { handle, handover, .. } = &self.connector;
        let Some(next) = self.next.take() else { return };
        let state = handle.status().state;
        self.was_connected = !matches!(state, State::Connecting | State::Restarting);
        handover.request(next);
        self.connector.hurry();
        // The successor has other instances of the parts that are not called any more.
        self.calls.revive(handle.name());
        handle.restart();
    }

    /// Lets the connector close and return to its previous specification.
    pub(crate) fn request_back(&self) {
        let Member { handle, handover, .. } = &self.connector;
        if self.next.is_none() {
            // Parts of the successor may have been given up.
            self.calls.revive(handle.name());
        }
        if handover.request_back() {
            self.connector.hurry();
            handle.restart();
        }
    }

    /// Lets a connector that has closed connect according to its other specification.
    pub(crate) fn release(&self, is_on_trial: bool) {
        *lock(&self.connector.hurried) = None;
        self.connector.handover.release(is_on_trial);
    }

    /// Returns the progress of the hand-over.
    pub(crate) fn stage(&self) -> Stage {
        self.connector.handover.stage()
    }
}

impl Drop for Succession {
    fn drop(&mut self) {
        // Before the request, another reload may have a hand-over of the connector in progress.
        if self.next.is_none() {
            *lock(&self.connector.hurried) = None;
            self.connector.handover.settle();
        }
    }
}
