//! `tremor bench`: runs a flow between `bench` connectors, and reports its throughput and latency together with
//! the machine, the build and the data.

mod overrides;
mod report;
mod setup;

use std::{fs, path::PathBuf, time::Duration};

use tempfile::TempDir;

use self::{
    overrides::Overrides,
    report::{Link, Report},
};
use super::{Expected, Failure, PluginArguments, duration, plugin, run};
use tremor_runtime::{engine::Counts, flow, memory::MemoryBudget, run::RunHandle};

/// Maximum time for the flow to drain after its sources have ended.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The flow file.
    #[arg(value_name = "FLOW.yaml")]
    flow: PathBuf,
    /// The way in which plugins must be linked; by default, the way of this build.
    #[arg(long, value_enum, default_value_t = Link::OF_THIS_BUILD)]
    link: Link,
    /// Time in which events flow before the measurement starts, such as `500ms`; a number without a unit is in seconds.
    /// Replaces the value in the flow.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    warmup: Option<Duration>,
    /// Time in which events are measured, such as `10s`; a number without a unit is in seconds. Replaces the value in
    /// the flow.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    duration: Option<Duration>,
    /// Events per second that all sources together offer, even if the flow cannot keep up. Replaces the value in
    /// the flow.
    #[arg(long, value_name = "EVENTS", value_parser = events_per_second, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// The file to replay instead of the files in the flow; its format must be the same.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// The file for the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The file for the distribution of latencies, in µs, for the plotter of `HdrHistogram`.
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
}

fn events_per_second(text: &str) -> Result<f64, Expected> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or(Expected("a number of events per second, more than 0"))
}

/// Runs the benchmark and prints its report to stdout.
pub(crate) fn execute(arguments: &Arguments, plugins: &PluginArguments) -> Result<(), Failure> {
    if arguments.link != Link::OF_THIS_BUILD {
        return Err(Failure::of_usage(match arguments.link {
            Link::Static => {
                "error: `--link static` needs a build that contains the plugins; this build loads them\n  \
                 help: `cargo xtask build-static` makes such a build, in `target/static`"
            }
            Link::Plugin => {
                "error: `--link plugin` needs a build that loads plugins; this build contains them\n  \
                 help: `cargo build --release` makes such a build"
            }
        }));
    }
    let folder = TempDir::new().map_err(|error| {
        Failure::of_flow(format_args!("error: cannot create a folder for temporary files: {error}"))
    })?;
    let measured = folder.path().join("report.json");
    let overrides = Overrides::new(arguments, &measured).map_err(|error| {
        Failure::of_usage(format_args!("error: invalid path for `--data` or `--hgrm`: {error}"))
    })?;
    let prepared = plugins.prepare_with(std::slice::from_ref(&arguments.flow), |file| {
        let mut flow = flow::load(file)?;
        overrides.apply(&mut flow)?;
        Ok(flow.into())
    })?;
    let before = report::cpu_seconds();
    let runs = run::run(&prepared, DRAIN, &RunHandle::default(), &MemoryBudget::of_machine())?;
    let cpu_s = report::cpu_seconds() - before;
    for (prepared, run) in prepared.iter().zip(&runs) {
        everything_arrived(&run.counts)?;
        let measured = fs::read_to_string(&measured)
            .and_then(|text| Ok(serde_json::from_str(&text)?))
            .map_err(|error| {
                Failure::of_flow(format_args!(
                    "error: cannot read the report of the connector: {error}"
                ))
            })?;
        let report = Report::new(prepared, arguments.link, measured, run, cpu_s);
        if report.measured.events == 0 {
            return Err(Failure::of_flow(
                "error: nothing was measured: all events arrived before the end of the warm-up\n  \
                 help: set a shorter `--warmup`, or a longer `--duration`",
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

/// Returns an error if events failed. A flow that cannot decode all events has less work to do, so its measured values
/// would be too good.
fn everything_arrived(counts: &Counts) -> Result<(), Failure> {
    let lost = counts.dead_lettered + counts.failed;
    if lost == 0 {
        return Ok(());
    }
    Err(Failure::of_flow(format_args!(
        "error: no figures: {lost} of {} events failed\n  help: the codec of the flow must be able to \
         decode the data; `tremor run` with a link from `err` shows the errors",
        counts.events_in
    )))
}
