//! Reports of a measurement: as JSON, as a line, and as a distribution.

use std::fmt::{self, Write as _};

use hdrhistogram::Histogram;
use tremor_pdk::{prelude::*, serde::Serialize};

/// The report of a sink.
#[derive(Debug, Serialize)]
#[serde(crate = "tremor_pdk::serde")]
pub(crate) struct Report {
    /// Number of events that were emitted after the warm-up and have arrived.
    events: u64,
    /// Number of bytes of these events, encoded.
    bytes: u64,
    /// Time from the end of the warm-up to the last arrival, in seconds.
    elapsed_s: f64,
    events_per_second: f64,
    bytes_per_second: f64,
    latency_ns: Latency,
}

/// Time from the emission of events to their delivery, in ns.
#[derive(Debug, Serialize)]
#[serde(crate = "tremor_pdk::serde")]
pub(crate) struct Latency {
    mean: f64,
    stdev: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl Latency {
    pub(crate) fn of(latencies: &Histogram<u64>) -> Self {
        Self {
            mean: latencies.mean(),
            stdev: latencies.stdev(),
            p50: latencies.value_at_quantile(0.5),
            p90: latencies.value_at_quantile(0.9),
            p99: latencies.value_at_quantile(0.99),
            p999: latencies.value_at_quantile(0.999),
            max: latencies.max(),
        }
    }
}

impl Report {
    pub(crate) fn new(events: u64, bytes: u64, elapsed_ns: u64, latency_ns: Latency) -> Self {
        let elapsed_s = float(elapsed_ns) / 1e9;
        // If no time has elapsed, report a rate of zero, because JSON has no infinity.
        let rate = |amount| if elapsed_ns == 0 { 0.0 } else { float(amount) / elapsed_s };
        Self {
            events,
            bytes,
            elapsed_s,
            events_per_second: rate(events),
            bytes_per_second: rate(bytes),
            latency_ns,
        }
    }

    pub(crate) fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::internal(error.to_string()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, elapsed_s, events_per_second, bytes_per_second, latency_ns, .. } = self;
        let Latency { mean, p50, p99, p999, max, .. } = latency_ns;
        write!(
            f,
            "{events} events in {elapsed_s:.3} s: {events_per_second:.0} events/s, {:.1} MB/s; \
             latency in µs: mean {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
            bytes_per_second / 1e6,
            mean / 1e3,
            float(*p50) / 1e3,
            float(*p99) / 1e3,
            float(*p999) / 1e3,
            float(*max) / 1e3
        )
    }
}

/// Returns the distribution by percentiles, with values in µs, in the text format of
/// `HdrHistogram`'s `outputPercentileDistribution` with five steps for each halving of the distance
/// to 100 %: <https://hdrhistogram.github.io/HdrHistogram/plotFiles.html>.
pub(crate) fn distribution(latencies: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    for step in latencies.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let (value, quantile) =
            (float(step.value_iterated_to()) / 1e3, step.quantile_iterated_to());
        // Writing to a string cannot fail.
        let _ = if quantile < 1.0 {
            let distance = 1.0 / (1.0 - quantile);
            writeln!(text, "{value:12.3} {quantile:2.12} {count:10} {distance:14.2}")
        } else {
            writeln!(text, "{value:12.3} {quantile:2.12} {count:10}")
        };
    }
    let (mean, stdev) = (latencies.mean() / 1e3, latencies.stdev() / 1e3);
    let (max, total) = (float(latencies.max()) / 1e3, latencies.len());
    let (buckets, sub_buckets) = (latencies.buckets(), SUB_BUCKETS);
    let _ = write!(
        text,
        "#[Mean    = {mean:12.3}, StdDeviation   = {stdev:12.3}]\n\
         #[Max     = {max:12.3}, Total count    = {total:12}]\n\
         #[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]\n"
    );
    text
}

/// Number of sub-buckets for three significant figures: the power of two above 2 × 10^3.
const SUB_BUCKETS: u32 = 2048;

/// Converts a count to a float. The result is exact below 2^53, which is 104 days in ns or nine
/// petabytes.
#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}
