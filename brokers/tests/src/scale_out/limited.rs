//! What one, two and four processes do that have a tenth of a core each.

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

/// How many processes there are by turns.
const COUNTS: [usize; 3] = [1, 2, 4];

/// How long they have to share the partitions, and to begin with all of them.
const SETTLE: Duration = Duration::from_secs(5);

/// What a record has besides its numbers: as long as an event of a log.
const REST: usize = 570;

/// How many records there are for each second of each process: more than any of them does.
const A_SECOND: u64 = 40_000;

/// What so many processes did.
#[derive(Debug)]
pub struct Turn {
    /// How many there were.
    pub processes: usize,
    /// Records of all of them in a second.
    pub rate: f64,
    /// Of the least and of the most busy process, how much of a core it had.
    pub cores: (f64, f64),
    /// The longest time for which one of them has written nothing.
    pub idle: Duration,
    /// Partitions of which all was read, so that the figures say little.
    pub read_to_the_end: usize,
}

/// What they did by turns, each for so long, and how they were limited.
pub fn run(kafka: Kafka, time: Duration) -> (Vec<Turn>, &'static str) {
    let kafka = Arc::new(kafka);
    let from = kafka.topic("orders", 12);
    let most = COUNTS.iter().max().copied().unwrap_or_default() as u64;
    let each = A_SECOND * most * (time + SETTLE).as_secs() / PARTITIONS as u64;
    fill(&kafka, &from, each);
    let mut limited_by = "";
    let turns = COUNTS.map(|count| turn(&kafka, &from, (count, time, each), &mut limited_by));
    (turns.into(), limited_by)
}

fn fill(kafka: &Kafka, topic: &str, each: u64) {
    let rest = "x".repeat(REST);
    for number in 0..each {
        for partition in partitions() {
            let payload = format!(r#"{{"p":{partition},"n":{number},"x":"{rest}"}}"#);
            kafka.send(BaseRecord::to(topic).partition(partition).payload(&payload));
        }
    }
    kafka.flush();
}

#[allow(clippy::cast_precision_loss)] // some millions
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
    processes.iter().for_each(|it| _ = it.says("got "));
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
        read_to_the_end: work.came.values().filter(|came| **came >= each).count(),
    }
}

/// The processor time that a process has taken.
fn processor_time(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name, in parentheses, may have anything in it. The fields are the 14th and the 15th, in hundredths of a
    // second.
    let fields = text.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|it| it.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// What the processes wrote within some time, in ms since 1970.
struct Work {
    within: std::ops::Range<i64>,
    records: u64,
    /// When each process has written something.
    times: Vec<BTreeSet<i64>>,
    /// How many records came of each partition.
    came: BTreeMap<i32, u64>,
}

impl Work {
    fn new(processes: usize, within: std::ops::Range<i64>) -> Self {
        let times = vec![BTreeSet::new(); processes];
        Self { within, records: 0, times, came: BTreeMap::new() }
    }

    /// A process has written a record to this partition.
    fn add(&mut self, partition: i32, process: usize, time: i64) {
        *self.came.entry(partition).or_default() += 1;
        if self.within.contains(&time) {
            self.records += 1;
            self.times[process].insert(time);
        }
    }

    /// The longest time for which a process has written nothing.
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

/// A table of turns.
#[derive(Debug)]
pub struct Table<'t>(pub &'t [Turn]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = self.0.first().map_or(f64::NAN, |turn| turn.rate);
        writeln!(f, "processes  records/s   of one    cores of each  longest idle time, ms")?;
        for Turn { processes, rate, cores: (least, most), idle, read_to_the_end } in self.0 {
            let (of_one, idle) = (rate / one, idle.as_millis());
            writeln!(
                f,
                "{processes:>9} {rate:>10.0} {of_one:>8.2}  {least:>6.3} to {most:.3} {idle:>22}"
            )?;
            if *read_to_the_end > 0 {
                writeln!(
                    f,
                    "{read_to_the_end} partitions were read to the end: there was too little"
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
    fn the_longest_idle_time_is_that_of_any_process_from_the_start_to_the_end() {
        let mut work = Work::new(2, 100..200);
        for (process, time) in [(0, 150), (0, 110), (0, 195), (1, 120), (1, 130), (1, 250)] {
            work.add(0, process, time);
        }
        assert_eq!((work.records, work.came[&0]), (5, 6));
        assert_eq!(work.idle(), Duration::from_millis(70));
    }
}
