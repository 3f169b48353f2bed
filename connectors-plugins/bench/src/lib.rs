//! The `bench` connector: a source that replays a file from memory, at full speed or at a rate, and
//! a sink that counts events and measures their latency.
//!
//! ```yaml
//! connectors:
//!   bench:
//!     type: bench
//!     codec: json
//!     config: { file: logs.json, warmup_s: 2, duration_s: 10, report: report.json }
//! links: [bench -> bench]
//! ```
//!
//! The source copies the bytes of every event into the batch, like a source that reads from a
//! socket. Events are not decoded in advance, and no state is kept between repetitions. The sink
//! receives every event encoded before it counts the event.
//!
//! Events that the source emitted during the warm-up are not counted, even if they arrive later.
//! Time is measured from the end of the warm-up. The source and the sink of a connector share that
//! time.

mod data;
mod measurement;
mod report;
mod schedule;
mod sink;
mod source;

use std::{num::NonZeroU64, path::PathBuf, sync::Arc, time::Duration};

use tremor_pdk::{Watermarks, info, prelude::*};

use self::{
    data::{Data, Form},
    measurement::{Clock, Measurement},
    schedule::Rate,
};
pub use self::{sink::Meter, source::Replay};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// File that a source replays, one event per line. Decompressed while it is read if its name
    /// ends in `.xz`. Empty lines are skipped. A relative path is resolved against the folder of
    /// the flow file.
    #[schemars(extend("x-file" = "read"))]
    pub file: Option<PathBuf>,
    /// `true` if each line is the base64 encoding of an event, which events that are not text
    /// require.
    #[serde(default)]
    pub base64: bool,
    /// Number of times to replay the file. The source ends after that number or after `duration_s`,
    /// whichever comes first; at least one of the two is required.
    pub iterations: Option<u64>,
    /// Time to replay the file after the warm-up, in seconds.
    #[schemars(range(min = 0.0))]
    pub duration_s: Option<f64>,
    /// Duration of the warm-up, whose events are not counted, in seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub warmup_s: f64,
    /// Number of events that a source emits per second, even if the flow cannot keep up. Default:
    /// as many as the flow accepts.
    #[schemars(range(min = 0.0))]
    pub rate: Option<f64>,
    /// Number of streams to which the events are assigned in turn.
    #[serde(default = "one")]
    pub streams: NonZeroU64,
    /// `true` if the source tracks the position up to which its events are acknowledged, like a
    /// source that continues at that position after a crash.
    #[serde(default)]
    pub acknowledged: bool,
    /// Duration of each delivery to the sink in ms, which simulates a slow peer. The number of
    /// deliveries in flight is then unlimited.
    #[serde(default)]
    pub delivery_ms: u64,
    /// File for the report of the sink, as JSON. A relative path is resolved against the folder of
    /// the flow file.
    pub report: Option<PathBuf>,
    /// File for the distribution of latencies in µs, in the text format that the plotter of
    /// `HdrHistogram` reads. A relative path is resolved against the folder of the flow file.
    pub hgrm: Option<PathBuf>,
}

const fn one() -> NonZeroU64 {
    NonZeroU64::MIN
}

/// Replays a file and measures latencies.
#[derive(Debug)]
pub struct Bench {
    config: Config,
    rate: Option<Rate>,
    duration_ns: Option<u64>,
    host: Host,
    clock: Arc<Clock>,
    /// The events of `file`; `None` until the file was read.
    data: Option<Arc<Data>>,
    /// Measurement of the sink, if there is one.
    measurement: Option<Arc<Measurement>>,
}

impl Component for Bench {
    const NAME: &str = "bench";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(mut config: Config, context: ComponentContext) -> Result<Self> {
        if config.file.is_some() && config.iterations.is_none() && config.duration_s.is_none() {
            return Err(Error::configuration(
                "`file` would be replayed without end: set `iterations`, `duration_s`, or both",
            ));
        }
        for path in [&mut config.file, &mut config.report, &mut config.hgrm].into_iter().flatten() {
            *path = context.resolve(&*path);
        }
        let clock = Arc::new(Clock::new(nanoseconds("warmup_s", config.warmup_s)?));
        let duration_s = config.duration_s;
        Ok(Self {
            duration_ns: duration_s.map(|s| nanoseconds("duration_s", s)).transpose()?,
            rate: config.rate.map(Rate::new).transpose()?,
            config,
            host: context.into(),
            clock,
            data: None,
            measurement: None,
        })
    }
}

impl Connector for Bench {
    type Source = Replay;
    type Sink = Meter;

    fn sides(&self) -> Sides {
        Sides::new(self.config.file.is_some(), true)
    }

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Replay, Meter>> {
        if let (Some(path), None) = (&self.config.file, &self.data) {
            let (path, form) = (path.clone(), Form::of(self.config.base64));
            let data = self.host.blocking(move || Data::read(&path, form)).await??;
            self.data = Some(Arc::new(data));
        }
        let source = self.data.clone().map(|data| Replay {
            host: self.host.clone(),
            clock: self.clock.clone(),
            data,
            next: 0,
            streams: self.config.streams.get(),
            marks: self.config.acknowledged.then(Watermarks::new),
            emitted: 0,
            rate: self.rate,
            schedule: None,
            iterations: self.config.iterations.unwrap_or(u64::MAX),
            duration_ns: self.duration_ns,
        });
        if wanted.has_sink() && self.measurement.is_none() {
            self.measurement = Some(Arc::new(Measurement::new()?));
        }
        let sink = self.measurement.clone().map(|measurement| {
            let (host, clock) = (self.host.clone(), self.clock.clone());
            let takes = Duration::from_millis(self.config.delivery_ms);
            Meter { host, clock, measurement, takes }
        });
        Ok(Halves { source, sink })
    }

    async fn close(&mut self) -> Result<()> {
        let Some(measurement) = &self.measurement else { return Ok(()) };
        let (report, hgrm) = measurement.report(&self.clock);
        info!(self.host, "{report}");
        let mut files = Vec::new();
        if let Some(path) = self.config.report.clone() {
            files.push((path, report.json()?));
        }
        if let Some(path) = self.config.hgrm.clone() {
            files.push((path, hgrm));
        }
        self.host.blocking(move || files.iter().try_for_each(write)).await?
    }
}

fn write((path, text): &(PathBuf, String)) -> Result<()> {
    std::fs::write(path, text).map_err(|error| {
        // The error is final, because a restart would measure again.
        Error::unsupported(format!("cannot write `{}`: {error}", path.display()))
    })
}

/// Converts the seconds of a key to ns.
fn nanoseconds(key: &str, seconds: f64) -> Result<u64> {
    let duration = std::time::Duration::try_from_secs_f64(seconds).ok();
    let nanoseconds = duration.and_then(|duration| u64::try_from(duration.as_nanos()).ok());
    nanoseconds.ok_or_else(|| {
        Error::configuration(format!("invalid `{key}` {seconds}: expected seconds, 0 or more"))
    })
}

tremor_pdk::export! { connectors: [Bench] }

#[cfg(test)]
mod tests;
