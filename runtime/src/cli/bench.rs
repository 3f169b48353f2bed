//! `tremor bench`: runs a flow between `bench` connectors, and says how fast it was and with what.

mod overrides;
mod report;
mod setup;

use std::{fs, path::PathBuf, time::Duration};

use tempfile::TempDir;

use self::{
    overrides::Overrides,
    report::{Link, Report},
};
use super::{Failure, PluginArguments, plugin, run};
use tremor_runtime::{engine::Counts, flow};

/// How long the flow may take to drain once its sources end.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The flow file.
    #[arg(value_name = "FLOW.yaml")]
    flow: PathBuf,
    /// How plugins are linked: what this build has, unless something else is said.
    #[arg(long, value_enum, default_value_t = Link::OF_THIS_BUILD)]
    link: Link,
    /// How long events flow before they count, in seconds, instead of what the flow says.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    warmup: Option<f64>,
    /// How long events count, in seconds, instead of what the flow says.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    duration: Option<f64>,
    /// How many events a second all sources together offer, whether the flow keeps up or not,
    /// instead of what the flow says.
    #[arg(long, value_name = "EVENTS", value_parser = events_per_second, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// The file to replay instead of those that the flow names, of the same form.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Where to write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write the distribution of latencies, in µs, for the plotter of `HdrHistogram`.
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
}

/// What an argument should have been.
#[derive(Debug, thiserror::Error)]
#[error("expected {0}")]
struct Expected(&'static str);

fn seconds(text: &str) -> Result<f64, Expected> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or(Expected("seconds, 0 or more"))
}

fn events_per_second(text: &str) -> Result<f64, Expected> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or(Expected("events a second, more than 0"))
}

/// Runs the benchmark and prints its report, which is what was asked for, to stdout.
pub(crate) fn execute(arguments: &Arguments, plugins: &PluginArguments) -> Result<(), Failure> {
    if arguments.link != Link::OF_THIS_BUILD {
        return Err(Failure::of_usage(match arguments.link {
            Link::Static => {
                "error: `--link static` needs a build that has the plugins in it; this one loads them\n  \
                 help: `cargo xtask build-static` makes it, in `target/static`"
            }
            Link::Plugin => {
                "error: `--link plugin` needs a build that loads plugins; this one has them in it\n  \
                 help: `cargo build --release` makes it"
            }
        }));
    }
    let folder = TempDir::new().map_err(|error| {
        Failure::of_flow(format_args!("error: no folder for temporary files: {error}"))
    })?;
    let measured = folder.path().join("report.json");
    let overrides = Overrides::new(arguments, &measured)
        .map_err(|error| Failure::of_usage(format_args!("error: not a path: {error}")))?;
    let prepared = plugins.prepare_with(std::slice::from_ref(&arguments.flow), |file| {
        let mut flow = flow::load(file)?;
        overrides.apply(&mut flow)?;
        Ok(flow.into())
    })?;
    let before = report::cpu_seconds();
    let runs = run::run(&prepared, DRAIN)?;
    let cpu_s = report::cpu_seconds() - before;
    for (prepared, run) in prepared.iter().zip(&runs) {
        everything_arrived(&run.counts)?;
        let measured = fs::read_to_string(&measured)
            .and_then(|text| Ok(serde_json::from_str(&text)?))
            .map_err(|error| {
                Failure::of_flow(format_args!("error: the connector left no report: {error}"))
            })?;
        let report = Report::new(prepared, arguments.link, measured, run, cpu_s);
        if report.measured.events == 0 {
            return Err(Failure::of_flow(
                "error: nothing was measured: every event came before the end of the warm-up\n  \
                 help: a shorter `--warmup`, or a longer `--duration`",
            ));
        }
        if let Some(path) = &arguments.json {
            fs::write(path, report.json()).map_err(|error| {
                let path = path.display();
                Failure::of_flow(format_args!("error: cannot write {path}: {error}"))
            })?;
        }
        plugin::print(&report.to_string())?;
    }
    Ok(())
}

/// A flow that loses what it cannot decode would be measured doing something easier.
fn everything_arrived(counts: &Counts) -> Result<(), Failure> {
    let lost = counts.dead_lettered + counts.failed;
    if lost == 0 {
        return Ok(());
    }
    Err(Failure::of_flow(format_args!(
        "error: no figure: {lost} of {} events failed on the way\n  help: the data has to be what the \
         codec of the flow reads; `tremor run` with an `err` link shows what is wrong",
        counts.events_in
    )))
}
