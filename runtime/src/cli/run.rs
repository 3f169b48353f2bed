//! `tremor run`.

use std::{fmt::Write as _, time::Duration};

use tracing::Level;
use tremor_runtime::{
    engine::{HeldUp, Kind, Report},
    redact,
    run::{self, Stopper},
};

use super::{
    Failure, Prepared, api, beside::Beside, descriptors, logging, progress, service, signals,
};

/// Runs flows to their end, shows how far they are to those that want to know, and summarises them.
pub(crate) fn execute(
    flows: &[Prepared],
    deadline: Duration,
    api: &api::Arguments,
) -> Result<(), Failure> {
    descriptors::raise_limit();
    let stopper = Stopper::default();
    // They end after the flows.
    let _server = api.start(&stopper, flows.len())?;
    let _service = service::start(&stopper, flows.len());
    run(flows, deadline, &stopper, progress::start(&stopper)).map(drop)
}

/// Runs flows to their end, and reports the counts of their events. Progress is shown until then.
pub(crate) fn run(
    flows: &[Prepared],
    deadline: Duration,
    stopper: &Stopper,
    progress: Option<Beside>,
) -> Result<Vec<Report>, Failure> {
    signals::listen(stopper.clone()).map_err(|error| {
        Failure::of_flow(format_args!("error: cannot listen for signals: {error}"))
    })?;
    let mut failure = Failure::default();
    let flows: Vec<_> =
        flows.iter().map(|prepared| (&prepared.flow, &*prepared.components)).collect();
    let reports = run::run(&flows, stopper, deadline).unwrap_or_else(|error| {
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
            &format_args!(
                "error: flow `{flow}` failed: {} `{}`: {}",
                what(report, &reason.component),
                reason.component,
                redact::text(&reason.error.to_string())
            ),
        );
    }
    if report.cut_off {
        let mut held_up = String::new();
        for HeldUp { component, doing } in &report.held_up {
            // Writing to a string cannot fail.
            // It may have an error in it.
            let doing = redact::text(doing);
            let _ = write!(held_up, "\n  `{component}`: {doing}");
        }
        failure.of(flow, &format_args!(
            "error: flow `{flow}` was stopped before everything had been delivered{held_up}\n  help: \
             `--drain-timeout` says how long it may take"
        ));
    }
}
