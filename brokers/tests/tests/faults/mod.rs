//! Tests of faults that flows survive without loss. The tests are the same for Kafka and NATS.

mod kafka;
mod nats;

use std::{ops::Range, thread, time::Duration};

use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    kafka::Kafka,
    lines::{Lines, have_all, have_all_in_order, line, long_line, numbers},
    nats::Nats,
    peer::Peer,
    proxy::{Proxy, Way},
    small_disk::SmallDisk,
};

/// A broker and the connectors for it.
pub(crate) trait System: Sized {
    /// Name and arguments for `cargo xtask broker`.
    const NAME: &'static str;
    const ARGUMENTS: &'static [&'static str] = &[];
    /// Text in the log of a connector that has lost its broker.
    const LOST: &'static str;
    /// Configurations of producers for the tests in which the broker or the network is silent.
    const PRODUCERS: &'static [&'static str];
    /// `true` if the first copies of the events are written in order.
    const IS_ORDERED: bool;

    /// Returns the broker that is shared by all tests that do not harm it.
    fn shared() -> Option<Self>;

    fn at(address: &str) -> Self;

    fn address(&self) -> String;

    /// Creates a stream for numbered events.
    fn make(&self, partitions: i32, replicas: i32) -> Stream;

    fn write(&self, stream: &Stream, numbers: Range<u64>);

    /// Returns the number of events in the stream, `None` while it has no leader.
    fn count(&self, stream: &Stream) -> Option<u64>;

    /// Returns the events in the stream, `None` while it has no leader.
    fn events(&self, stream: &Stream) -> Option<Vec<String>>;

    /// Returns the number of events before the first one that is not acknowledged by the consumers.
    fn acknowledged(&self, stream: &Stream) -> u64;

    /// Returns the node that leads the stream.
    fn leader(&self, stream: &Stream) -> Option<u32>;

    /// Returns whether both flows consume a part of the stream.
    fn is_divided(&self, stream: &Stream, flows: [&Flow; 2]) -> bool;

    /// Returns a source of the stream in the notation of a flow file.
    fn consumer(&self, stream: &Stream) -> String;

    /// Returns a sink to the stream, with a timeout of 2 s.
    fn producer(address: &str, stream: &Stream, keys: &str) -> String;

    /// Returns the number of times that a producer has given up events in flight because the broker did not answer.
    fn given_up(producer: &Flow) -> usize;

    /// Waits until the producer is in the state of a producer that has given up events.
    fn is_without_answer(_producer: &Flow) {}

    /// Waits until the producer is affected by a full disk, and stops the broker if it still runs.
    fn fills_disk(producer: &Flow, broker: &mut Broker);

    /// Returns the arguments for a broker that its clients reach at `address`, for example through a proxy.
    fn reached_at(_address: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A topic or a stream.
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) partitions: i32,
}

const STDOUT: &str = "{ type: stdio, codec: json, postprocessors: [lines] }";

fn start<S: System>(arguments: &[&str]) -> Option<(Broker, S)> {
    let broker = Broker::start(S::NAME, &[S::ARGUMENTS, arguments].concat())?;
    let system = S::at(broker.get("plain"));
    Some((broker, system))
}

fn run(input: &str, output: &str) -> Flow {
    let flow =
        format!("connectors:\n  input: {input}\n  output: {output}\nlinks: [input -> output]\n");
    Flow::run_in(tempfile::tempdir().unwrap(), &flow, &["--api", "127.0.0.1:0"])
}

fn acknowledges<S: System>(system: &S, stream: &Stream, count: u64, flow: &Flow) {
    eventually(format_args!("{count} events acknowledged\n{flow}"), || {
        (system.acknowledged(stream) >= count).then_some(())
    });
}

/// Waits until a producer gives up events more often than `before`.
fn gives_up<S: System>(producer: &Flow, before: usize) {
    eventually(format_args!("events without an answer\n{producer}"), || {
        (S::given_up(producer) > before).then_some(())
    });
    S::is_without_answer(producer);
}

/// Waits until the stream has all events with numbers below `count`.
fn has<S: System>(system: &S, stream: &Stream, count: u64, flow: &Flow) {
    let events = eventually(format_args!("{count} events\n{flow}"), || {
        system.count(stream).filter(|found| *found >= count)?;
        system.events(stream).filter(|events| have_all(events, count))
    });
    assert!(!S::IS_ORDERED || have_all_in_order(&events, count), "{}", flow.log());
}

/// Kills and pauses the broker of a consumer. The consumer reads every event.
fn broker_outage_costs_consumer_no_event<S: System>() {
    let Some((mut broker, system)) = start::<S>(&[]) else { return };
    let stream = system.make(2, 1);
    let running = run(&system.consumer(&stream), STDOUT);
    system.write(&stream, 0..100);
    acknowledges(&system, &stream, 100, &running);
    broker.order("kill 1");
    running.says(S::LOST);
    broker.order("start 1");
    system.write(&stream, 100..200);
    acknowledges(&system, &stream, 200, &running);
    broker.order("pause 1");
    // Wait longer than the session timeout of a group member, so that the broker removes the member when it continues.
    thread::sleep(Duration::from_secs(4));
    broker.order("resume 1");
    system.write(&stream, 200..300);
    acknowledges(&system, &stream, 300, &running);
    assert!(have_all(&running.out(), 300), "{}", running.log());
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

/// The number of events is larger than the limit of a consumer's events in flight, so a sink that keeps their tokens
/// would stop the consumer.
fn sink_that_gives_up_stops_no_consumer<S: System>() {
    const COUNT: u64 = 3_000;
    let Some(system) = S::shared() else { return };
    for (when_full, err) in
        [("drop_newest", ""), ("drop_oldest", ""), ("dead_letter", ", down/err -> rest")]
    {
        let stream = system.make(2, 1);
        let input = system.consumer(&stream);
        let file = "type: file, codec: json, postprocessors: [lines]";
        let flow = format!(
            "connectors:
  input: {input}
  output: {STDOUT}
  rest: {{ {file}, config: {{ path: rest, mode: append }} }}
  down:
    type: http_client
    codec: json
    queue: {{ max_events: 100, when_full: {when_full} }}
    config: {{ url: 'http://127.0.0.1:1/' }}
links: [input -> output, input -> down{err}]
"
        );
        let folder = tempfile::tempdir().unwrap();
        let running =
            Flow::run_in(folder, &flow, &["--api", "127.0.0.1:0", "--drain-timeout", "10s"]);
        system.write(&stream, 0..COUNT);
        eventually(format_args!("all events, {when_full}\n{running}"), || {
            have_all(&running.out(), COUNT).then_some(())
        });
        if err.is_empty() {
            acknowledges(&system, &stream, COUNT, &running);
        }
        let (status, log) = running.stop();
        assert!(status.success(), "{when_full}: {log}");
        acknowledged_by_now(&system, &stream, COUNT, &log);
    }
}

/// Waits until the broker shows that `count` events are acknowledged by a flow that has ended. `log` is its log.
fn acknowledged_by_now<S: System>(system: &S, stream: &Stream, count: u64, log: &str) {
    eventually(format_args!("{count} events acknowledged\n{log}"), || {
        (system.acknowledged(stream) >= count).then_some(())
    });
}

/// Kills a flow while an event has no answer. The next flow gets this event and all later ones.
fn killed_flow_leaves_events_to_next_flow<S: System>() {
    let Some(system) = S::shared() else { return };
    let (stream, peer) = (system.make(1, 1), Peer::new());
    peer.delay_answers(|it| it == line(5));
    let running = run(&system.consumer(&stream), &peer.sink());
    system.write(&stream, 0..5);
    acknowledges(&system, &stream, 5, &running);
    system.write(&stream, 5..20);
    peer.receives("the event without an answer", |lines| numbers(lines).contains(&5));
    running.kill();
    assert_eq!(system.acknowledged(&stream), 5);
    peer.answer_all();
    let running = run(&system.consumer(&stream), &peer.sink());
    acknowledges(&system, &stream, 20, &running);
    assert!(have_all(&peer.answered(), 20));
    running.stop();
}

/// Kills one of two flows that share a stream. The other flow gets the events that were not acknowledged.
fn killed_member_leaves_events_to_other_member<S: System>() {
    let Some(system) = S::shared() else { return };
    let (stream, [one, other]) = (system.make(2, 1), [Peer::new(), Peer::new()]);
    let [dies, lives] = [&one, &other].map(|peer| run(&system.consumer(&stream), &peer.sink()));
    eventually("both members", || system.is_divided(&stream, [&dies, &lives]).then_some(()));
    system.write(&stream, 0..10);
    acknowledges(&system, &stream, 10, &lives);
    one.delay_answers(|_| true);
    system.write(&stream, 10..100);
    for member in [&one, &other] {
        member.receives("an event of the second write", |lines| {
            numbers(lines).iter().any(|number| *number >= 10)
        });
    }
    dies.kill();
    acknowledges(&system, &stream, 100, &lives);
    let (others, first) = (other.answered(), one.answered());
    let first: Vec<_> = first.into_iter().filter(|it| (0..10).any(|n| *it == line(n))).collect();
    // The first 10 events were acknowledged before, so none of them is redelivered.
    let repeated = numbers(&others).iter().filter(|number| **number < 10).count() + first.len();
    assert_eq!(repeated, 10, "{}", lives.log());
    assert!(have_all(&[others, first].concat(), 100), "{}", lives.log());
    let (status, log) = lives.stop();
    assert!(status.success(), "{log}");
}

/// Kills the nodes that lead the streams of a flow: first the stream that it writes, then the stream that it reads. The
/// flow copies every event.
fn killed_leader_costs_no_event<S: System>() {
    let Some((mut broker, system)) = start::<S>(&["--nodes", "3"]) else { return };
    let mut copy = Copy::start(system);
    for to in [true, false] {
        let which = |copy: &Copy<S>| copy.system.leader(if to { &copy.to } else { &copy.from });
        let leader = eventually("a leader", || which(&copy));
        broker.order(&format!("kill {leader}"));
        copy.more();
        broker.order(&format!("start {leader}"));
        copy.more();
    }
    copy.stop();
}

/// A flow that copies events from one stream to another, in a cluster of three nodes.
pub(crate) struct Copy<S> {
    pub(crate) system: S,
    pub(crate) from: Stream,
    pub(crate) to: Stream,
    running: Flow,
    count: u64,
}

impl<S: System> Copy<S> {
    pub(crate) fn start(system: S) -> Self {
        let [from, to] = [system.make(1, 3), system.make(1, 3)];
        let running =
            run(&system.consumer(&from), &S::producer(&system.address(), &to, S::PRODUCERS[0]));
        let mut copy = Self { system, from, to, running, count: 0 };
        copy.more();
        copy
    }

    /// Writes events to the first stream, and waits until the second stream has all of them.
    pub(crate) fn more(&mut self) {
        self.system.write(&self.from, self.count..self.count + 500);
        self.count += 500;
        has(&self.system, &self.to, self.count, &self.running);
    }

    pub(crate) fn stop(self) -> String {
        acknowledges(&self.system, &self.from, self.count, &self.running);
        let (status, log) = self.running.stop();
        assert!(status.success(), "{log}");
        log
    }
}

/// Kills the broker of a producer. The producer writes every event after the broker has returned.
fn broker_outage_costs_producer_no_event<S: System>() {
    let Some((mut broker, system)) = start::<S>(&[]) else { return };
    let stream = system.make(1, 1);
    let mut lines = Lines::to(&S::producer(&system.address(), &stream, S::PRODUCERS[0]));
    lines.add((0..1_000).map(line));
    has(&system, &stream, 1_000, &lines.flow);
    broker.order("kill 1");
    lines.add((1_000..2_000).map(line));
    lines.flow.says(S::LOST);
    lines.flow.is("output", "connecting");
    broker.order("start 1");
    lines.add((2_000..3_000).map(line));
    recovers(&system, &stream, 3_000, lines);
}

/// Pauses the broker of a producer. The producer gives up the events in flight, and writes them again after the pause.
fn paused_broker_costs_producer_no_event<S: System>() {
    let Some((mut broker, system)) = start::<S>(&[]) else { return };
    for keys in S::PRODUCERS {
        let stream = system.make(1, 1);
        let mut lines = Lines::to(&S::producer(&system.address(), &stream, keys));
        lines.add((0..100).map(line));
        has(&system, &stream, 100, &lines.flow);
        broker.order("pause 1");
        lines.add((100..1_000).map(line));
        gives_up::<S>(&lines.flow, 0);
        broker.order("resume 1");
        recovers(&system, &stream, 1_000, lines);
    }
}

/// Delays, cuts and silences the network between a producer and its broker. The producer writes every event.
fn network_faults_cost_producer_no_event<S: System>() {
    let proxy = Proxy::new();
    let arguments = S::reached_at(&proxy.address());
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let Some((broker, system)) = start::<S>(&arguments) else { return };
    for keys in S::PRODUCERS {
        proxy.lead_to(broker.get("plain"));
        let stream = system.make(1, 1);
        let mut lines = Lines::to(&S::producer(&proxy.address(), &stream, keys));
        let mut count = 0;
        for round in 0..6 {
            lines.add((count..count + 1_000).map(line));
            count += 1_000;
            // Cut the network while events are in flight.
            eventually("some of the events", || {
                (system.count(&stream)? > round * 1_000).then_some(())
            });
            proxy.set(Way::Cut);
            proxy.set(if round == 3 { Way::Slow(20) } else { Way::Open });
        }
        has(&system, &stream, count, &lines.flow);
        for way in [Way::Cut, Way::Silent] {
            let before = S::given_up(&lines.flow);
            proxy.set(way);
            lines.add((count..count + 1_000).map(line));
            count += 1_000;
            gives_up::<S>(&lines.flow, before);
            proxy.set(Way::Cut);
            proxy.set(Way::Open);
            has(&system, &stream, count, &lines.flow);
        }
        recovers(&system, &stream, count, lines);
    }
}

/// Fills the disk of a producer's broker. The producer writes every event once the disk has space again.
fn full_disk_costs_producer_no_event<S: System>() {
    let Some(disk) = SmallDisk::new(48) else { return };
    let folder = tempfile::tempdir_in(disk.path()).unwrap();
    let Some(mut broker) = Broker::start_in(folder, S::NAME, S::ARGUMENTS) else { return };
    let system = S::at(broker.get("plain"));
    let stream = system.make(1, 1);
    let mut lines = Lines::to(&S::producer(&system.address(), &stream, S::PRODUCERS[0]));
    let add = |lines: &mut Lines, numbers: Range<u64>| {
        lines.add(numbers.map(|number| long_line(number, 30_000)));
    };
    add(&mut lines, 0..10);
    has(&system, &stream, 10, &lines.flow);
    add(&mut lines, 10..2_000);
    S::fills_disk(&lines.flow, &mut broker);
    disk.resize(256);
    broker.order("start 1");
    recovers(&system, &stream, 2_000, lines);
}

/// Waits until the stream has all events with numbers below `count`, and stops the flow. No event may be rejected.
fn recovers<S: System>(system: &S, stream: &Stream, count: u64, lines: Lines) {
    has(system, stream, count, &lines.flow);
    lines.flow.is("output", "running");
    assert!(lines.flow.out().is_empty(), "{:?}", lines.flow.out());
    lines.stop();
}

macro_rules! tests {
    ($module:ident, $system:ty, $($fault:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $fault() {
                    super::$fault::<$system>();
                }
            )*
        }
    };
}

macro_rules! tests_of_all {
    ($($fault:ident)*) => {
        tests! { of_kafka, super::Kafka, $($fault)* }
        tests! { of_nats, super::Nats, $($fault)* }
    };
}

tests_of_all! {
    broker_outage_costs_consumer_no_event
    killed_flow_leaves_events_to_next_flow
    sink_that_gives_up_stops_no_consumer
    killed_member_leaves_events_to_other_member
    killed_leader_costs_no_event
    broker_outage_costs_producer_no_event
    paused_broker_costs_producer_no_event
    network_faults_cost_producer_no_event
    full_disk_costs_producer_no_event
}
