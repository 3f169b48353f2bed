//! An operator that asks its host for the same thing again and again.

use std::sync::atomic::{AtomicU64, Ordering};

use tremor_pdk::{Counter, Task, info, prelude::*, trace};

/// How many tasks that were spawned have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// How many tasks that were spawned have ended, since the library was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_tasks_ended() -> u64 {
    ENDED.load(Ordering::Acquire)
}

/// What to ask for.
#[tremor_pdk::config]
#[derive(Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Subject {
    /// Nothing: what the loop and the call of the operator take.
    Nothing,
    /// A line that is logged.
    Logged,
    /// A line that is not, because of its level.
    Filtered,
    /// One more on a counter.
    Counter,
    /// The time.
    Clock,
    /// A task with nothing to do.
    Spawn,
}

/// What to ask for, and how often in each call.
#[tremor_pdk::config]
pub struct Config {
    subject: Subject,
    times: u64,
}

/// The operator.
pub struct Ask {
    config: Config,
    host: Host,
    counter: Counter,
    last: u64,
    /// Of the last call.
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
        let counter = context.counter("asked", "how often something was counted");
        Ok(Self { config, host: context.into(), counter, last: 0, tasks: Vec::new() })
    }
}
