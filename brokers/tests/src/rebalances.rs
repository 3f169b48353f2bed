//! Members of a group that come, go and are killed while records are written, and what becomes of the records.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rdkafka::producer::BaseRecord;

use crate::{
    eventually,
    flow::Flow,
    kafka::{Kafka, parse, record, unique},
    peer::Peer,
};

const PARTITIONS: i32 = 12;
const MEMBERS: usize = 4;

/// How often a record of each partition is written.
const INTERVAL: Duration = Duration::from_millis(10);

/// What became of the records.
#[derive(Debug, Default)]
pub struct Report {
    /// How often a member came or went.
    pub rebalances: usize,
    /// How often it was killed.
    pub kills: usize,
    /// Records that were written.
    pub written: u64,
    /// Those that came to no peer.
    pub lost: u64,
    /// Records that came again after a kill, with what was under way.
    pub again_after_kills: u64,
    /// Records that came again otherwise.
    pub again: u64,
    /// The longest time between two records of a partition that stayed with its member.
    pub longest_gap: Duration,
    /// The same of a partition that went to another.
    pub longest_move: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Join,
    Leave,
    Kill,
}

/// What the peers have seen.
#[derive(Default)]
struct Seen {
    partitions: BTreeMap<i32, Of>,
    report: Report,
    /// When a member was last killed.
    killed: Option<Instant>,
}

/// What they have seen of a partition.
#[derive(Default)]
struct Of {
    numbers: Vec<bool>,
    /// The member that it came from last, and when.
    last: Option<(usize, Instant)>,
}

impl Seen {
    fn came(&mut self, member: usize, line: &str) {
        let (now, (partition, number)) = (Instant::now(), parse(line));
        let of = self.partitions.entry(partition).or_default();
        if let Some((before, then)) = of.last.replace((member, now)) {
            let report = &mut self.report;
            let longest =
                if before == member { &mut report.longest_gap } else { &mut report.longest_move };
            *longest = (*longest).max(now - then);
        }
        let number = usize::try_from(number).unwrap();
        if of.numbers.len() <= number {
            of.numbers.resize(number + 1, false);
        }
        if std::mem::replace(&mut of.numbers[number], true) {
            // Until the partitions of the killed one have come to others, and all of them have read on.
            let is_of_kill =
                self.killed.is_some_and(|killed| now - killed < Duration::from_secs(5));
            let again = if is_of_kill {
                &mut self.report.again_after_kills
            } else {
                &mut self.report.again
            };
            *again += 1;
        }
    }

    fn has_come_since(&self, then: Instant) -> bool {
        let mut all = self.partitions.values();
        self.partitions.len() == usize::try_from(PARTITIONS).unwrap()
            && all.all(|of| of.last.is_some_and(|(_, last)| last > then))
    }
}

/// Has members of a group come, go and be killed so many times. Each of them reads with `kafka_consumer`, and posts
/// to a peer.
pub fn run(kafka: Kafka, rebalances: usize) -> Report {
    let kafka = Arc::new(kafka);
    let (topic, group) = (kafka.topic("rebalances", PARTITIONS), unique("group"));
    let flow = |sink: &str| {
        let address = kafka.address();
        Flow::run(&format!(
            "connectors:\n  \
               input: {{ type: kafka_consumer, codec: json, config: {{ brokers: ['{address}'], \
                 topics: [{topic}], group: {group}, session_timeout: 1s, commit_interval: 100ms }} }}\n  \
               output: {sink}\n\
             links: [input -> output]\n"
        ))
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut count = 0;
    let mut member = || {
        let (own, number) = (seen.clone(), count);
        count += 1;
        let peer = Peer::observed(move |line| own.lock().unwrap().came(number, line));
        flow(&peer.sink_of_many())
    };
    let mut members = vec![member()];
    members[0].says("got ");
    let ends = Arc::new(AtomicBool::new(false));
    let writer = {
        let (kafka, topic, ends) = (kafka.clone(), topic.clone(), ends.clone());
        thread::spawn(move || write(&kafka, &topic, &ends))
    };
    let mut report = Report { rebalances, ..Report::default() };
    for number in 0..rebalances {
        let change = match number % 5 {
            _ if members.len() == 1 => Change::Join,
            1 => Change::Kill,
            3 => Change::Leave,
            _ if members.len() < MEMBERS => Change::Join,
            _ => Change::Leave,
        };
        match change {
            Change::Join => {
                let new = member();
                new.says("got ");
                members.push(new);
            }
            // The oldest: it has been through most.
            Change::Leave => {
                let (status, log) = members.remove(0).stop();
                assert!(status.success(), "{log}");
            }
            Change::Kill => {
                report.kills += 1;
                seen.lock().unwrap().killed = Some(Instant::now());
                members.remove(0).kill();
            }
        }
        let now = Instant::now();
        eventually("a record of each partition", || {
            seen.lock().unwrap().has_come_since(now).then_some(())
        });
    }
    ends.store(true, Ordering::Relaxed);
    let each = writer.join().unwrap();
    let each = usize::try_from(each).unwrap();
    let all = |seen: &Seen| seen.partitions.values().map(|of| missing(of, each)).sum::<u64>();
    // What comes no more is lost: the report says so.
    let start = Instant::now();
    while all(&seen.lock().unwrap()) > 0 && start.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(50));
    }
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    report.written = each as u64 * u64::from(PARTITIONS.unsigned_abs());
    report.lost = all(&seen);
    let Report { again_after_kills, again, longest_gap, longest_move, .. } = seen.report;
    Report { again_after_kills, again, longest_gap, longest_move, ..report }
}

/// How many of the first so many records have not come.
fn missing(of: &Of, each: usize) -> u64 {
    let came = of.numbers.iter().take(each).filter(|came| **came).count();
    (each - came) as u64
}

/// Writes records to each partition until it is to end. Gives how many to each.
fn write(kafka: &Kafka, topic: &str, ends: &AtomicBool) -> u64 {
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        for partition in 0..PARTITIONS {
            let payload = record(partition, number);
            kafka.send(BaseRecord::to(topic).partition(partition).payload(&payload));
        }
        number += 1;
        thread::sleep(INTERVAL);
    }
    kafka.flush();
    number
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rebalances, kills, written, lost, again_after_kills, again, .. } = self;
        let (gap, moved) = (self.longest_gap.as_millis(), self.longest_move.as_millis());
        writeln!(f, "rebalances: {rebalances}, {kills} of them after kill -9")?;
        writeln!(f, "records: {written} written, {lost} lost")?;
        writeln!(f, "came again: {again_after_kills} after kills, {again} otherwise")?;
        writeln!(f, "longest gap of a partition that stayed: {gap} ms")?;
        write!(f, "longest gap of a partition that went to another member: {moved} ms")
    }
}
