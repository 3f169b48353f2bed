//! The numbers that decide how tasks share processors, in one place.
//!
//! None of them is a promise. Each was found by trying, on machines of two processors. `bench/runs/2026-11-24-tuning`
//! compares a quarter and four times of most of them at full load: what decides how long a batch is makes a difference there
//! ([`BATCH_NS`], [`BATCH_EVENTS`], [`BATCH_TO_HANDING`], [`BATCH_TO_SINK`]), and no other one does for certain beyond the noise of
//! that machine, which is ten to thirty per cent. Where another run in `bench/runs` shows what a number does, it is named.
//! Before you change one, compare both values in one run (`docs/benchmarks/harness.md` says how).

use std::{ops::RangeInclusive, time::Duration};

/// Unused batch storages that a pool keeps: as many as a few full queues hold in small batches, and
/// those that are being filled and delivered. A larger number costs memory only, which
/// `bench/runs/2026-11-21-idle` shows.
pub(crate) const POOLED: usize = 128;

/// How long a source does without another helper, once one of several has left because it mostly
/// waited for an in-order section: more tasks do not make that faster. On two
/// processors there is one helper, and that stays (`bench/runs/2026-11-21-two-cores-one-pass`); more
/// than four were never measured.
pub(crate) const WITHOUT_MORE_HELP: Duration = Duration::from_millis(100);

/// Pulls in a row that did not wait and brought as much as was asked for, after which events are
/// taken to come without end, and helpers may pull. A source at half load, which
/// `bench/runs/2026-11-21-half-load-one-pass` has, must not get there.
pub(crate) const STEADY: usize = 16;

/// How long a source that always has something goes on before it lets other tasks run. Each time
/// costs a wake-up of a thread, if there is one that sleeps: p99.9 at half load shows it
/// (`bench/runs/2026-11-21-half-load-one-pass`).
pub(crate) const TIME_SLICE: Duration = Duration::from_millis(1);

/// Longest time that a helper works without a turn for other tasks. Longer than [`TIME_SLICE`], because a helper
/// has a processor that no other task needed when it began.
pub(crate) const HELPER_TIME_SLICE: Duration = Duration::from_millis(10);

/// What waits to be put together for a sink weighs so much at most, in bytes: then batches go out as they
/// are. Events that are left of large batches keep these in memory. Together with what is under way it weighs twice the
/// bytes of all deliveries more at most: the source's events are kept until the answer, and what the sink gets of them.
pub(crate) const SINK_WAITING_BYTES: usize = 12 << 20;

/// How long an operator waits at least that wants to be told the time again as soon as it was.
pub(crate) const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How long a batch should keep the task of its source, in ns, at least and at most. The first is
/// latency under full load, the second is throughput: `bench/runs/2026-11-24-least-batch` compares 15, 30 and 60 µs, and
/// `bench/runs/2026-11-24-least-batch-24` 15, 20 and 24.
pub(crate) const BATCH_NS: RangeInclusive<u64> = 24_000..=250_000;
/// How many times longer than its handing over,
pub(crate) const BATCH_TO_HANDING: u64 = 8;
/// and than the sink takes where it is run for each batch.
pub(crate) const BATCH_TO_SINK: u64 = 2;
/// A sink that makes the source wait longer than this for room has costs a batch, not an event.
pub(crate) const LONG_WAIT: Duration = Duration::from_micros(500);
/// Events a batch, at least and at most.
pub(crate) const BATCH_EVENTS: RangeInclusive<u32> = 16..=1_024;

/// What a queue holds at most, in events and in bytes, unless the flow says otherwise: what waits in
/// a queue is late, and no faster for it.
pub(crate) const QUEUE_EVENTS: usize = 256;
/// Two of the heaviest batches ([`tremor_pdk::Batch::WEIGHT_AT_MOST`]).
pub(crate) const QUEUE_BYTES: usize = 4 << 20;

/// Batches that a sink takes at most while its feeder runs it: the feeder has work of its own, and
/// others may go on feeding the sink.
pub(crate) const BATCHES_FOR_ANOTHER: usize = 8;
/// A batch of at most so many events and bytes is encoded and delivered by its feeder, if the sink has nothing else
/// to do: that takes less than to wake another thread for it. Fewer than the least of [`BATCH_EVENTS`], so that a source
/// that has more to bring works beside its sink. `bench/runs/2026-11-23-network-threads` has lines that come alone.
pub(crate) const FEW_EVENTS: usize = 8;
/// See [`FEW_EVENTS`].
pub(crate) const FEW_BYTES: usize = 16 << 10;
/// A sink that takes longer than this, so many times in a row, is woken instead for a while, so that it
/// works beside its feeder. What a wake-up costs is in `bench/runs/2026-11-21-gaps`.
pub(crate) const LONG_RUN: Duration = Duration::from_micros(50);
/// See [`LONG_RUN`].
pub(crate) const LONG_RUNS: u32 = 3;
/// See [`LONG_RUN`].
pub(crate) const WOKEN_FOR: Duration = Duration::from_millis(100);

/// How long a task waits on the processor for another one, before it parks: what a few batches take,
/// and about what parking and waking costs on a virtual machine
/// (`bench/runs/2026-11-21-gaps`).
pub(crate) const SPIN: Duration = Duration::from_micros(100);
/// Looks before the system is asked whether another thread wants this processor: a microsecond or
/// two.
pub(crate) const LOOKS: u32 = 16;
/// A source whose next pull is due within this time, in ns, waits for it on the processor: a timer would be late.
pub(crate) const CLOSE_NS: u64 = 50_000;
