//! The `metronome` connector: a source that emits an event at a regular interval.
//!
//! ```yaml
//! connectors:
//!   every_second:
//!     type: metronome
//!     config: { interval_ms: 1000 }
//! ```
//!
//! An event is `{"metronome": "every_second", "sequence": 0, "ingest_ns": 1700000000000000000}`.

use std::{num::NonZeroU64, time::Duration};

use tremor_pdk::{prelude::*, serde::Serialize};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Time between two events in ms. The first event is emitted immediately.
    pub interval_ms: NonZeroU64,
    /// Number of events to emit. Default: unlimited.
    pub count: Option<u64>,
}

/// Emits an event at a regular interval.
#[derive(Debug)]
pub struct Metronome {
    context: ComponentContext,
    interval_ns: u64,
    /// Time at which the next event is due, by the monotonic clock, in ns: the start plus a
    /// multiple of the interval, so that delays do not accumulate. `None` before the first pull.
    due_ns: Option<u64>,
    sequence: u64,
    left: Option<u64>,
}

impl Component for Metronome {
    const NAME: &str = "metronome";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let interval_ns = config.interval_ms.get().saturating_mul(1_000_000);
        Ok(Self { context, interval_ns, due_ns: None, sequence: 0, left: config.count })
    }
}

#[derive(Serialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Tick<'a> {
    metronome: &'a str,
    sequence: u64,
    ingest_ns: u64,
}

impl Source for Metronome {
    type Batch = StructuredBatch;

    async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
        if self.left == Some(0) {
            return Ok(Pull::Finished);
        }
        let now_ns = self.context.monotonic_ns();
        let mut due_ns = self.due_ns.unwrap_or(now_ns);
        if now_ns >= due_ns {
            let ingest_ns = self.context.now_ns();
            let tick = Tick { metronome: self.context.id(), sequence: self.sequence, ingest_ns };
            batch.push(&tick)?;
            self.sequence += 1;
            self.left = self.left.map(|left| left - 1);
            // Skip events that were missed, for example during a pause.
            let intervals = (now_ns - due_ns) / self.interval_ns + 1;
            due_ns = due_ns.saturating_add(intervals.saturating_mul(self.interval_ns));
        }
        self.due_ns = Some(due_ns);
        if self.left == Some(0) {
            return Ok(Pull::Finished);
        }
        Ok(Pull::Idle(Duration::from_nanos(due_ns - now_ns)))
    }
}

tremor_pdk::export! { sources: [Metronome] }

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tremor_pdk::{
        Batch, Pull,
        testing::{Connection, TestHost},
    };

    use super::Metronome;

    const MS: u64 = 1_000_000;

    fn metronome(host: &TestHost, config: &str) -> Connection {
        host.source::<Metronome>(config).unwrap()
    }

    fn ticks(batches: &[Batch]) -> Vec<(u64, u64)> {
        let ticks = batches.iter().flat_map(|batch| {
            batch.iter().map(|event| {
                let tick = event.value().unwrap();
                assert_eq!(tick.get("metronome").unwrap().as_str(), Some("test"));
                let number = |key| tick.get(key).unwrap().as_u64().unwrap();
                (number("sequence"), number("ingest_ns"))
            })
        });
        ticks.collect()
    }

    #[test]
    fn first_event_is_immediate_and_others_follow_interval() {
        let host = TestHost::new();
        let start = host.now_ns();
        let batches = metronome(&host, r#"{ "interval_ms": 20, "count": 3 }"#).pull_all().unwrap();
        assert_eq!(ticks(&batches), [(0, start), (1, start + 20 * MS), (2, start + 40 * MS)]);
        assert_eq!(host.now_ns(), start + 40 * MS, "the source does not wait after the last event");
    }

    #[test]
    fn late_ticks_do_not_drift_and_missed_ticks_are_skipped() {
        let host = TestHost::new();
        let mut source = metronome(&host, r#"{ "interval_ms": 20 }"#);
        assert_eq!(source.pull().unwrap().0, Pull::Idle(Duration::from_millis(20)));
        host.advance(Duration::from_millis(23));
        assert_eq!(source.pull().unwrap().0, Pull::Idle(Duration::from_millis(17)));
        host.advance(Duration::from_millis(87));
        let (pull, batch) = source.pull().unwrap();
        assert_eq!((pull, batch.len()), (Pull::Idle(Duration::from_millis(10)), 1));
    }

    #[test]
    fn early_pull_has_no_event() {
        let host = TestHost::new();
        let mut source = metronome(&host, r#"{ "interval_ms": 20 }"#);
        source.pull().unwrap();
        host.advance(Duration::from_millis(5));
        let (pull, batch) = source.pull().unwrap();
        assert_eq!((pull, batch.len()), (Pull::Idle(Duration::from_millis(15)), 0));
    }

    #[test]
    fn setting_the_wall_clock_does_not_move_ticks() {
        let host = TestHost::new();
        let mut source = metronome(&host, r#"{ "interval_ms": 20 }"#);
        source.pull().unwrap();
        host.advance(Duration::from_millis(15));
        for now_ns in [5, 3_600_000_000_000] {
            host.set_now_ns(now_ns);
            assert_eq!(source.pull().unwrap().0, Pull::Idle(Duration::from_millis(5)));
        }
    }

    #[test]
    fn count_of_zero_finishes_at_once() {
        let host = TestHost::new();
        let mut source = metronome(&host, r#"{ "interval_ms": 20, "count": 0 }"#);
        assert!(source.pull_all().unwrap().is_empty());
    }

    #[test]
    fn interval_of_zero_is_rejected() {
        let error = TestHost::new().component::<Metronome>(r#"{ "interval_ms": 0 }"#).unwrap_err();
        assert_eq!(error.kind(), tremor_pdk::ErrorKind::CONFIGURATION);
    }
}
