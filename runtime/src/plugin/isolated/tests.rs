//! Tests of the runtime's side, with a test in the role of the process.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, Demand, Error, ErrorKind, Grant, Pull};

use super::{
    group::Group,
    link::{Link, Received},
    memory::{Memory, Writer},
    message::{Kind, MAX_BODY, Message, Parser, flags},
    process::Process,
    sink::IsolatedSink,
    source::IsolatedSource,
};
use crate::{
    dynamic::{DynSink, DynSource},
    plugin::{HostContext, Metric, MetricKind},
};

/// The process of a plugin, in whose role the test is.
struct Peer {
    socket: UnixStream,
    memory: Memory,
    parser: Parser,
    link: Arc<Link>,
}

impl Peer {
    fn new() -> Self {
        let (ours, socket) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let memory = Memory::new().unwrap();
        let other = Memory::of(memory.share().unwrap());
        // The process that the runtime kills. It ends by itself, because its standard input is empty.
        let child = Command::new("cat").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let host = HostContext::new("test", "", ());
        let link = Arc::new(Link::new(ours, memory, host, Group::new(child)));
        Self { socket, memory: other, parser: Parser::default(), link }
    }

    /// Returns the next message of the runtime.
    fn next(&mut self) -> Message {
        let mut buffer = [0; 1_024];
        loop {
            if let Some(message) = self.parser.next().unwrap() {
                return message;
            }
            let len = self.socket.read(&mut buffer).unwrap();
            self.parser.push(&buffer[..len]);
        }
    }

    fn send(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.socket.write_all(&bytes).unwrap();
        assert!(self.link.receive() == Received::All);
    }

    /// Writes a batch to a slot, and returns the length of its frame.
    fn write(&self, slot: u32, batch: &Batch) -> u64 {
        Writer::default().write(&self.memory, slot, batch).unwrap().unwrap()
    }
}

fn batch(messages: &[&str]) -> Batch {
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push_message(message.as_bytes()));
    batch
}

fn messages(batch: &Batch) -> Vec<&str> {
    let raw = |event| std::str::from_utf8(batch.raw(event).unwrap()).unwrap();
    batch.events().iter().map(raw).collect()
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn calls_are_answered_in_any_order_and_only_once() {
    let mut peer = Peer::new();
    let [mut first, mut second] =
        [Kind::TICK, Kind::FLUSH].map(|it| peer.link.call(Message::new(it)));
    let numbers = [peer.next(), peer.next()].map(|it| it.call);
    assert!(first.take().is_none());
    for call in [numbers[1], 77, 0, numbers[1]] {
        peer.send(&Message::answer(Kind::FLUSH, call));
    }
    assert_eq!(second.take().unwrap().unwrap().call, numbers[1]);
    assert!(first.take().is_none());
    peer.send(&Message::answer(Kind::TICK, numbers[0]).failed(&Error::full("no")));
    assert_eq!(first.take().unwrap().unwrap().check(), Err(Error::full("no")));
}

#[test]
fn end_of_the_process_fails_open_and_later_calls() {
    let peer = Peer::new();
    let mut open = peer.link.call(Message::new(Kind::TICK));
    peer.link.fail(Error::panicked("first"));
    peer.link.fail(Error::panicked("second"));
    let mut later = peer.link.call(Message::new(Kind::TICK));
    for call in [&mut open, &mut later] {
        assert_eq!(call.take().unwrap().unwrap_err(), Error::panicked("first"));
    }
}

#[test]
fn oversized_message_ends_the_process_with_a_reason() {
    let mut peer = Peer::new();
    let mut bytes = Vec::new();
    Message::new(Kind::LOG).write(&mut bytes);
    bytes[..4].copy_from_slice(&u32::try_from(MAX_BODY + 1).unwrap().to_le_bytes());
    peer.socket.write_all(&bytes).unwrap();
    assert!(peer.link.receive() == Received::Ended);
    let reason = peer.link.killed().unwrap();
    assert!(reason.message().contains("its process: a message has a body of 67108865"), "{reason}");
}

#[test]
fn random_messages_change_nothing_and_cause_no_panic() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut peer = Peer::new();
    let mut call = peer.link.call(Message::new(Kind::TICK));
    for _ in 0..5_000 {
        let body: Vec<u8> = (0..random.usize(..60)).map(|_| random.u8(..)).collect();
        let kind = Kind(random.u16(..80));
        let fields = [random.u64(..), random.u64(..4)];
        let message = Message {
            a: fields[0],
            b: fields[1],
            slot: random.u32(..),
            body,
            ..Message::new(kind)
        };
        peer.send(&message);
    }
    assert!(call.take().is_none());
    assert_eq!(peer.link.host.metrics().snapshot(), []);
    assert!(peer.link.killed().is_none());
}

#[test]
fn metrics_of_the_process_replace_those_before() {
    let mut peer = Peer::new();
    let counter = |name: &str, value: f64| {
        format!(
            r#"{{"kind":0,"name":"{name}","help":"","value":{value},"count":2,"min":1.0,"max":2.0}}"#
        )
    };
    for list in [[counter("a", 3.0), counter("b", 1.0)], [counter("a", 5.0), counter("b", -1.0)]] {
        peer.send(&Message::new(Kind::METRICS).text(&format!("[{}]", list.join(","))));
    }
    let values: Vec<_> = peer.link.host.metrics().snapshot();
    let values: Vec<_> = values.iter().map(|Metric { kind, value, .. }| (*kind, *value)).collect();
    assert_eq!(values, [(MetricKind::Counter, 5.0), (MetricKind::Counter, 1.0)]);
}

#[test]
fn pull_returns_events_and_outcome_of_the_answer() {
    let mut peer = Peer::new();
    let mut source = IsolatedSource::new(Process::of(peer.link.clone()), None);
    let mut pulled = Batch::new();
    pulled.set_limit(tremor_abi::batch::Limit { events: 3, bytes: 100 });
    pulled.set_pull(7);
    for (flags, b, expected) in [
        (0, 0, Pull::Events),
        (flags::IDLE, 5, Pull::Idle(std::time::Duration::from_nanos(5))),
        (flags::FINISHED, 0, Pull::Finished),
    ] {
        assert!(source.poll_pull(&mut context(), &mut pulled).is_pending());
        let Message { kind, call, a, b: limit, .. } = peer.next();
        assert_eq!((kind, a, limit), (Kind::PULL, 7, (3 << 32) + 100));
        let a = peer.write(0, &batch(&["a", "b"]));
        let answer = Message::answer(Kind::PULL, call);
        peer.send(&Message { flags: answer.flags | flags, a, b, ..answer });
        let Poll::Ready(outcome) = source.poll_pull(&mut context(), &mut pulled) else {
            panic!("the pull waits")
        };
        assert_eq!((outcome, messages(&pulled)), (Ok(expected), vec!["a", "b"]));
        assert_eq!((pulled.pull(), pulled.limit().events), (7, 3), "the batch keeps its limit");
        pulled.set_events(&[]);
    }
}

#[test]
fn mutated_frames_of_a_pull_are_errors_or_valid_batches() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut peer = Peer::new();
    let mut source = IsolatedSource::new(Process::of(peer.link.clone()), None);
    let mut events = Batch::new();
    (0..20).for_each(|number| events.push(&("key", number, [1.5, -2.0])).unwrap());
    let (len, mut errors) = (peer.write(0, &events), 0);
    let mut frame = vec![0; usize::try_from(len).unwrap()];
    let file = std::fs::File::from(peer.memory.share().unwrap());
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut frame, 0).unwrap();
    for _ in 0..3_000 {
        let mut mutated = frame.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..mutated.len());
            mutated[at] = random.u8(..);
        }
        let mut pulled = Batch::new();
        assert!(source.poll_pull(&mut context(), &mut pulled).is_pending());
        let call = peer.next().call;
        std::os::unix::fs::FileExt::write_all_at(&file, &mutated, 0).unwrap();
        peer.send(&Message { a: len, ..Message::answer(Kind::PULL, call) });
        match source.poll_pull(&mut context(), &mut pulled) {
            Poll::Ready(Ok(_)) => assert!(pulled.validate().is_ok(), "an invalid batch"),
            Poll::Ready(Err(error)) => {
                assert_eq!((error.kind(), pulled.len()), (ErrorKind::INTERNAL, 0), "{error}");
                errors += 1;
            }
            Poll::Pending => panic!("the pull waits"),
        }
    }
    assert!(errors > 500, "{errors}");
}

#[test]
fn cancelled_pull_returns_events_now_or_with_the_next_pull() {
    let mut peer = Peer::new();
    let mut source = IsolatedSource::new(Process::of(peer.link.clone()), None);
    let mut pulled = Batch::new();
    for is_late in [false, true] {
        assert!(source.poll_pull(&mut context(), &mut pulled).is_pending());
        let call = peer.next().call;
        let a = peer.write(0, &batch(&["a"]));
        let answer = Message { a, ..Message::answer(Kind::PULL, call) };
        if is_late {
            source.give_up(&mut pulled);
            assert!(pulled.is_empty());
            peer.send(&answer);
            assert!(source.poll_pull(&mut context(), &mut pulled).is_ready());
        } else {
            peer.send(&answer);
            source.give_up(&mut pulled);
        }
        assert_eq!(messages(&pulled), ["a"]);
        pulled.set_events(&[]);
        assert_eq!(peer.next().kind, Kind::GIVE_UP);
    }
}

/// Returns a sink with two slots.
fn sink(peer: &mut Peer) -> IsolatedSink {
    let mut sink = IsolatedSink::new(Process::of(peer.link.clone()), Demand::new());
    sink.on_grant(Grant::new(2, true, None));
    assert_eq!(peer.next().kind, Kind::GRANT);
    sink
}

#[test]
fn slot_waits_for_the_answer_of_its_cancelled_delivery() {
    let mut peer = Peer::new();
    let mut sink = sink(&mut peer);
    assert!(sink.poll_deliver(&mut context(), 1, &mut batch(&["a"])).is_pending());
    let first = peer.next();
    assert_eq!((first.kind, first.slot), (Kind::DELIVER, 2));
    sink.give_up(1);
    sink.give_up(1);
    assert_eq!((peer.next().kind, first.slot), (Kind::GIVE_UP, 2));
    let mut second = batch(&["b"]);
    assert!(sink.poll_deliver(&mut context(), 1, &mut second).is_pending());
    assert_eq!(messages(&peer.memory.read(2, first.a).unwrap().0), ["a"], "the slot is unchanged");
    peer.send(&Message::answer(Kind::DELIVER, first.call).failed(&Error::deferred("cancelled")));
    assert!(sink.poll_deliver(&mut context(), 1, &mut second).is_pending());
    let next = peer.next();
    assert_eq!(messages(&peer.memory.read(2, next.a).unwrap().0), ["b"]);
    peer.send(&Message::answer(Kind::DELIVER, next.call));
    let delivered = sink.poll_deliver(&mut context(), 1, &mut second);
    assert!(matches!(delivered, Poll::Ready(Ok(exceptions)) if exceptions.is_empty()));
}

#[test]
fn large_batch_is_sent_in_parts_with_positions_of_the_whole() {
    let mut peer = Peer::new();
    let mut sink = sink(&mut peer);
    let mut large = Batch::new();
    (0..70_000).for_each(|_| large.push_message(b"x"));
    let mut counts = Vec::new();
    let exceptions = loop {
        match sink.poll_deliver(&mut context(), 0, &mut large) {
            Poll::Ready(result) => break result.unwrap(),
            Poll::Pending => {
                let part = peer.next();
                counts.push(peer.memory.read(1, part.a).unwrap().0.len());
                let body = r#"[{"start":1,"len":2,"error":{"kind":5,"policy":2,"message":"no"}}]"#;
                peer.send(&Message::answer(Kind::DELIVER, part.call).text(body));
            }
        }
    };
    assert_eq!(counts, [65_535, 4_465]);
    let ranges: Vec<_> = exceptions.iter().map(|it| it.events.clone()).collect();
    assert_eq!(ranges, [1..3, 65_536..65_538]);
    assert_eq!(exceptions[0].error.kind(), ErrorKind::BAD_DATA);
}

#[test]
fn answer_with_ranges_outside_of_the_batch_is_an_error() {
    let mut peer = Peer::new();
    let mut sink = sink(&mut peer);
    let range = |start: u32, len: u32| {
        format!(r#"{{"start":{start},"len":{len},"error":{{"kind":5,"policy":2,"message":""}}}}"#)
    };
    for body in [
        format!("[{}]", range(0, 3)),
        format!("[{}]", range(u32::MAX, u32::MAX)),
        format!("[{},{}]", range(1, 1), range(0, 1)),
        "[{}]".to_owned(),
        "no JSON".to_owned(),
    ] {
        let mut events = batch(&["a", "b"]);
        assert!(sink.poll_deliver(&mut context(), 0, &mut events).is_pending());
        let call = peer.next().call;
        peer.send(&Message::answer(Kind::DELIVER, call).text(&body));
        match sink.poll_deliver(&mut context(), 0, &mut events) {
            Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::INTERNAL, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}
