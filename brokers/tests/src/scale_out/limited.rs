//! Throughput of one, two and four processes that are limited to a tenth of a core each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rdkafka::{Message, producer::BaseRecord};

use crate::{
    flow::Flow,
    kafka::Kafka,
    scale_out::{
        processes::{Group, PARTITIONS, partitions, time, writer},
        tenth::Tenth,
    },
};

/// Numbers of processes to measure, one after the other.
const COUNTS: [usize; 3] = [1, 2, 4];

/// Time before the measurement, in which the processes share the partitions and start to read them.
const SETTLE: Duration = Duration::from_secs(5);

/// Length of the padding of a record in bytes. With the padding a record is as long as a typical log event.
const PADDING: usize = 570;

/// Number of records that are prepared for each second and process: more than a process can handle.
const RECORDS_PER_SECOND: u64 = 40_000;

/// Result of a measurement with one number of processes.
#[derive(Debug)]
pub struct Turn {
    /// Number of processes.
    pub processes: usize,
    /// Records per second of all processes together.
    pub rate: f64,
    /// Shares of a core that the least busy and the most busy process used.
    pub cores: (f64, f64),
    /// Longest time for which any of the processes wrote nothing.
    pub idle: Duration,
    /// Number of partitions that were read to the end. If there are any, the other results are not meaningful, because
    /// processes had nothing to do.
    pub read_to_the_end: usize,
}

/// Measures each number of processes for `time`. Returns the results, and a description of the limit.
pub fn run(kafka: Kafka, time: Duration) -> (Vec<Turn>, &'static str) {
    let kafka = Arc::new(kafka);
    let from = kafka.topic("orders", 12);
    let most = COUNTS.iter().max().copied().unwrap_or_default() as u64;
    let each = RECORDS_PER_SECOND * most * (time + SETTLE).as_secs() / PARTITIONS as u64;
    fill(&kafka, &from, each);
    let mut limited_by = "";
    let turns = COUNTS.map(|count| turn(&kafka, &from, (count, time, each), &mut limited_by));
    (turns.into(), limited_by)
}

fn fill(kafka: &Kafka, topic: &str, each: u64) {
    let padding = "x".repeat(PADDING);
    for number in 0..each {
        for partition in partitions() {
            let payload = format!(r#"{{"p":{partition},"n":{number},"x":"{padding}"}}"#);
            kafka.send(BaseRecord::to(topic).partition(partition).payload(&payload));
        }
    }
    kafka.flush();
}

#[allow(clippy::cast_precision_loss)] // a few million records, which a float represents exactly
fn turn(
    kafka: &Arc<Kafka>,
    from: &str,
    (count, during, each): (usize, Duration, u64),
    limited_by: &mut &'static str,
) -> Turn {
    let group = Group::new(kafka.clone(), from.to_owned());
    let processes: Vec<Flow> = (0..count).map(|number| group.process(number)).collect();
    let limits: Vec<Tenth> = processes.iter().map(|it| Tenth::of(it.id())).collect();
    *limited_by = limits.first().map_or("", Tenth::name);
    processes.iter().for_each(|it| _ = it.says("assigned "));
    thread::sleep(SETTLE);
    let cores = |times: &[Duration], past: Duration| {
        let cores = processes.iter().zip(times).map(|(process, before)| {
            processor_time(process.id()).saturating_sub(*before).as_secs_f64() / past.as_secs_f64()
        });
        cores.fold((f64::MAX, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)))
    };
    let times: Vec<_> = processes.iter().map(|it| processor_time(it.id())).collect();
    let (start, from) = (Instant::now(), super::now());
    thread::sleep(during);
    let (past, to) = (start.elapsed(), super::now());
    let cores = cores(&times, past);
    processes.into_iter().for_each(Flow::kill);
    drop(limits);
    let mut work = Work::new(count, from..to);
    group.read_all(|record| work.add(record.partition(), writer(record), self::time(record)));
    Turn {
        processes: count,
        rate: work.records as f64 / past.as_secs_f64(),
        cores,
        idle: work.idle(),
        read_to_the_end: work.written.values().filter(|written| **written >= each).count(),
    }
}

/// Returns the processor time that a process has used.
fn processor_time(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the process is in parentheses and may contain any character, so search for the last one. User and
    // system time are fields 14 and 15, in hundredths of a second.
    let fields = text.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|it| it.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// The records that the processes wrote within a period.
struct Work {
    within: std::ops::Range<i64>,
    records: u64,
    /// For each process, the times at which it wrote a record, in ms since 1970.
    times: Vec<BTreeSet<i64>>,
    /// Number of records written to each partition, also outside of the period.
    written: BTreeMap<i32, u64>,
}

impl Work {
    fn new(processes: usize, within: std::ops::Range<i64>) -> Self {
        let times = vec![BTreeSet::new(); processes];
        Self { within, records: 0, times, written: BTreeMap::new() }
    }

    /// Adds a record that a process wrote to a partition.
    fn add(&mut self, partition: i32, process: usize, time: i64) {
        *self.written.entry(partition).or_default() += 1;
        if self.within.contains(&time) {
            self.records += 1;
            self.times[process].insert(time);
        }
    }

    /// Returns the longest time within the period for which any process wrote nothing.
    fn idle(&self) -> Duration {
        let of = |times: &BTreeSet<i64>| {
            let ends = times.iter().copied().chain([self.within.end]);
            let starts = [self.within.start].into_iter().chain(times.iter().copied());
            starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or_default()
        };
        let longest = self.times.iter().map(of).max().unwrap_or_default();
        Duration::from_millis(longest.unsigned_abs())
    }
}

/// A table of results.
#[derive(Debug)]
pub struct Table<'t>(pub &'t [Turn]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = self.0.first().map_or(f64::NAN, |turn| turn.rate);
        writeln!(f, "processes  records/s   to one    cores of each  longest idle time, ms")?;
        for Turn { processes, rate, cores: (least, most), idle, read_to_the_end } in self.0 {
            let (of_one, idle) = (rate / one, idle.as_millis());
            writeln!(
                f,
                "{processes:>9} {rate:>10.0} {of_one:>8.2}  {least:>6.3} to {most:.3} {idle:>22}"
            )?;
            if *read_to_the_end > 0 {
                writeln!(
                    f,
                    "{read_to_the_end} partitions were read to the end: the writer of the test wrote too few records"
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Work;

    #[test]
    fn idle_time_is_the_longest_of_any_process() {
        let mut work = Work::new(2, 100..200);
        for (process, time) in [(0, 150), (0, 110), (0, 195), (1, 120), (1, 130), (1, 250)] {
            work.add(0, process, time);
        }
        assert_eq!((work.records, work.written[&0]), (5, 6));
        assert_eq!(work.idle(), Duration::from_millis(70));
    }
}
