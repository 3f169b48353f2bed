//! The JSON form of the status of flows.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{reload::ReloadJson, text::seconds};
use crate::clock::Clock;
use crate::{
    engine::{Awaited, Component, ComponentCounts, FlowStatus, Queue, Status, Stored},
    memory::MemoryStatus,
    redact,
    watchdog::GivenUp,
};

/// Status of all flows.
#[derive(Serialize)]
pub(super) struct FlowsJson {
    pub(super) flows: Vec<FlowJson>,
    pub(super) reload: ReloadJson,
}

/// Status of a flow.
#[derive(Serialize)]
pub(super) struct FlowJson {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureJson>,
    given_up: Vec<GivenUpJson>,
    connectors: Vec<ConnectorJson>,
    components: Vec<ComponentJson>,
    memory: MemoryJson,
}

/// Memory of a flow.
#[derive(Serialize)]
struct MemoryJson {
    /// Memory limit that all flows of the process share, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// Memory of all components of the flow, in bytes.
    taken: usize,
    /// `true` if sources wait for memory.
    is_short: bool,
    /// Memory of each component, in bytes.
    components: BTreeMap<String, usize>,
}

/// First failure of a flow.
#[derive(Serialize)]
struct FailureJson {
    component: String,
    error: String,
}

/// A part of a component that has panicked too often, and is not called again.
#[derive(Serialize)]
struct GivenUpJson {
    component: String,
    part: String,
    error: String,
}

/// Status of a connector.
#[derive(Serialize)]
pub(super) struct ConnectorJson {
    name: String,
    state: &'static str,
    /// Time since the state was entered, in seconds.
    state_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    restarts: u64,
    errors: BTreeMap<&'static str, u64>,
    /// Number of retries by operation: `connect`, `pull`, `deliver`.
    retries: BTreeMap<&'static str, u64>,
    queued: usize,
    in_flight: usize,
    /// Sinks and pipelines because of which the connector's source is not pulled.
    waits_for: Vec<AwaitedJson>,
}

/// A sink or a pipeline for which a source waits.
#[derive(Serialize)]
struct AwaitedJson {
    sink: String,
    reason: &'static str,
    seconds: f64,
    /// Memory that the component uses, if the source waits for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Status of a component: a side of a connector, or a pipeline.
#[derive(Serialize)]
struct ComponentJson {
    name: String,
    role: &'static str,
    events: EventsJson,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<Stored>,
}

/// Counts of the events of a component.
#[derive(Serialize)]
struct EventsJson {
    #[serde(flatten)]
    counts: ComponentCounts,
    in_flight: i64,
}

impl From<&FlowStatus> for FlowJson {
    fn from(flow: &FlowStatus) -> Self {
        Self {
            name: flow.name.clone(),
            state: flow.state.as_str(),
            failure: flow.failure.as_ref().map(|failure| FailureJson {
                component: failure.component.clone(),
                error: redact::owned(failure.error.to_string()),
            }),
            given_up: flow.given_up.iter().map(Into::into).collect(),
            connectors: flow.connectors.iter().map(Into::into).collect(),
            components: flow.components.iter().map(Into::into).collect(),
            memory: (&flow.memory).into(),
        }
    }
}

impl From<&GivenUp> for GivenUpJson {
    fn from(GivenUp { component, part, error }: &GivenUp) -> Self {
        let error = redact::owned(error.to_string());
        Self { component: component.to_string(), part: part.to_string(), error }
    }
}

impl From<&MemoryStatus> for MemoryJson {
    fn from(MemoryStatus { limit, is_short, components }: &MemoryStatus) -> Self {
        Self {
            limit: *limit,
            taken: components.iter().map(|(_, bytes)| bytes).sum(),
            is_short: *is_short,
            components: components.iter().cloned().collect(),
        }
    }
}

impl From<&Status> for ConnectorJson {
    fn from(connector: &Status) -> Self {
        let mut retries = BTreeMap::new();
        for ((operation, _), count) in &connector.retries {
            *retries.entry(*operation).or_default() += count;
        }
        Self {
            name: connector.connector.clone(),
            state: connector.state.as_str(),
            state_seconds: seconds(Clock::default().elapsed(connector.since)),
            error: connector.error.clone().map(redact::owned),
            restarts: connector.restarts,
            errors: connector.errors.clone(),
            retries,
            queued: connector.queued,
            in_flight: connector.in_flight,
            waits_for: connector.waits_for.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Awaited> for AwaitedJson {
    fn from(Awaited { sink, reason, since, error, bytes, .. }: &Awaited) -> Self {
        Self {
            sink: sink.clone(),
            reason,
            seconds: seconds(Clock::default().elapsed(*since)),
            bytes: *bytes,
            error: error.clone().map(redact::owned),
        }
    }
}

impl From<&Component> for ComponentJson {
    fn from(Component { name, kind, counts, queue, stored, .. }: &Component) -> Self {
        let events = EventsJson { counts: *counts, in_flight: counts.in_flight() };
        let (name, role) = (name.clone(), kind.as_str());
        Self { name, role, events, bytes: counts.bytes, queue: *queue, stored: *stored }
    }
}
