//! Constants that decide how tasks share processors.
//!
//! The constants may change in any release. Each value was found by experiment, on machines with two processors.
//! `bench/runs/2026-11-24-tuning` compares most values with a quarter and with four times the value, at full load. In
//! that run, the constants that decide the size of a batch make a difference ([`BATCH_NS`], [`BATCH_EVENTS`],
//! [`BATCH_TO_HANDING`], [`BATCH_TO_SINK`]). The effect of every other constant is within the noise of that machine,
//! which is ten to thirty per cent. If another run in `bench/runs` shows the effect of a constant, the comment of the
//! constant names that run. Before you change a value, compare the old and the new one in the same run, as
//! `docs/benchmarks/harness.md` explains.

use std::{ops::RangeInclusive, time::Duration};

/// Number of unused batch storages that a pool keeps. These are enough for the small batches of a few full queues and
/// for the batches that are being filled and delivered. A larger number only costs memory, as
/// `bench/runs/2026-11-21-idle` shows.
pub(crate) const POOLED: usize = 128;

/// Time for which a source gets no further helper after one of several helpers has stopped, because that helper mostly
/// waited for an in-order section. On 16 processors, flows of JSON take twice the processor time without this pause; if
/// helpers never stop for this reason, their throughput falls to about half (`bench/runs/2026-11-27-cores`). On two
/// processors there is a single helper, which never stops for this reason.
pub(crate) const WITHOUT_MORE_HELP: Duration = Duration::from_millis(100);

/// Number of consecutive pulls after which the source counts as steady, so that helpers may pull. Each of these pulls
/// read as much as its limit allows, and did not wait. A source at half load must not reach this number
/// (`bench/runs/2026-11-21-half-load-one-pass`).
pub(crate) const STEADY: usize = 16;

/// Longest time that a task runs before it yields to other tasks. Each yield wakes a thread if one is asleep, which
/// increases the p99.9 latency at half load (`bench/runs/2026-11-21-half-load-one-pass`).
pub(crate) const TIME_SLICE: Duration = Duration::from_millis(1);

/// Longest time that a helper runs before it yields to other tasks. The time is longer than [`TIME_SLICE`], because no
/// other task needed the helper's processor when the helper began.
pub(crate) const HELPER_TIME_SLICE: Duration = Duration::from_millis(10);

/// Weight of the waiting batches, in bytes, from which on a sink that joins batches receives no further batches. The
/// sink delivers incomplete batches then. A large batch stays in memory until its last event is delivered. In addition,
/// deliveries in flight may use twice their own bytes, because the events of the source and their encoded form are both
/// kept until the sink answers.
pub(crate) const SINK_WAITING_BYTES: usize = 12 << 20;

/// Shortest time between two timer calls of operators or preprocessors, even if they set their timer to an earlier
/// time.
pub(crate) const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Time that the task of a source should spend on a batch, in ns. The lower bound decides the latency at full load,
/// and the upper bound the throughput. `bench/runs/2026-11-24-least-batch` compares lower bounds of 15, 30 and 60 µs,
/// and `bench/runs/2026-11-24-least-batch-24` those of 15, 20 and 24 µs.
pub(crate) const BATCH_NS: RangeInclusive<u64> = 24_000..=250_000;
/// Time that the task of a source should spend on a batch, as a multiple of the time that it takes to hand the batch
/// over to the next task. The bounds of [`BATCH_NS`] take precedence.
pub(crate) const BATCH_TO_HANDING: u64 = 8;
/// Time that the task of a source should spend on a batch, as a multiple of the time that it takes to run the sink's
/// task for the batch. The bounds of [`BATCH_NS`] take precedence.
pub(crate) const BATCH_TO_SINK: u64 = 2;
/// Duration of a wait for capacity of a sink's queue after which the next batches are larger. A sink that is so slow is
/// assumed to have a cost for each batch and not for each event.
pub(crate) const LONG_WAIT: Duration = Duration::from_micros(500);
/// Number of events that a source is asked for with one pull. The task chooses a number within this range.
pub(crate) const BATCH_EVENTS: RangeInclusive<u32> = 16..=1_024;

/// Maximum number of events in a queue, unless the flow sets it. A longer queue adds latency and no throughput.
pub(crate) const QUEUE_EVENTS: usize = 256;
/// Maximum bytes in a queue, unless the flow sets it: two of the largest batches
/// ([`tremor_pdk::Batch::WEIGHT_AT_MOST`]).
pub(crate) const QUEUE_BYTES: usize = 4 << 20;

/// Maximum number of batches that a sink receives while the task of its sender runs it. The limit exists because the
/// sender has work of its own, while other tasks may continue to fill the queue of the sink.
pub(crate) const BATCHES_FOR_ANOTHER: usize = 8;
/// Maximum number of events of a batch that the sender encodes and delivers itself if the sink is idle, because that
/// takes less time than waking another thread. The number is less than the minimum of [`BATCH_EVENTS`], so that a
/// source that has more events works in parallel with its sink. `bench/runs/2026-11-23-network-threads` measures lines
/// that arrive one at a time.
pub(crate) const FEW_EVENTS: usize = 8;
/// Maximum bytes of a batch that the sender encodes and delivers itself.
pub(crate) const FEW_BYTES: usize = 16 << 10;

/// Longest time that a task spins for another task before it parks. The time is enough for one batch. Without spinning,
/// flows of JSON lose 14 to 24 % of their throughput (`bench/runs/2026-11-26-scheduling`). Beside other busy programs,
/// 100 µs with yields made two threads slower than one (`bench/runs/2026-11-28-spin`).
pub(crate) const SPIN: Duration = Duration::from_micros(25);
/// Longest wait of a source for its next pull, in ns, for which the source spins, because a timer would be late. At
/// 100,000 events/s, the median latency is 5 µs with spinning and 148 µs without (`bench/runs/2026-11-26-scheduling`).
pub(crate) const CLOSE_NS: u64 = 50_000;

/// Pause after a queue has given batches up because a source waits. Meanwhile the events may be acknowledged.
pub(crate) const RELIEF: Duration = Duration::from_millis(10);
