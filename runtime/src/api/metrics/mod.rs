//! Metrics in the text format of Prometheus.

mod own;
mod process;
#[cfg(test)]
pub(super) mod tests;
mod text;

use std::time::Duration;

use self::text::{Kind, Text};
use crate::clock::Clock;
use crate::{
    engine::{
        self, Awaited, BOUNDS, Component, ComponentCounts, FLOW_ENDED, FlowState, FlowStatus,
        Latencies, QUEUE_FULL, State,
    },
    instance_metrics::OwnMetrics,
    log,
    reloads::ReloadStatus,
};

/// Returns the metrics of a run, of its plugins, and of the process.
pub(super) fn text(flows: &[FlowStatus], plugins: &[OwnMetrics], reload: &ReloadStatus) -> String {
    let mut text = Text::default();
    about_flows(&mut text, flows);
    about_reloads(&mut text, reload);
    about_components(&mut text, flows);
    about_deliveries(&mut text, flows);
    about_connectors(&mut text, flows);
    about_turns(&mut text, flows);
    about_stored(&mut text, flows);
    about_memory(&mut text, flows);
    own::write(&mut text, plugins);
    process::write(&mut text);
    text.0
}

fn about_flows(text: &mut Text, flows: &[FlowStatus]) {
    let version = env!("CARGO_PKG_VERSION");
    text.family("tremor_build_info", Kind::Gauge, "The version of tremor; always 1.");
    text.sample("tremor_build_info", &[("version", version)], 1);
    let name = "tremor_log_lines_dropped_total";
    text.family(
        name,
        Kind::Counter,
        "Log lines that were dropped because stderr did not accept them.",
    );
    text.sample(name, &[], log::dropped_lines());
    let help = "1 for the state that a flow is in, and 0 for the others.";
    text.family("tremor_flow_state", Kind::Gauge, help);
    for (flow, state) in flows.iter().flat_map(|flow| FlowState::ALL.map(|it| (flow, it))) {
        let labels = [("flow", &*flow.name), ("state", state.as_str())];
        text.sample("tremor_flow_state", &labels, u8::from(flow.state == state));
    }
}

fn about_reloads(text: &mut Text, reload: &ReloadStatus) {
    let name = "tremor_reloads_total";
    text.family(
        name,
        Kind::Counter,
        "Reloads of flows that have changed something, failed or were not confirmed, by result.",
    );
    let applied = reload.generation - reload.returned;
    let results = [("applied", applied), ("failed", reload.failed), ("returned", reload.returned)];
    for (result, count) in results {
        text.sample(name, &[("result", result)], count);
    }
    let name = "tremor_last_reload_failed";
    let help = "1 if the last reload failed or was not confirmed, so that the flows are not those of the files, and 0 \
                otherwise.";
    text.family(name, Kind::Gauge, help);
    let differs = reload.last.as_ref().is_some_and(|(last, _)| last.result.differs_from_files());
    text.sample(name, &[], u8::from(differs));
    let name = "tremor_reload_in_progress";
    text.family(name, Kind::Gauge, "1 while a reload is in progress, and 0 otherwise.");
    text.sample(name, &[], u8::from(reload.in_progress.is_some()));
    let name = "tremor_reload_unconfirmed";
    let help =
        "1 while the flows of before return unless the reload is confirmed, and 0 otherwise.";
    text.family(name, Kind::Gauge, help);
    text.sample(name, &[], u8::from(reload.confirm_until.is_some()));
    let name = "tremor_reload_requests_waiting";
    text.family(name, Kind::Gauge, "Requests that wait for a reload that is in progress.");
    text.sample(name, &[], reload.waiting);
}

/// Counter of the events of a component with one result: the port, the value of the label `result`, and the function
/// that returns the count.
type Result = (&'static str, &'static str, fn(&ComponentCounts) -> u64);

const RESULTS: [Result; 9] = [
    ("in", "taken", |counts| counts.taken),
    ("", "created", |counts| counts.created),
    ("out", "delivered", |counts| counts.delivered),
    ("err", "dead_lettered", |counts| counts.dead_lettered),
    ("", "discarded", |counts| counts.discarded),
    ("", "merged", |counts| counts.merged),
    ("", "failed", |counts| counts.failed),
    ("", "dropped", |counts| counts.dropped),
    ("", "returned", |counts| counts.returned),
];

/// A metric of the time that the tasks of a source spend: the name, the help, and the function that returns the time in
/// ns.
type Time = (&'static str, &'static str, fn(&ComponentCounts) -> u64);

/// Returns the components of all flows with their labels.
fn components(
    flows: &[FlowStatus],
) -> impl Iterator<Item = ([(&'static str, &str); 3], &Component)> {
    flows.iter().flat_map(|flow| {
        flow.components.iter().map(|it| {
            ([("flow", &*flow.name), ("component", &it.name), ("role", it.kind.as_str())], it)
        })
    })
}

fn about_components(text: &mut Text, flows: &[FlowStatus]) {
    let name = "tremor_events_total";
    text.family(name, Kind::Counter, "Events of a component by result.");
    for ([flow, component, role], of) in components(flows) {
        for (port, result, count) in RESULTS {
            let labels = [flow, component, role, ("port", port), ("result", result)];
            text.sample(name, &labels, count(&of.counts));
        }
    }
    let name = "tremor_dropped_events_total";
    let help = "Events that the queue of a sink dropped, by reason.";
    text.family(name, Kind::Counter, help);
    for ([flow, component, _], of) in
        components(flows).filter(|(_, of)| of.kind == engine::Kind::Sink)
    {
        let ComponentCounts { dropped, dropped_at_end, .. } = of.counts;
        let reasons =
            [(QUEUE_FULL, dropped.saturating_sub(dropped_at_end)), (FLOW_ENDED, dropped_at_end)];
        for (reason, count) in reasons {
            text.sample(name, &[flow, component, ("reason", reason)], count);
        }
    }
    let name = "tremor_in_flight_events";
    text.family(
        name,
        Kind::Gauge,
        "Events in flight in a component: buffered, or being delivered.",
    );
    for (labels, of) in components(flows) {
        text.sample(name, &labels, of.counts.in_flight());
    }
    let name = "tremor_bytes_total";
    let help = "Bytes that the connector of a source read, or that were encoded for the connector of a sink.";
    text.family(name, Kind::Counter, help);
    for (labels, of) in components(flows).filter(|(_, of)| of.kind != engine::Kind::Pipeline) {
        text.sample(name, &labels, of.counts.bytes);
    }
    let times: [Time; 2] = [
        (
            "tremor_source_busy_seconds_total",
            "Time that the tasks of a source worked, without waits.",
            |counts| counts.busy_ns,
        ),
        (
            "tremor_source_in_order_seconds_total",
            "Time that the tasks of a source did work that only one of them can do at a time.",
            |counts| counts.in_order_ns,
        ),
    ];
    for (name, help, nanoseconds) in times {
        text.family(name, Kind::Counter, help);
        for ([flow, component, _], of) in
            components(flows).filter(|(_, of)| of.kind == engine::Kind::Source)
        {
            let time = Duration::from_nanos(nanoseconds(&of.counts));
            text.sample(name, &[flow, component], time.as_secs_f64());
        }
    }
    let queues = || components(flows).filter_map(|(labels, of)| Some((labels, of.queue?)));
    let name = "tremor_queue_events";
    text.family(name, Kind::Gauge, "Events in the queue of a component.");
    for (labels, queue) in queues() {
        text.sample(name, &labels, queue.events);
    }
    let name = "tremor_queue_bytes";
    text.family(name, Kind::Gauge, "Memory of the events in the queue of a component.");
    for (labels, queue) in queues() {
        text.sample(name, &labels, queue.bytes);
    }
}

fn about_stored(text: &mut Text, flows: &[FlowStatus]) {
    let name = "tremor_stored_events";
    text.family(name, Kind::Gauge, "Durable events in the queue on disk of a sink.");
    let stored = || components(flows).filter_map(|(labels, of)| Some((labels, of.stored?)));
    for ([flow, component, _], of) in stored() {
        text.sample(name, &[flow, component], of.now);
    }
    let name = "tremor_stored_redelivered_events_total";
    let help = "Events that a queue on disk has delivered again, because events of the same record were lost.";
    text.family(name, Kind::Counter, help);
    for ([flow, component, _], of) in stored() {
        text.sample(name, &[flow, component], of.redelivered);
    }
    let name = "tremor_stored_bytes";
    text.family(name, Kind::Gauge, "Bytes of the segments with these events.");
    for ([flow, component, _], of) in stored() {
        text.sample(name, &[flow, component], of.bytes);
    }
    let name = "tremor_stored_oldest_seconds";
    text.family(name, Kind::Gauge, "Age of the oldest of these events; 0 if there is none.");
    for ([flow, component, _], of) in stored() {
        text.sample(name, &[flow, component], of.oldest_seconds.unwrap_or_default());
    }
    let name = "tremor_stored_damaged_parts_total";
    let help = "Damaged parts that were found in the files of the queue on disk of a sink.";
    text.family(name, Kind::Counter, help);
    for ([flow, component, _], of) in stored() {
        text.sample(name, &[flow, component], of.damaged_parts);
    }
    let name = "tremor_stored_sync_seconds";
    let help = "Time until the disk had made what was written to a queue durable.";
    text.family(name, Kind::Histogram, help);
    for ([flow, component, _], of) in stored() {
        histogram(text, name, &[flow, component], of.syncs);
    }
}

/// Writes the samples of a histogram.
fn histogram(text: &mut Text, name: &str, labels: &[(&str, &str)], latencies: Latencies) {
    let [bucket, sum, count] = ["bucket", "sum", "count"].map(|it| format!("{name}_{it}"));
    let Latencies { counts, sum: took } = latencies;
    let mut total = 0;
    let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(counts) {
        total += count;
        let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
        text.sample(&bucket, &labels, total);
    }
    text.sample(&sum, labels, took.as_secs_f64());
    text.sample(&count, labels, total);
}

fn about_memory(text: &mut Text, flows: &[FlowStatus]) {
    let name = "tremor_memory_bytes";
    let help =
        "Memory that a component uses: its queue, deliveries in flight, memory lent to its plugin.";
    text.family(name, Kind::Gauge, help);
    for flow in flows {
        for (component, bytes) in &flow.memory.components {
            text.sample(name, &[("flow", &*flow.name), ("component", component)], bytes);
        }
    }
    let name = "tremor_memory_short";
    text.family(name, Kind::Gauge, "1 if the sources of a flow wait for memory, and 0 otherwise.");
    for flow in flows {
        text.sample(name, &[("flow", &*flow.name)], u8::from(flow.memory.is_short));
    }
    if let Some(limit) = flows.iter().find_map(|flow| flow.memory.limit) {
        let name = "tremor_memory_limit_bytes";
        text.family(name, Kind::Gauge, "Memory limit of all flows together.");
        text.sample(name, &[], limit);
    }
}

fn about_deliveries(text: &mut Text, flows: &[FlowStatus]) {
    let name = "tremor_delivery_seconds";
    let help = "Time until a connector completed a delivery, which is a batch of events.";
    text.family(name, Kind::Histogram, help);
    for (labels, of) in components(flows) {
        if let Some(latencies) = of.latencies {
            histogram(text, name, &labels, latencies);
        }
    }
}

fn about_turns(text: &mut Text, flows: &[FlowStatus]) {
    let name = "tremor_long_turns_total";
    let help = "Polls of the runtime's own tasks that took more than 100 ms outside of calls into plugins.";
    text.family(name, Kind::Counter, help);
    for flow in flows {
        for ((component, task), count) in &flow.long_turns {
            let labels = [("flow", &*flow.name), ("component", component), ("task", task)];
            text.sample(name, &labels, count);
        }
    }
}

fn about_connectors(text: &mut Text, flows: &[FlowStatus]) {
    let connectors = || {
        flows.iter().flat_map(|flow| {
            flow.connectors.iter().map(move |it| {
                let labels = [("flow", &*flow.name), ("component", &*it.connector)];
                (labels, it)
            })
        })
    };
    let name = "tremor_connector_state";
    let help = "1 for the state that a connector is in, and 0 for the others.";
    text.family(name, Kind::Gauge, help);
    for ([flow, component], of) in connectors() {
        for state in State::ALL {
            let labels = [flow, component, ("state", state.as_str())];
            text.sample(name, &labels, u8::from(of.state == state));
        }
    }
    let name = "tremor_waiting";
    let help =
        "Seconds that a source has waited for a sink or a pipeline; absent while it does not wait.";
    text.family(name, Kind::Gauge, help);
    for ([flow, component], of) in connectors() {
        for Awaited { sink, since, .. } in &of.waits_for {
            text.sample(
                name,
                &[flow, component, ("for", sink)],
                Clock::default().elapsed(*since).as_secs_f64(),
            );
        }
    }
    let name = "tremor_restarts_total";
    text.family(name, Kind::Counter, "Restarts of a connector.");
    for (labels, of) in connectors() {
        text.sample(name, &labels, of.restarts);
    }
    let name = "tremor_retries_total";
    let help = "Retries of connecting, pulls and deliveries, by kind of error.";
    text.family(name, Kind::Counter, help);
    for ([flow, component], of) in connectors() {
        for ((operation, kind), count) in &of.retries {
            let labels = [flow, component, ("operation", operation), ("kind", kind)];
            text.sample(name, &labels, count);
        }
    }
    let name = "tremor_errors_total";
    let help = "Errors of a connector that caused a retry or a failure, by kind.";
    text.family(name, Kind::Counter, help);
    for ([flow, component], of) in connectors() {
        for (kind, count) in &of.errors {
            text.sample(name, &[flow, component, ("kind", kind)], count);
        }
    }
}
