//! `tremor run`.

use std::{fmt::Write as _, path::PathBuf, sync::Arc, time::Duration};

use tracing::Level;
use tremor_runtime::parse_size;
use tremor_runtime::{
    clock::Clock,
    descriptors,
    engine::{Kind, Report, Unfinished},
    flow::{self, Environment},
    memory::MemoryBudget,
    redact,
    run::{self, Checked, RunHandle},
};

use super::{
    Expected, Failure, Prepared, api, background::Background, failure::Reason, files, logging,
    prepare::PluginArguments, progress, service, signals,
};

/// Minimum memory limit, in bytes. With a lower limit, a few large batches would be enough to stop all sources.
const LEAST_MEMORY: usize = 16 << 20;

/// Flow files of the command line.
pub(crate) struct Files {
    /// Files and folders.
    pub(super) given: Vec<PathBuf>,
    /// `true` if a change of a file has the effect of a request to reload.
    pub(super) watch: bool,
}

/// Runs flows until they end, and prints a summary. Meanwhile shows their progress, answers requests of the admin API,
/// reloads the flows on request, and notifies a service manager.
pub(crate) fn execute(
    plugins: PluginArguments,
    files: Files,
    deadline: Duration,
    memory_limit: Option<usize>,
    ready: service::Ready,
    api: &api::Arguments,
) -> Result<(), Failure> {
    let handle = RunHandle::default();
    handle.reloads().expect();
    // The state from before the files are read, so that no change is missed.
    let since = files::state(&files.given);
    let flows = prepared(&plugins, &files.given)?;
    let files = reread(plugins, files, since);
    descriptors::raise_limit();
    // The API server and the notifications are dropped after the flows have ended.
    let _server = api.start(&handle, flows.len())?;
    let _service = service::start(&handle, flows.len(), ready);
    let memory = memory_limit.map_or_else(MemoryBudget::of_machine, MemoryBudget::new);
    let progress = progress::start(&handle);
    let mut failure = Failure::default();
    let mut earlier = Failure::default();
    let reports = ending(&handle, progress, |handle| {
        let clock = Clock::default();
        run::run_with_reloads(&flows, files, handle, deadline, &memory, &clock, |report| {
            let (mut ended, mut lost) = (Failure::default(), Failure::default());
            summarise(&report, &mut ended);
            report_lost(&report, &mut lost);
            // A failure that a reload has mended does not fail the run, but events that were lost stay lost.
            if report.is_incomplete {
                earlier.keep_reason(&ended);
            }
            earlier.keep_reason(&lost);
            ended.with(lost).print();
        })
    })?;
    for report in &reports {
        report_lost(report, &mut failure);
    }
    failure.with(earlier).or(())
}

/// Reads and checks the flow files of the command line.
fn prepared(plugins: &PluginArguments, given: &[PathBuf]) -> Result<Vec<Checked>, Failure> {
    let prepared = plugins.prepare(&files::expanded(given)?, &Environment::default())?;
    let checked = |Prepared { flow, components }| Checked { flow: Arc::new(flow), components };
    Ok(prepared.into_iter().map(checked).collect())
}

/// Returns the functions with which a run reads its files again. `since` is their state from before they were first
/// read.
fn reread(plugins: PluginArguments, Files { given, watch }: Files, since: u64) -> run::Files {
    let watched = given.clone();
    let watch =
        watch.then(|| run::Watch { since, state: Box::new(move || files::state(&watched)) });
    run::Files {
        read: Box::new(move || {
            plugins.forget();
            prepared(&plugins, &given)
                .map_err(|failure| run::Faulty(failure.to_string().trim_end().to_owned()))
        }),
        watch,
    }
}

/// Parses a memory limit.
///
/// # Errors
/// The text is not a size, or is less than the minimum.
pub(super) fn memory_limit(text: &str) -> Result<usize, Expected> {
    let bytes = parse_size(text).and_then(|bytes| usize::try_from(bytes).ok());
    bytes
        .filter(|bytes| *bytes >= LEAST_MEMORY)
        .ok_or(Expected("a size of at least `16MiB`, such as `512MiB` or `2GiB`"))
}

/// Runs flows to their end, and returns the counts of their events.
pub(crate) fn run(
    flows: &[Prepared],
    deadline: Duration,
    handle: &RunHandle,
    memory: &MemoryBudget,
) -> Result<Vec<Report>, Failure> {
    let flows: Vec<_> =
        flows.iter().map(|prepared| (&prepared.flow, &*prepared.components)).collect();
    ending(handle, None, |handle| run::run_within(&flows, handle, deadline, memory))
}

/// Runs flows with `runs` until they end or a signal arrives, shows progress until then, and summarises their reports.
fn ending(
    handle: &RunHandle,
    progress: Option<Background>,
    runs: impl FnOnce(&RunHandle) -> Result<Vec<Report>, flow::Error>,
) -> Result<Vec<Report>, Failure> {
    signals::listen(handle.clone()).map_err(|error| {
        Failure::of_flow(format_args!("error: cannot listen for signals: {error}"))
    })?;
    let mut failure = Failure::default();
    let reports = runs(handle).unwrap_or_else(|error| {
        failure.usage(&error);
        Vec::new()
    });
    drop(progress);
    reports.iter().for_each(|report| summarise(report, &mut failure));
    failure.or(reports)
}

/// Returns "pipeline" or "connector", depending on the kind of the component.
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
    let dropped = some(counts.dropped, "dropped");
    let stored = some(counts.stored, "stored");
    let redelivered = some(counts.redelivered, "redelivered");
    let text = format!(
        "flow `{flow}`: {} events in, {} out, {} dead-lettered{discarded}{failed}{dropped}{stored}{redelivered}, \
         {:.3} s",
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
        ("dropped", counts.dropped.into()),
        ("stored", counts.stored.into()),
        ("redelivered", counts.redelivered.into()),
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
    let mut unfinished = String::new();
    for Unfinished { component, doing } in &report.unfinished {
        // `doing` may contain an error message of a plugin, so secrets are redacted. Writing to a string cannot fail.
        let _ = write!(unfinished, "\n  `{component}`: {}", redact::text(doing));
    }
    if report.is_incomplete {
        failure.of(
            flow,
            Reason::Incomplete,
            &format_args!(
                "error: flow `{flow}` was stopped before everything had been delivered{unfinished}\n  help: \
                 increase `--drain-timeout`"
            ),
        );
    } else if report.cut_off {
        let notes = redelivery(report);
        let text = format!(
            "warning: flow `{flow}` was stopped before everything had been delivered{unfinished}{notes}"
        );
        logging::print(Level::WARN, &text, logging::fields([("flow", flow.as_str().into())]));
    }
}

/// Returns notes that say how the events that were not delivered come back to the flow.
fn redelivery(report: &Report) -> String {
    let sources = |replays_failed| {
        let of_kind =
            report.components.iter().filter(|it| it.replays_failed == Some(replays_failed));
        of_kind.map(|it| format!("`{}`", it.name)).collect::<Vec<_>>().join(", ")
    };
    let (replaying, notified) = (sources(true), sources(false));
    let replays = (!replaying.is_empty())
        .then(|| format!("\n  note: the next run reads the events of {replaying} again"));
    let notifies = (!notified.is_empty()).then(|| {
        format!(
            "\n  note: the peers of {notified} got no acknowledgement of the events, and have to send them again"
        )
    });
    replays.into_iter().chain(notifies).collect()
}

/// Adds an error if events of a flow failed and their source was not notified.
///
/// Messages that a source could not decode count only if the flow received no other events. Otherwise a peer that sends
/// one invalid message would make the run of a service fail.
fn report_lost(report: &Report, failure: &mut Failure) {
    let Report { flow, counts, components, .. } = report;
    let sources = components.iter().filter(|it| it.kind == Kind::Source);
    let undecodable: u64 = sources.map(|it| it.counts.unrecoverable).sum();
    let has_accepted = counts.events_in > undecodable;
    let lost =
        counts.undelivered + counts.unrecoverable - if has_accepted { undecodable } else { 0 };
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
