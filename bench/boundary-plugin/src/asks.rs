//! An operator that repeats one call of its host, the runtime, so that benchmarks can measure the call.

use std::sync::atomic::{AtomicU64, Ordering};

use tremor_pdk::{Counter, Task, info, prelude::*, trace};

/// Number of spawned tasks that have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of spawned tasks that have ended since the library was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_tasks_ended() -> u64 {
    ENDED.load(Ordering::Acquire)
}

/// The call that is repeated.
#[tremor_pdk::config]
#[derive(Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Subject {
    /// No call. The time is that of the loop and of the call of the operator.
    Nothing,
    /// Log a line.
    Logged,
    /// Log a line that is filtered by its level.
    Filtered,
    /// Increment a counter.
    Counter,
    /// Read the clock.
    Clock,
    /// Spawn a task without work.
    Spawn,
}

/// The configuration of [`Ask`].
#[tremor_pdk::config]
pub struct Config {
    subject: Subject,
    /// Number of calls of the host in each call of the operator.
    times: u64,
}

/// An operator that calls its host for each batch.
pub struct Ask {
    config: Config,
    host: Host,
    counter: Counter,
    /// Last reading of the clock.
    last: u64,
    /// Tasks that the last call of the operator has spawned, which are dropped at the beginning of
    /// the next call.
    tasks: Vec<Task>,
}

impl Operator for Ask {
    fn process(&mut self, _batch: &mut Batch, _output: &mut Output) -> Result<()> {
        self.tasks.clear();
        let (host, counter) = (&self.host, &self.counter);
        for time in 0..self.config.times {
            match self.config.subject {
                Subject::Nothing => {}
                Subject::Logged => info!(host, "connected for the {time}th time"),
                Subject::Filtered => trace!(host, "connected for the {time}th time"),
                Subject::Counter => counter.add(1),
                Subject::Clock => self.last = host.now_ns(),
                Subject::Spawn => self.tasks.push(host.spawn("nothing", async {
                    ENDED.fetch_add(1, Ordering::Release);
                })),
            }
            std::hint::black_box(&mut self.last);
        }
        Ok(())
    }
}

impl Component for Ask {
    const NAME: &str = "ask";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let counter = context.counter("asked", "Number of increments by the operator.");
        Ok(Self { config, host: context.into(), counter, last: 0, tasks: Vec::new() })
    }
}
