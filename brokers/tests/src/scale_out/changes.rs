//! Starts, stops and kills processes while records are written, and measures the effects on the records.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rdkafka::{Message, message::BorrowedMessage, producer::BaseRecord};

use crate::{
    eventually,
    flow::Flow,
    kafka::{Kafka, parse, record},
    scale_out::{
        control::Control,
        counts::{Counts, OutputRecord},
        now,
        processes::{Group, PARTITIONS, number, partitions, time, writer},
    },
};

/// Minimum number of processes.
const FEWEST: usize = 2;

/// Maximum number of processes.
const MOST: usize = 4;

/// Interval at which records are written to each partition.
const INTERVAL: Duration = Duration::from_millis(10);

/// Time for which records are written before the first change. A broker that has just started still
/// compiles its code, which causes pauses that must not be attributed to the flow.
const WARM: Duration = Duration::from_secs(3);

/// Maximum time to wait for missing records at the end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of changes, their duration, and the load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of processes to start, stop or kill.
    pub changes: u32,
    /// Time after which no further change is made.
    pub within: Duration,
    /// Number of records written per second.
    pub rate: u32,
}

/// Result of a run.
#[derive(Debug)]
pub struct Report {
    /// Number of processes that were started, stopped or killed.
    pub changes: u32,
    /// Number of processes that were killed.
    pub kills: u32,
    /// Number of processes that lost partitions because the group considered them dead. On a busy machine, a process
    /// may get no CPU time for longer than the session timeout.
    pub considered_dead: u32,
    /// Number of records written to each input partition.
    pub each: usize,
    /// Counts of the output records.
    pub counts: Counts,
    /// Longest time for which this test wrote no input records.
    pub pause_of_writer: Duration,
    /// Longest time for which the control wrote nothing, in ms. The control is a client without a group that copies
    /// records.
    pub pause_of_control: i64,
    /// Duration of the whole run.
    pub took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Join,
    Leave,
    Kill,
}

/// Starts, stops and kills processes while records are written.
pub fn run(kafka: Kafka, plan: Plan) -> Report {
    let start = Instant::now();
    let kafka = Arc::new(kafka);
    let from = kafka.topic("orders", 12);
    let group = Group::new(kafka.clone(), from.clone());
    let counts = Arc::new(Mutex::new(Counts::new(PARTITIONS)));
    let own = counts.clone();
    let control = Control::start(&kafka);
    let reader = group.read(move |record| own.lock().unwrap().add(output_record(record)));
    let mut count = 0;
    let mut process = || {
        let started = group.process(count);
        started.says("assigned ");
        count += 1;
        (count - 1, started)
    };
    let mut processes: Vec<(usize, Flow)> = (0..FEWEST).map(|_| process()).collect();
    let ends = Arc::new(AtomicBool::new(false));
    let writer = {
        let (kafka, ends, control) = (kafka.clone(), ends.clone(), control.from.clone());
        let each = f64::from(plan.rate) * INTERVAL.as_secs_f64() / 12.0;
        thread::spawn(move || write(&kafka, [&from, &control], each, &ends))
    };
    thread::sleep(WARM);
    counts.lock().unwrap().pauses_from(now());
    control.pauses_from(now());
    let (mut changes, mut kills, mut considered_dead) = (0, 0, 0);
    let mut check_log = |process: usize, log: &str| {
        if log.contains("considered this member dead") {
            considered_dead += 1;
            counts.lock().unwrap().killed(process);
        }
    };
    while changes < plan.changes && start.elapsed() < plan.within {
        match next(changes, processes.len()) {
            Change::Join => processes.push(process()),
            // Stop the oldest process, because it has taken part in the most rebalances.
            Change::Leave => {
                let (number, process) = processes.remove(0);
                let (status, log) = process.stop();
                assert!(status.success(), "{log}");
                check_log(number, &log);
            }
            Change::Kill => {
                kills += 1;
                let (number, process) = processes.remove(0);
                counts.lock().unwrap().killed(number);
                process.kill();
            }
        }
        changes += 1;
        let now = now();
        eventually("a record of each partition", || {
            counts.lock().unwrap().have_records_since(now).then_some(())
        });
    }
    ends.store(true, Ordering::Relaxed);
    let (each, pause_of_writer) = writer.join().unwrap();
    // Wait for missing records. Records that do not arrive in time count as lost in the report.
    let end = Instant::now();
    while counts.lock().unwrap().lost(each) > 0 && end.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    drop(reader);
    processes.iter().for_each(|(number, process)| check_log(*number, &process.log()));
    drop(processes);
    let counts = std::mem::replace(&mut *counts.lock().unwrap(), Counts::new(0));
    let (pause_of_control, took) = (control.pause(), start.elapsed());
    Report {
        changes,
        kills,
        considered_dead,
        each,
        counts,
        pause_of_writer,
        pause_of_control,
        took,
    }
}

/// Returns the change with this number, while `processes` processes run.
fn next(number: u32, processes: usize) -> Change {
    match number % 5 {
        _ if processes == FEWEST => Change::Join,
        1 => Change::Kill,
        3 => Change::Leave,
        _ if processes < MOST => Change::Join,
        _ => Change::Leave,
    }
}

fn output_record(record: &BorrowedMessage<'_>) -> OutputRecord {
    let (partition, _) = parse(std::str::from_utf8(record.payload().unwrap()).unwrap());
    assert_eq!(partition, record.partition(), "the record is in its partition");
    OutputRecord {
        partition: usize::try_from(partition).unwrap(),
        number: number(record),
        process: writer(record),
        time: time(record),
    }
}

/// Repeatedly writes `count` records to each partition and to the partition of the control, until `ends` is set.
/// Returns the number of records of each partition, and the longest pause between two writes.
fn write(
    kafka: &Kafka,
    [topic, control]: [&str; 2],
    count: f64,
    ends: &AtomicBool,
) -> (usize, Duration) {
    let (mut number, mut pause, mut due) = (0, Duration::ZERO, 0.0);
    let mut last = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        pause = pause.max(last.elapsed());
        last = Instant::now();
        due += count.max(1.0);
        while due >= 1.0 {
            due -= 1.0;
            for partition in partitions() {
                let payload = record(partition, number);
                kafka.send(BaseRecord::to(topic).partition(partition).payload(&payload));
            }
            kafka.send(BaseRecord::to(control).payload(&record(0, number)));
            number += 1;
        }
        thread::sleep(INTERVAL);
    }
    kafka.flush();
    (usize::try_from(number).unwrap(), pause)
}

impl Report {
    /// Returns whether no record was lost or overtaken, and only records of processes that were killed or considered
    /// dead were repeated.
    pub fn is_good(&self) -> bool {
        let (_, by_others) = self.counts.repeated(None);
        self.counts.lost(self.each) == 0 && by_others == 0 && self.counts.total().overtaken == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { changes, kills, considered_dead, each, counts, .. } = self;
        let records = each * PARTITIONS;
        writeln!(
            f,
            "{changes} times a process joined or left, {kills} of them by kill -9, in {:.0} s; {records} records",
            self.took.as_secs_f64()
        )?;
        writeln!(f, "{considered_dead} processes that were not killed were considered dead")?;
        writeln!(
            f,
            "the writer of the test paused for {} ms at most",
            self.pause_of_writer.as_millis()
        )?;
        writeln!(f, "a client without a group paused for {} ms at most", self.pause_of_control)?;
        write!(f, "{}", counts.table(*each))
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, FEWEST, MOST, next};

    #[test]
    fn changes_keep_two_to_four_processes_and_kill_some() {
        let (mut processes, mut kills) = (FEWEST, 0);
        for number in 0..100 {
            match next(number, processes) {
                Change::Join => processes += 1,
                change => {
                    processes -= 1;
                    kills += usize::from(change == Change::Kill);
                }
            }
            assert!((FEWEST..=MOST).contains(&processes));
        }
        assert!(kills >= 15, "{kills}");
    }
}
