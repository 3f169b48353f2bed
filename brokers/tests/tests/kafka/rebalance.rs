//! Tests of rebalances of `kafka_consumer`.

use std::time::Duration;

use broker_tests::{
    flow::Flow,
    kafka::{Kafka, numbers, parse, unique},
    peer::Peer,
    scale_out::changes::{self, Plan},
};

use super::{consumer::flow, kafka};

/// A topic with four partitions, and a consumer group.
struct Members {
    kafka: Kafka,
    topic: String,
    group: String,
}

impl Members {
    fn new(partitions: i32) -> Option<Self> {
        let kafka = kafka()?;
        let (topic, group) = (kafka.topic("group", partitions), unique("group"));
        Some(Self { kafka, topic, group })
    }

    /// Starts a member and the peer to which it sends.
    fn member(&self, keys: &str) -> (Flow, Peer) {
        let Self { topic, group, .. } = self;
        let keys = format!("topics: [{topic}], group: {group}, session_timeout: 1s, {keys}");
        let peer = Peer::new();
        (flow(&self.kafka, &keys, &peer.sink()), peer)
    }

    fn write(&self, partitions: impl IntoIterator<Item = i32>, number: u64) {
        self.kafka.write(&self.topic, partitions, number..number + 1);
    }

    fn commits(&self, partitions: impl IntoIterator<Item = i32>, offset: i64) {
        let commits = |partition| self.kafka.commits(&self.group, &self.topic, partition, offset);
        partitions.into_iter().for_each(commits);
    }
}

/// Parses the partitions from a line of the log, such as `2 partitions: topic [0 3] …`.
fn named(line: &str) -> Vec<i32> {
    let list = line.split_once(" [").unwrap().1.split_once(']').unwrap().0;
    list.split(' ').map(|it| it.parse().unwrap()).collect()
}

/// State after a second member has joined. The first member had all four partitions, and has one unanswered record of
/// each. Contains both members, the partitions that go to the second member, and the partitions that stay.
struct Revoked {
    first: (Flow, Peer),
    second: (Flow, Peer),
    go: Vec<i32>,
    stay: Vec<i32>,
}

fn revoked(group: &Members, keys: &str) -> Revoked {
    let first = group.member(keys);
    first.0.says("assigned 4 partitions");
    group.write(0..4, 0);
    group.commits(0..4, 1);
    first.1.delay_answers(|line| parse(line).1 == 1);
    group.write(0..4, 1);
    first.1.receives("two records of each partition", |lines| lines.len() == 8);
    let second = group.member(keys);
    let go = named(&first.0.says("go to other members"));
    assert_eq!(go.len(), 2);
    let stay = (0..4).filter(|it| !go.contains(it)).collect();
    Revoked { first, second, go, stay }
}

#[test]
fn revoked_partition_is_drained_while_others_are_read() {
    let Some(group) = Members::new(4) else { return };
    let Revoked { first, second, go, stay } = revoked(&group, "drain_timeout: 4m");
    // Delay only the records of the leaving partitions, so that these stay in flight.
    let leaving = go.clone();
    first.1.delay_answers(move |line| parse(line).1 == 1 && leaving.contains(&parse(line).0));
    group.write(0..4, 2);
    for partition in &stay {
        first.1.receives("the next record of a partition that stays", |lines| {
            numbers(lines, *partition) == [0, 1, 2]
        });
    }
    for partition in &go {
        assert_eq!(group.kafka.committed(&group.group, &group.topic, *partition), Some(1));
        assert_eq!(
            numbers(&first.1.received(), *partition),
            [0, 1],
            "no more records of the revoked partition are read"
        );
    }
    assert!(second.1.received().is_empty() && !second.0.log().contains("assigned 2 partitions"));
    first.1.answer_all();
    second.0.says("assigned 2 partitions");
    group.commits(0..4, 3);
    for partition in go {
        assert_eq!(numbers(&first.1.received(), partition), [0, 1]);
        assert_eq!(numbers(&second.1.received(), partition), [2], "the record is read once");
    }
    for partition in stay {
        assert_eq!(numbers(&first.1.received(), partition), [0, 1, 2]);
    }
    for (flow, _) in [first, second] {
        let (status, log) = flow.stop();
        assert!(status.success() && !log.contains("WARN"), "{log}");
    }
}

#[test]
fn drain_timeout_releases_partition_and_ignores_late_acks() {
    let Some(group) = Members::new(4) else { return };
    let Revoked { first, second, go, stay } = revoked(&group, "drain_timeout: 500ms");
    let leaving = go.clone();
    first.1.delay_answers(move |line| leaving.contains(&parse(line).0));
    first.0.says("longer than `drain_timeout`");
    // The member that has the partition now gets the unacknowledged records again.
    group.write(0..4, 2);
    group.commits(0..4, 3);
    for partition in &go {
        assert_eq!(numbers(&second.1.received(), *partition), [1, 2]);
    }
    first.1.answer_all();
    // The first member acknowledges its late records, and continues to commit offsets of the partitions that it kept.
    group.write(stay.iter().copied(), 3);
    group.commits(stay, 4);
    for partition in go {
        assert!(numbers(&first.1.answered(), partition).contains(&1));
        assert_eq!(group.kafka.committed(&group.group, &group.topic, partition), Some(3));
    }
}

#[test]
fn paused_member_loses_partitions_and_commits_nothing() {
    let Some(group) = Members::new(4) else { return };
    let (first, peer) = group.member("");
    first.says("assigned 4 partitions");
    group.write(0..4, 0);
    group.commits(0..4, 1);
    peer.delay_answers(|line| parse(line).1 == 1);
    group.write(0..4, 1);
    peer.receives("two records of each partition", |lines| lines.len() == 8);
    first.signal("STOP");
    let (second, other) = group.member("");
    second.says("assigned 4 partitions");
    group.write(0..4, 2);
    group.commits(0..4, 3);
    // While the first member is paused, its records are answered and another member commits all of them.
    peer.answer_all();
    first.signal("CONT");
    first.says("lost 4 partitions");
    first.says("assigned 2 partitions");
    for partition in 0..4 {
        let committed = group.kafka.committed(&group.group, &group.topic, partition);
        assert_eq!(committed, Some(3), "partition {partition}\n{}", first.log());
    }
    group.write(0..4, 3);
    group.commits(0..4, 4);
    let answered = [peer.answered(), other.answered()].concat();
    for partition in 0..4 {
        let mut found = numbers(&answered, partition);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [0, 1, 2, 3]);
    }
}

#[test]
fn changing_processes_repeat_records_only_after_kills() {
    let Some(kafka) = kafka() else { return };
    let plan = Plan { changes: 8, within: Duration::MAX, rate: 1_200 };
    let report = changes::run(kafka, plan);
    eprintln!("{report}");
    assert!(report.is_good(), "{report}");
    assert!(report.kills > 0);
}
