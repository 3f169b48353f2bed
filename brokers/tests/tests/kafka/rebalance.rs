//! Partitions of `kafka_consumer` that change hands.

use std::time::Duration;

use broker_tests::{
    flow::Flow,
    kafka::{Kafka, numbers, parse, unique},
    peer::Peer,
    scale_out::changes::{self, Plan},
};

use super::{consumer::flow, kafka};

/// A topic, and what a group does with it.
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

    /// A member, with the peer that it sends to.
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

/// The partitions that a line of the log names: `2 partitions: topic [0 3] …`.
fn named(line: &str) -> Vec<i32> {
    let list = line.split_once(" [").unwrap().1.split_once(']').unwrap().0;
    list.split(' ').map(|it| it.parse().unwrap()).collect()
}

/// The first member has all four partitions and a record of each that is not answered; the second has joined.
/// Gives both, the partitions that go to the second, and those that stay.
struct Revoked {
    first: (Flow, Peer),
    second: (Flow, Peer),
    go: Vec<i32>,
    stay: Vec<i32>,
}

fn revoked(group: &Members, keys: &str) -> Revoked {
    let first = group.member(keys);
    first.0.says("got 4 partitions");
    group.write(0..4, 0);
    group.commits(0..4, 1);
    first.1.hold(|line| parse(line).1 == 1);
    group.write(0..4, 1);
    first.1.comes("one of each", |lines| lines.len() == 8);
    let second = group.member(keys);
    let go = named(&first.0.says("go to other members"));
    assert_eq!(go.len(), 2);
    let stay = (0..4).filter(|it| !go.contains(it)).collect();
    Revoked { first, second, go, stay }
}

#[test]
fn a_revoked_partition_is_drained_and_committed_before_it_goes_and_the_others_do_not_wait() {
    let Some(group) = Members::new(4) else { return };
    let Revoked { first, second, go, stay } = revoked(&group, "drain_timeout: 4m");
    // Those that go are still under way.
    let held = go.clone();
    first.1.hold(move |line| parse(line).1 == 1 && held.contains(&parse(line).0));
    group.write(0..4, 2);
    for partition in &stay {
        first
            .1
            .comes("the next of those that stay", |lines| numbers(lines, *partition) == [0, 1, 2]);
    }
    for partition in &go {
        assert_eq!(group.kafka.committed(&group.group, &group.topic, *partition), Some(1));
        assert_eq!(numbers(&first.1.came(), *partition), [0, 1], "nothing more is read of it");
    }
    assert!(second.1.came().is_empty() && !second.0.log().contains("got 2 partitions"));
    first.1.release();
    second.0.says("got 2 partitions");
    group.commits(0..4, 3);
    for partition in go {
        assert_eq!(numbers(&first.1.came(), partition), [0, 1]);
        assert_eq!(numbers(&second.1.came(), partition), [2], "it comes once");
    }
    for partition in stay {
        assert_eq!(numbers(&first.1.came(), partition), [0, 1, 2]);
    }
    for (flow, _) in [first, second] {
        let (status, log) = flow.stop();
        assert!(status.success() && !log.contains("WARN"), "{log}");
    }
}

#[test]
fn after_its_deadline_a_partition_goes_undrained_and_what_is_acknowledged_late_is_not_committed() {
    let Some(group) = Members::new(4) else { return };
    let Revoked { first, second, go, stay } = revoked(&group, "drain_timeout: 500ms");
    let held = go.clone();
    first.1.hold(move |line| held.contains(&parse(line).0));
    first.0.says("longer than `drain_timeout`");
    // What was not acknowledged comes again, to the member that has it now.
    group.write(0..4, 2);
    group.commits(0..4, 3);
    for partition in &go {
        assert_eq!(numbers(&second.1.came(), *partition), [1, 2]);
    }
    first.1.release();
    // Late: the first member has answered for its records, and has committed since.
    group.write(stay.iter().copied(), 3);
    group.commits(stay, 4);
    for partition in go {
        assert!(numbers(&first.1.answered(), partition).contains(&1));
        assert_eq!(group.kafka.committed(&group.group, &group.topic, partition), Some(3));
    }
}

#[test]
fn a_member_that_is_paused_beyond_its_session_loses_its_partitions_and_commits_nothing_of_them() {
    let Some(group) = Members::new(4) else { return };
    let (first, peer) = group.member("");
    first.says("got 4 partitions");
    group.write(0..4, 0);
    group.commits(0..4, 1);
    peer.hold(|line| parse(line).1 == 1);
    group.write(0..4, 1);
    peer.comes("one of each", |lines| lines.len() == 8);
    first.signal("STOP");
    let (second, other) = group.member("");
    second.says("got 4 partitions");
    group.write(0..4, 2);
    group.commits(0..4, 3);
    // What it holds is answered while it does not run, and all of it is committed by another.
    peer.release();
    first.signal("CONT");
    first.says("lost 4 partitions");
    first.says("got 2 partitions");
    for partition in 0..4 {
        let committed = group.kafka.committed(&group.group, &group.topic, partition);
        assert_eq!(committed, Some(3), "partition {partition}\n{}", first.log());
    }
    group.write(0..4, 3);
    group.commits(0..4, 4);
    let came = [peer.answered(), other.answered()].concat();
    for partition in 0..4 {
        let mut found = numbers(&came, partition);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [0, 1, 2, 3]);
    }
}

#[test]
fn the_partitions_of_a_killed_member_are_read_on_from_what_it_has_committed() {
    let Some(group) = Members::new(4) else { return };
    let (first, peer) = group.member("");
    first.says("got 4 partitions");
    let (second, other) = group.member("");
    second.says("got 2 partitions");
    group.write(0..4, 0);
    group.commits(0..4, 1);
    peer.hold(|_| true);
    group.write(0..4, 1);
    peer.comes("what it does not answer", |lines| lines.iter().any(|line| parse(line).1 == 1));
    first.kill();
    // Those of the killed member come again.
    group.write(0..4, 2);
    group.commits(0..4, 3);
    for partition in 0..4 {
        let found = numbers(&other.answered(), partition);
        assert!(found.ends_with(&[1, 2]), "partition {partition}: {found:?}");
    }
}

#[test]
fn processes_that_come_go_and_are_killed_lose_overtake_and_repeat_nothing_but_after_kills() {
    let Some(kafka) = kafka() else { return };
    let plan = Plan { changes: 8, within: Duration::MAX, rate: 1_200 };
    let report = changes::run(kafka, plan);
    eprintln!("{report}");
    assert!(report.is_good(), "{report}");
    assert!(report.kills > 0);
}
