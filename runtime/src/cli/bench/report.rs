//! Report of a benchmark: the measured values of its sink, and the conditions of the measurement.

use std::{fmt, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tremor_runtime::engine::{self, Component, ComponentCounts};

use super::{super::Prepared, setup::Setup};

/// Way in which plugins are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Link {
    /// Loaded from shared libraries.
    Plugin,
    /// Compiled in.
    Static,
}

impl Link {
    pub(super) const OF_THIS_BUILD: Self =
        if cfg!(feature = "link-static") { Self::Static } else { Self::Plugin };
}

/// Complete report, as `--json` writes it.
#[derive(Serialize)]
pub(super) struct Report {
    flow: String,
    link: Link,
    #[serde(flatten)]
    pub(super) measured: Measured,
    /// Processor time of this process, in seconds, from before the libraries are loaded until the end of the run. The
    /// warm-up is included.
    cpu_s: f64,
    /// Processor time for each event that was read, in ns. The warm-up is included.
    cpu_ns_per_event: f64,
    /// Number of events that were read, warm-up included.
    events_in: u64,
    in_order: InOrder,
    tremor_version: &'static str,
    libraries: Vec<Library>,
    #[serde(flatten)]
    setup: Setup,
}

/// Measured values of the sink after the warm-up.
#[derive(Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) events: u64,
    bytes: u64,
    elapsed_s: f64,
    events_per_second: f64,
    bytes_per_second: f64,
    latency_ns: Latency,
}

#[derive(Serialize, Deserialize)]
struct Latency {
    mean: f64,
    stdev: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// Share of the work of the flow's sources that only one task of a source can do at a time, and the speedup over one
/// core that this share allows by Amdahl's law.
#[derive(Serialize)]
struct InOrder {
    share: f64,
    speedup_4_cores: f64,
    speedup_16_cores: f64,
    speedup_64_cores: f64,
}

impl InOrder {
    /// Returns the share in the work of all sources together. The share is 1 if no source has worked.
    fn of(components: &[Component]) -> Self {
        let sum = |time: fn(&ComponentCounts) -> u64| {
            let times = components.iter().map(|component| time(&component.counts));
            Duration::from_nanos(times.sum()).as_secs_f64()
        };
        let (busy, in_order) = (sum(|it| it.busy_ns), sum(|it| it.in_order_ns));
        let share = if busy > 0.0 { in_order / busy } else { 1.0 };
        let speedup = |cores: f64| 1.0 / (share + (1.0 - share) / cores);
        Self {
            share,
            speedup_4_cores: speedup(4.0),
            speedup_16_cores: speedup(16.0),
            speedup_64_cores: speedup(64.0),
        }
    }
}

/// Library that the flow used.
#[derive(Serialize)]
struct Library {
    name: String,
    version: String,
    abi: String,
    pdk: Option<String>,
    hash: Option<String>,
}

impl Report {
    pub(super) fn new(
        Prepared { flow, components }: &Prepared,
        link: Link,
        measured: Measured,
        run: &engine::Report,
        cpu_s: f64,
    ) -> Self {
        let libraries = components.libraries(flow).into_iter().map(|library| {
            let metadata = library.metadata().clone();
            Library {
                name: metadata.name,
                version: metadata.version,
                abi: metadata.abi,
                pdk: metadata.pdk,
                hash: library.hash().as_ref().map(ToString::to_string),
            }
        });
        // The conversion is exact below 2^53 events.
        #[allow(clippy::cast_precision_loss)]
        let cpu_ns_per_event = cpu_s * 1e9 / (run.counts.events_in.max(1) as f64);
        Self {
            flow: flow.name().to_owned(),
            link,
            measured,
            cpu_s,
            cpu_ns_per_event,
            events_in: run.counts.events_in,
            in_order: InOrder::of(&run.components),
            tremor_version: env!("CARGO_PKG_VERSION"),
            libraries: libraries.collect(),
            setup: Setup::of(flow),
        }
    }

    pub(super) fn json(&self) -> String {
        // The report consists of texts and of numbers that JSON can represent, so serializing it cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { events, elapsed_s, events_per_second, bytes_per_second, latency_ns, .. } =
            &self.measured;
        let link = match self.link {
            Link::Plugin => "plugin",
            Link::Static => "static",
        };
        writeln!(f, "flow        {}", self.flow)?;
        writeln!(f, "link        {link}")?;
        writeln!(f, "events      {events} in {elapsed_s:.3} s")?;
        let megabytes = bytes_per_second / 1e6;
        writeln!(f, "throughput  {events_per_second:.0} events/s, {megabytes:.1} MB/s")?;
        let Latency { mean, stdev, p50, p90, p99, p999, max } = latency_ns;
        let values = [mean, stdev, p50, p90, p99, p999, max].map(|ns| ns / 1e3);
        let names = ["mean", "stdev", "p50", "p90", "p99", "p99.9", "max"];
        let latencies = names.iter().zip(values).map(|(name, value)| format!("{name} {value:.1}"));
        writeln!(f, "latency µs  {}", latencies.collect::<Vec<_>>().join(", "))?;
        let (cpu_s, each) = (self.cpu_s, self.cpu_ns_per_event);
        writeln!(f, "CPU         {cpu_s:.3} s, {each:.0} ns per event, warm-up included")?;
        let InOrder { share, speedup_4_cores, speedup_16_cores, speedup_64_cores } = self.in_order;
        writeln!(
            f,
            "in order    {:.1} % of the sources' work, so at most {speedup_4_cores:.1} times the speed on 4 cores, \
             {speedup_16_cores:.1} times on 16, {speedup_64_cores:.1} times on 64",
            share * 100.0
        )?;
        self.libraries.iter().try_for_each(|Library { name, version, hash, .. }| {
            let hash = hash.as_deref().unwrap_or("(its file has changed since)");
            writeln!(f, "library     {name} {version} {hash}")
        })?;
        write!(f, "{}", self.setup)
    }
}

/// Returns the processor time of all threads of this process, in seconds.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // The conversion is exact for a hundred million years.
    #[allow(clippy::cast_precision_loss)]
    let (seconds, nanoseconds) = (time.tv_sec as f64, time.tv_nsec as f64);
    seconds + nanoseconds / 1e9
}
