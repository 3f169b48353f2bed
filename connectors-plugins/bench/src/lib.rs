//! The `bench` connector: a source that replays a file from memory, as fast as it can or at a rate,
//! and a sink that counts what arrives and measures how long it took.
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
//! The source copies the bytes of every event into the batch for every event that it emits, as one
//! that reads from a socket would. Nothing is decoded ahead, nothing is kept between repetitions.
//! The sink gets every event encoded before it counts it.
//!
//! What the source takes in before the warm-up is over is not counted, however late it arrives, and
//! time counts from there. Both sides of one connector share that moment.

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

/// What to replay, for how long, and where to write what came of it.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// What a source replays: a file with an event a line, decompressed on the way if its name ends
    /// in `.xz`. Lines without anything are skipped. A relative path starts at the folder of the
    /// flow file.
    #[schemars(extend("x-file" = "read"))]
    pub file: Option<PathBuf>,
    /// Whether a line is the base64 of an event, as events that are not text need.
    #[serde(default)]
    pub base64: bool,
    /// How often to replay the file. A source ends with that or with `duration_s`, whichever comes
    /// first; one of the two is needed.
    pub iterations: Option<u64>,
    /// How long to replay the file once the warm-up is over, in seconds.
    #[schemars(range(min = 0.0))]
    pub duration_s: Option<f64>,
    /// How long events flow before they count, in seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub warmup_s: f64,
    /// How many events a source offers a second, whether the flow keeps up or not; as many as the
    /// flow takes, if it is not set.
    #[schemars(range(min = 0.0))]
    pub rate: Option<f64>,
    /// Of how many streams the events are, by turns.
    #[serde(default = "one")]
    pub streams: NonZeroU64,
    /// Whether the source keeps up to where its events are acknowledged, as one does that goes on there after
    /// a crash.
    #[serde(default)]
    pub acknowledged: bool,
    /// How long each delivery to the sink takes, in ms: a peer that answers late. It may have any number
    /// under way.
    #[serde(default)]
    pub delivery_ms: u64,
    /// Where the sink writes its report, as JSON. A relative path starts at the folder of the flow
    /// file.
    pub report: Option<PathBuf>,
    /// Where the sink writes the distribution of latencies, in microseconds, in the text form that
    /// the plotter of `HdrHistogram` reads. A relative path starts at the folder of the flow file.
    pub hgrm: Option<PathBuf>,
}

const fn one() -> NonZeroU64 {
    NonZeroU64::MIN
}

/// The connector.
#[derive(Debug)]
pub struct Bench {
    config: Config,
    rate: Option<Rate>,
    duration_ns: Option<u64>,
    host: Host,
    clock: Arc<Clock>,
    /// The events of `file`, read once.
    data: Option<Arc<Data>>,
    /// Of its sink, if it has one.
    measurement: Option<Arc<Measurement>>,
}

impl Component for Bench {
    const NAME: &str = "bench";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(mut config: Config, context: ComponentContext) -> Result<Self> {
        if config.file.is_some() && config.iterations.is_none() && config.duration_s.is_none() {
            return Err(Error::configuration(
                "nothing says when `file` has been replayed often enough: set `iterations`, \
                 `duration_s`, or both",
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
            brought: 0,
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
        // Final: a second run would measure something else.
        Error::unsupported(format!("cannot write {}: {error}", path.display()))
    })
}

/// Seconds of a configuration in ns.
fn nanoseconds(key: &str, seconds: f64) -> Result<u64> {
    let duration = std::time::Duration::try_from_secs_f64(seconds).ok();
    let nanoseconds = duration.and_then(|duration| u64::try_from(duration.as_nanos()).ok());
    nanoseconds.ok_or_else(|| {
        Error::configuration(format!("`{key}` is {seconds}: write seconds, 0 or more"))
    })
}

tremor_pdk::export! { connectors: [Bench] }

#[cfg(test)]
mod tests;
