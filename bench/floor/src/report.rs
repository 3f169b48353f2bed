//! Counters and their report, in the format of `tremor bench`.

use std::{
    fmt,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Start and end of the time in which events are counted. The time is checked once per batch.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    counts_from: Instant,
    end: Instant,
    cpu_start_s: f64,
}

impl Clock {
    pub(crate) fn start(warmup_s: f64, duration_s: f64) -> Self {
        let counts_from = Instant::now() + Duration::from_secs_f64(warmup_s);
        let end = counts_from + Duration::from_secs_f64(duration_s);
        Self { counts_from, end, cpu_start_s: cpu_seconds() }
    }
}

/// Counters of the work that was done.
pub(crate) struct Counted {
    clock: Clock,
    /// Number of events, including the warm-up.
    all: u64,
    events: u64,
    bytes: u64,
    /// End of the last batch that was counted.
    last: Instant,
}

impl Counted {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, all: 0, events: 0, bytes: 0, last: clock.counts_from }
    }

    /// Counts a batch that was started at `begun`. Returns `false` if the time for counting is over.
    pub(crate) fn batch(&mut self, begun: Instant, events: usize, bytes: usize) -> bool {
        self.all += events as u64;
        if begun < self.clock.counts_from {
            return true;
        }
        self.events += events as u64;
        self.bytes += bytes as u64;
        self.last = Instant::now();
        self.last < self.clock.end
    }

    /// Adds the counters of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.events += other.events;
        self.bytes += other.bytes;
        self.last = self.last.max(other.last);
    }

    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
    pub(crate) fn report(&self) -> Report {
        let elapsed_s = (self.last - self.clock.counts_from).as_secs_f64();
        let cpu_s = cpu_seconds() - self.clock.cpu_start_s;
        let rate = |amount: u64| if elapsed_s > 0.0 { amount as f64 / elapsed_s } else { 0.0 };
        Report {
            events: self.events,
            bytes: self.bytes,
            elapsed_s,
            events_per_second: rate(self.events),
            bytes_per_second: rate(self.bytes),
            cpu_s,
            cpu_ns_per_event: cpu_s * 1e9 / (self.all.max(1) as f64),
            events_in: self.all,
        }
    }
}

/// The report of a run, without latencies, because the measured loop has no pipeline.
#[derive(Serialize)]
pub(crate) struct Report {
    events: u64,
    bytes: u64,
    elapsed_s: f64,
    events_per_second: f64,
    bytes_per_second: f64,
    cpu_s: f64,
    cpu_ns_per_event: f64,
    events_in: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, elapsed_s, events_per_second, cpu_ns_per_event, .. } = self;
        let megabytes = self.bytes_per_second / 1e6;
        writeln!(f, "events      {events} in {elapsed_s:.3} s")?;
        writeln!(f, "throughput  {events_per_second:.0} events/s, {megabytes:.1} MB/s")?;
        write!(f, "CPU         {cpu_ns_per_event:.0} ns per event, warm-up included")
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact for a hundred million years of seconds")]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
