//! Processes that come, go and are killed while records are written, and what becomes of the records.

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
        books::{Books, Came},
        control::Control,
        now,
        processes::{Group, PARTITIONS, number, partitions, time, writer},
    },
};

/// How many processes there are.
const FEWEST: usize = 2;
const MOST: usize = 4;

/// How often records are written to each partition.
const INTERVAL: Duration = Duration::from_millis(10);

/// How long records are written before a process comes or goes. A broker that has just begun compiles its program
/// meanwhile, and pauses; that is none of the flow's.
const WARM: Duration = Duration::from_secs(3);

/// How long records are waited for at the end that have not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often processes come and go, and under what load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How often one comes or goes.
    pub changes: u32,
    /// After which time none does any more, however often that was.
    pub within: Duration,
    /// How many records are written in a second.
    pub rate: u32,
}

/// What became of the records.
#[derive(Debug)]
pub struct Report {
    /// How often a process came or went.
    pub changes: u32,
    /// How often it was killed.
    pub kills: u32,
    /// How many processes have lost partitions since the group held them for dead: on a machine with much to do, they
    /// may be without a turn for longer than their session.
    pub held_for_dead: u32,
    /// How many records went into each partition.
    pub each: usize,
    /// What came out.
    pub books: Books,
    /// The longest time for which the writer of this test has written nothing.
    pub pause_of_writer: Duration,
    /// The longest time, in ms, for which a client has written nothing that is in no group, and does nothing but read
    /// and write.
    pub pause_of_control: i64,
    /// How long all of it took.
    pub took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Join,
    Leave,
    Kill,
}

/// Has processes come, go and be killed.
pub fn run(kafka: Kafka, plan: Plan) -> Report {
    let start = Instant::now();
    let kafka = Arc::new(kafka);
    let from = kafka.topic("orders", 12);
    let group = Group::new(kafka.clone(), from.clone());
    let books = Arc::new(Mutex::new(Books::new(PARTITIONS)));
    let own = books.clone();
    let control = Control::start(&kafka);
    let reader = group.read(move |record| own.lock().unwrap().came(came(record)));
    let mut count = 0;
    let mut process = || {
        let started = group.process(count);
        started.says("got ");
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
    books.lock().unwrap().pauses_from(now());
    control.pauses_from(now());
    let (mut changes, mut kills, mut held_for_dead) = (0, 0, 0);
    let mut look = |process: usize, log: &str| {
        if log.contains("held this member for dead") {
            held_for_dead += 1;
            books.lock().unwrap().killed(process);
        }
    };
    while changes < plan.changes && start.elapsed() < plan.within {
        match next(changes, processes.len()) {
            Change::Join => processes.push(process()),
            // The oldest: it has been through most.
            Change::Leave => {
                let (number, process) = processes.remove(0);
                let (status, log) = process.stop();
                assert!(status.success(), "{log}");
                look(number, &log);
            }
            Change::Kill => {
                kills += 1;
                let (number, process) = processes.remove(0);
                books.lock().unwrap().killed(number);
                process.kill();
            }
        }
        changes += 1;
        let now = now();
        eventually("a record of each partition", || {
            books.lock().unwrap().have_come_since(now).then_some(())
        });
    }
    ends.store(true, Ordering::Relaxed);
    let (each, pause_of_writer) = writer.join().unwrap();
    // What comes no more is lost: the report says so.
    let end = Instant::now();
    while books.lock().unwrap().lost(each) > 0 && end.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    drop(reader);
    processes.iter().for_each(|(number, process)| look(*number, &process.log()));
    drop(processes);
    let books = std::mem::replace(&mut *books.lock().unwrap(), Books::new(0));
    let (pause_of_control, took) = (control.pause(), start.elapsed());
    Report { changes, kills, held_for_dead, each, books, pause_of_writer, pause_of_control, took }
}

/// What comes next, with so many processes.
fn next(number: u32, processes: usize) -> Change {
    match number % 5 {
        _ if processes == FEWEST => Change::Join,
        1 => Change::Kill,
        3 => Change::Leave,
        _ if processes < MOST => Change::Join,
        _ => Change::Leave,
    }
}

fn came(record: &BorrowedMessage<'_>) -> Came {
    let (partition, _) = parse(std::str::from_utf8(record.payload().unwrap()).unwrap());
    assert_eq!(partition, record.partition(), "it is in its partition");
    Came {
        partition: usize::try_from(partition).unwrap(),
        number: number(record),
        process: writer(record),
        time: time(record),
    }
}

/// Writes so many records to each partition, and to the control's, again and again, until it is to end. Gives how many
/// went into each, and the longest pause.
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
    /// Whether nothing was lost or overtaken, and nothing came again but of processes that were killed or held for dead.
    pub fn is_good(&self) -> bool {
        let (_, again) = self.books.again(None);
        self.books.lost(self.each) == 0 && again == 0 && self.books.total().overtaken == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { changes, kills, held_for_dead, each, books, .. } = self;
        let records = each * PARTITIONS;
        writeln!(
            f,
            "{changes} times a process came or went, {kills} of them by kill -9, in {:.0} s; {records} records",
            self.took.as_secs_f64()
        )?;
        writeln!(f, "{held_for_dead} processes were held for dead that were not killed")?;
        writeln!(f, "the writer paused for {} ms at most", self.pause_of_writer.as_millis())?;
        writeln!(
            f,
            "a client that is in no group paused for {} ms at most",
            self.pause_of_control
        )?;
        write!(f, "{}", books.table(*each))
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, FEWEST, MOST, next};

    #[test]
    fn there_are_two_to_four_processes_and_some_are_killed() {
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
