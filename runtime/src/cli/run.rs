//! `tremor run`.

use std::{io, thread, time::Duration};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tremor_runtime::{
    engine::Report,
    run::{self, Stopper},
};

use super::{Failure, Prepared};

/// Runs flows to their end and says what became of their events.
pub(crate) fn run(flows: &[Prepared], deadline: Duration) -> Result<Vec<Report>, Failure> {
    let mut failure = Failure::default();
    let stopper = Stopper::default();
    if let Err(error) = stop_on_signals(stopper.clone()) {
        failure.flow(&format_args!("error: cannot listen for signals: {error}"));
        return Err(failure);
    }
    let flows: Vec<_> =
        flows.iter().map(|prepared| (&prepared.flow, &prepared.components)).collect();
    let reports = run::run(&flows, &stopper, deadline).unwrap_or_else(|error| {
        failure.usage(&error);
        Vec::new()
    });
    reports.iter().for_each(|report| summarise(report, &mut failure));
    failure.or(reports)
}

/// The first SIGINT or SIGTERM drains, the second stops.
fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            if stopper.signal() {
                tracing::info!(
                    signal,
                    "everything under way drains; a second signal stops at once"
                );
            } else {
                tracing::warn!(signal, "everything stops where it is");
            }
        }
    })?;
    Ok(())
}

fn summarise(report: &Report, failure: &mut Failure) {
    let Report { flow, counts, elapsed, .. } = report;
    let some = |count, what| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let failed = some(counts.failed, "failed");
    let discarded = some(counts.discarded, "discarded");
    eprintln!(
        "flow `{flow}`: {} events in, {} out, {} dead-lettered{discarded}{failed}, {:.3} s",
        counts.events_in,
        counts.events_out,
        counts.dead_lettered,
        elapsed.as_secs_f64()
    );
    if let Some(reason) = &report.failure {
        failure.flow(&format_args!(
            "error: flow `{flow}` failed: connector `{}`: {}",
            reason.component, reason.error
        ));
    } else if report.cut_off {
        failure.flow(&format_args!(
            "error: flow `{flow}` was stopped before everything had been delivered\n  help: \
             `--drain-timeout` says how long it may take"
        ));
    }
}
