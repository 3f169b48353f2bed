//! `tremor run`.

use std::{fmt::Write as _, time::Duration};

use tracing::Level;
use tremor_runtime::parse_size;
use tremor_runtime::{
    descriptors,
    engine::{HeldUp, Kind, Report},
    memory::MemoryBudget,
    redact,
    run::{self, RunHandle},
};

use super::{
    Expected, Failure, Prepared, api, beside::Beside, failure::Reason, logging, progress, service,
    signals,
};

/// Least limit for memory, in bytes: with less, a few large batches would stop all sources.
const LEAST_MEMORY: usize = 16 << 20;

/// Runs flows to their end, shows how far they are to those that want to know, and summarises them.
pub(crate) fn execute(
    flows: &[Prepared],
    deadline: Duration,
    memory_limit: Option<usize>,
    ready: service::Ready,
    api: &api::Arguments,
) -> Result<(), Failure> {
    descriptors::raise_limit();
    let handle = RunHandle::default();
    // They end after the flows.
    let _server = api.start(&handle, flows.len())?;
    let _service = service::start(&handle, flows.len(), ready);
    let memory = memory_limit.map_or_else(MemoryBudget::of_machine, MemoryBudget::new);
    let reports = run(flows, deadline, &handle, &memory, progress::start(&handle))?;
    let mut failure = Failure::default();
    reports.iter().for_each(|report| report_lost(report, &mut failure));
    failure.or(())
}

/// Reads a limit for memory.
///
/// # Errors
/// A text that is not a size, or less than the least limit.
pub(super) fn memory_limit(text: &str) -> Result<usize, Expected> {
    let bytes = parse_size(text).and_then(|bytes| usize::try_from(bytes).ok());
    bytes
        .filter(|bytes| *bytes >= LEAST_MEMORY)
        .ok_or(Expected("a size of at least `16MiB`, such as `512MiB` or `2GiB`"))
}

/// Runs flows to their end, and reports the counts of their events. Progress is shown until then.
pub(crate) fn run(
    flows: &[Prepared],
    deadline: Duration,
    handle: &RunHandle,
    memory: &MemoryBudget,
    progress: Option<Beside>,
) -> Result<Vec<Report>, Failure> {
    signals::listen(handle.clone()).map_err(|error| {
        Failure::of_flow(format_args!("error: cannot listen for signals: {error}"))
    })?;
    let mut failure = Failure::default();
    let flows: Vec<_> =
        flows.iter().map(|prepared| (&prepared.flow, &*prepared.components)).collect();
    let reports = run::run_within(&flows, handle, deadline, memory).unwrap_or_else(|error| {
        failure.usage(&error);
        Vec::new()
    });
    drop(progress);
    reports.iter().for_each(|report| summarise(report, &mut failure));
    failure.or(reports)
}

/// What a component is.
fn what(report: &Report, component: &str) -> &'static str {
    let mut named = report.components.iter().filter(|it| it.name == component);
    if named.any(|it| it.kind == Kind::Pipeline) { "pipeline" } else { "connector" }
}

fn summarise(report: &Report, failure: &mut Failure) {
    let Report { flow, counts, elapsed, .. } = report;
    let some = |count, what| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let failed = some(counts.failed, "failed");
    let discarded = some(counts.discarded, "discarded");
    let text = format!(
        "flow `{flow}`: {} events in, {} out, {} dead-lettered{discarded}{failed}, {:.3} s",
        counts.events_in,
        counts.events_out,
        counts.dead_lettered,
        elapsed.as_secs_f64()
    );
    let fields = logging::fields([
        ("flow", flow.as_str().into()),
        ("events_in", counts.events_in.into()),
        ("events_out", counts.events_out.into()),
        ("dead_lettered", counts.dead_lettered.into()),
        ("discarded", counts.discarded.into()),
        ("failed", counts.failed.into()),
        ("elapsed_s", elapsed.as_secs_f64().into()),
    ]);
    logging::print(Level::INFO, &text, fields);
    if let Some(reason) = &report.failure {
        failure.of(
            flow,
            Reason::Failed,
            &format_args!(
                "error: flow `{flow}` failed: {} `{}`: {}",
                what(report, &reason.component),
                reason.component,
                redact::text(&reason.error.to_string())
            ),
        );
    }
    let mut held_up = String::new();
    for HeldUp { component, doing } in &report.held_up {
        // The text may contain an error, and writing to a string cannot fail.
        let _ = write!(held_up, "\n  `{component}`: {}", redact::text(doing));
    }
    if report.is_incomplete {
        failure.of(
            flow,
            Reason::Incomplete,
            &format_args!(
                "error: flow `{flow}` was stopped before everything had been delivered{held_up}\n  help: \
                 `--drain-timeout` says how long it may take"
            ),
        );
    } else if report.cut_off {
        let text = format!(
            "warning: flow `{flow}` was stopped before everything had been delivered{held_up}\n  note: \
             the next run reads the events again"
        );
        logging::print(Level::WARN, &text, logging::fields([("flow", flow.as_str().into())]));
    }
}

/// Adds an error if events of a flow failed and their source is not told. Messages that a source could not decode
/// count only if nothing else came: a peer that sends a bad message does not make the run of a service fail.
fn report_lost(report: &Report, failure: &mut Failure) {
    let Report { flow, counts, components, .. } = report;
    let sources = components.iter().filter(|it| it.kind == Kind::Source);
    let refused: u64 = sources.map(|it| it.counts.unrecoverable).sum();
    let has_accepted = counts.events_in > refused;
    let lost = counts.undelivered + counts.unrecoverable - if has_accepted { refused } else { 0 };
    if lost > 0 {
        failure.of(
            flow,
            Reason::EventsFailed,
            &format_args!(
                "error: {lost} events of flow `{flow}` failed and are lost\n  help: link `err` of the \
                 components that the log names, or set `err: discard`"
            ),
        );
    }
}
