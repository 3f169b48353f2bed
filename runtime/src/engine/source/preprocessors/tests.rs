mod joining;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tremor_abi::batch::{Event, HostBatch, HostOutput};
use tremor_pdk::{
    Batch, Error, Found, Input, Output, Preprocessor, Splitter, StreamSplitter, WholeMessages,
    testing::TestHost,
};

use super::{MakePreprocessor, Next, Preprocessed, Preprocessors, StreamEnd, preprocess};
use crate::engine::tracking::token::{Ledger, Token};
use crate::processor::{Join, endless::Endless, pre};

/// The preprocessors of a source, with the state of its pulls.
struct Scene {
    chain: Preprocessors,
    ledger: Arc<Ledger>,
    /// Pulls that have ended. The value is `true` if the pull failed.
    ended: RefCell<BTreeMap<u64, bool>>,
    begun: BTreeSet<u64>,
}

impl Scene {
    fn new(names: &[(&str, Value)]) -> Self {
        let mut steps: Vec<Box<dyn Preprocessor>> =
            names.iter().map(|(name, config)| pre(name, config)).collect();
        steps.push(Box::new(Join::preprocessor(TestHost::new().context())));
        let (ledger, ended) = (Arc::default(), RefCell::default());
        Self { chain: Preprocessors::new(steps), ledger, ended, begun: BTreeSet::new() }
    }

    /// Pulls fragments of streams, delivers the resulting messages, and returns these messages.
    fn pull(&mut self, fragments: &[(u64, &[u8])]) -> Vec<String> {
        let pieces = self.pull_only(fragments);
        pieces.into_iter().flat_map(deliver).collect()
    }

    fn pull_only(&mut self, fragments: &[(u64, &[u8])]) -> Vec<Preprocessed> {
        let mut batch = Batch::new();
        for (stream, bytes) in fragments {
            match *bytes {
                b"END" => batch.stream(*stream).end(),
                b"ABORT" => batch.stream(*stream).abort(),
                bytes => batch.stream(*stream).push_fragment(bytes),
            }
        }
        self.push(batch);
        self.outputs()
    }

    fn push(&mut self, batch: Batch) {
        let pull = self.begun.last().map_or(1, |last| last + 1);
        self.begun.insert(pull);
        self.chain.push(batch, Some(Token::of(pull, &self.ledger)));
    }

    fn outputs(&mut self) -> Vec<Preprocessed> {
        let mut pieces = Vec::new();
        loop {
            match self.chain.next() {
                Next::Piece(piece) => pieces.push(piece),
                Next::More => {}
                Next::Nothing => return pieces,
            }
        }
    }

    fn end(&mut self, how: StreamEnd) -> Vec<String> {
        self.chain.end(how);
        self.outputs().into_iter().flat_map(deliver).collect()
    }

    /// Returns the pulls that have not ended.
    fn open(&self) -> Vec<u64> {
        let ended = self.ended();
        self.begun.iter().filter(|pull| !ended.contains_key(pull)).copied().collect()
    }

    fn failed(&self) -> Vec<u64> {
        self.ended().into_iter().filter(|(_, failed)| *failed).map(|(pull, _)| pull).collect()
    }

    fn ended(&self) -> BTreeMap<u64, bool> {
        let mut all = self.ended.borrow_mut();
        all.extend(self.ledger.take_ended().into_iter().map(|it| (it.pull, it.failed.is_some())));
        all.clone()
    }
}

/// Settles a piece of output. Returns its messages and rejected events as text.
fn deliver(piece: Preprocessed) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let batch = &piece.batch;
    let mut out: Vec<_> =
        batch.events().iter().filter_map(|event| batch.raw(event)).map(text).collect();
    out.extend(
        piece.rejected.iter().map(|it| format!("rejected {}", text(batch.original(&it.event)))),
    );
    piece.token.settle();
    out
}

fn lines() -> Scene {
    Scene::new(&[("lines", json!({}))])
}

#[test]
fn pull_stays_open_while_its_half_line_is_buffered() {
    let mut scene = lines();
    assert_eq!(scene.pull(&[(0, b"one\ntw")]), ["one"]);
    assert_eq!(scene.open(), [1]);
    assert!(scene.pull(&[(0, b"o")]).is_empty());
    assert_eq!(scene.open(), [1, 2]);
    assert_eq!(scene.pull(&[(0, b"\nthr")]), ["two"]);
    assert_eq!(scene.open(), [3]);
    assert_eq!(scene.end(StreamEnd::Complete), ["thr"]);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
}

#[test]
fn idle_half_line_does_not_delay_other_streams() {
    let mut scene = lines();
    scene.pull(&[(1, b"half")]);
    for _ in 0..3 {
        assert_eq!(scene.pull(&[(2, b"whole\n")]), ["whole"]);
        assert_eq!(scene.open(), [1]);
    }
    assert_eq!(scene.pull(&[(1, b" a line\n"), (2, b"more")]), ["half a line"]);
    assert_eq!(scene.open(), [5]);
}

#[test]
fn message_has_only_the_pulls_of_its_own_stream() {
    let mut scene = lines();
    assert!(scene.pull(&[(1, b"a")]).is_empty());
    assert!(scene.pull(&[(2, b"b")]).is_empty());
    drop(scene.pull_only(&[(2, b"b\n")]));
    assert_eq!((scene.open(), scene.failed()), (vec![1], vec![2, 3]));
}

#[test]
fn end_of_a_stream_ends_its_pulls() {
    let mut scene = lines();
    scene.pull(&[(7, b"last")]);
    assert_eq!(scene.pull(&[(7, b"END")]), ["last"]);
    assert!(scene.pull(&[(7, b"END")]).is_empty());
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
}

#[test]
fn cut_off_stream_is_rejected_and_not_joined_to_other_bytes() {
    for config in [json!({}), json!({ "max_length": 3 })] {
        let mut scene = Scene::new(&[("lines", config)]);
        scene.pull(&[(0, b"half")]);
        assert_eq!(scene.end(StreamEnd::Aborted), ["rejected half"]);
        assert_eq!(scene.open(), [] as [u64; 0]);
        assert_eq!(scene.pull(&[(0, b"new\n")]), ["new"]);
        scene.pull(&[(0, b"old")]);
        assert_eq!(scene.pull(&[(0, b"ABORT"), (0, b"new\n")]), ["new", "rejected old"]);
    }
}

#[test]
fn dropping_tokens_of_buffered_bytes_fails_their_pulls() {
    let mut scene = lines();
    scene.pull(&[(0, b"one\ntw")]);
    scene.pull(&[(1, b"whole\n")]);
    scene.chain.drop_tokens();
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![1]));
}

/// Returns a gzip member without compression, with one block for each text.
fn stored(texts: &[&str]) -> Vec<u8> {
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let mut checksum = flate2::Crc::new();
    for (position, text) in texts.iter().enumerate() {
        let length = u16::try_from(text.len()).unwrap();
        gzip.push(u8::from(position + 1 == texts.len()));
        gzip.extend(length.to_le_bytes());
        gzip.extend((!length).to_le_bytes());
        gzip.extend(text.as_bytes());
        checksum.update(text.as_bytes());
    }
    gzip.extend(checksum.sum().to_le_bytes());
    gzip.extend(checksum.amount().to_le_bytes());
    gzip
}

#[test]
fn pull_is_open_while_any_step_buffers_its_bytes() {
    let mut scene = Scene::new(&[("gzip", json!({})), ("lines", json!({}))]);
    let bytes = stored(&["one\nhal", "f\ntwo\n"]);
    let (first, second) = bytes.split_at(10 + 5 + 7);
    assert_eq!(scene.pull(&[(0, first)]), ["one"]);
    assert_eq!(scene.open(), [1], "`hal` waits for the end of its line, and gzip for its trailer");
    assert_eq!(scene.pull(&[(0, second)]), ["half", "two"]);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
    scene.pull(&[(0, &bytes[..12])]);
    assert_eq!(scene.open(), [3]);
    assert_eq!(scene.end(StreamEnd::Aborted), ["rejected "]);
    assert_eq!(scene.pull(&[(0, &bytes)]), ["one", "half", "two"]);
}

#[test]
fn half_line_of_one_of_500_streams_keeps_its_own_pull_open() {
    let mut scene = lines();
    let streams: Vec<(u64, &[u8])> = (0..500).map(|stream| (stream, &b"x"[..])).collect();
    assert!(scene.pull(&streams).is_empty());
    let ends: Vec<(u64, &[u8])> = (0..499).map(|stream| (stream, &b"\n"[..])).collect();
    assert_eq!(scene.pull(&ends).len(), 499);
    assert_eq!(scene.open(), [1], "one line is still buffered");
    assert_eq!(scene.pull(&[(499, b"\n")]), ["x"]);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
}

/// A preprocessor that outputs one byte per call.
#[derive(Default)]
struct Slowly(Vec<(u64, u8)>);

impl Preprocessor for Slowly {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> tremor_pdk::Result<()> {
        output.reject_all(batch.cut(|cutter| {
            let stream = cutter.event().stream;
            self.0.extend(cutter.payload().iter().map(|byte| (stream, *byte)));
        }));
        if !self.0.is_empty() {
            let (stream, byte) = self.0.remove(0);
            batch.stream(stream).push_message(&[byte]);
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.0.is_empty()
    }

    fn buffers(&self, stream: u64) -> bool {
        self.0.iter().any(|(other, _)| *other == stream)
    }

    fn streams(&self) -> Vec<u64> {
        self.0.iter().map(|(stream, _)| *stream).collect()
    }
}

#[test]
fn further_pieces_of_a_step_keep_their_pull_open() {
    let mut scene = lines();
    scene.chain =
        Preprocessors::new(vec![Box::new(Slowly::default()), Box::new(Slowly::default())]);
    let pieces = scene.pull_only(&[(1, b"ab"), (2, b"c")]);
    assert_eq!(pieces.len(), 3);
    let mut found = Vec::new();
    for piece in pieces {
        assert_eq!(scene.open(), [1]);
        found.extend(deliver(piece));
    }
    assert_eq!(found, ["a", "b", "c"]);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
}

/// In this test, a second stream of the pull has to wait until the first was output.
#[test]
fn pull_of_many_pieces_is_open_until_the_last() {
    let mut scene = Scene::new(&[("gzip", json!({})), ("lines", json!({}))]);
    let line = "x".repeat(1 << 20) + "\n";
    let mut gzip = Vec::new();
    let mut encoder = flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::best());
    (0..12).for_each(|_| std::io::Write::write_all(&mut encoder, line.as_bytes()).unwrap());
    encoder.finish().unwrap();
    let other = stored(&["other\n"]);
    let mut pieces = scene.pull_only(&[(1, &gzip), (2, &other)]).into_iter().peekable();
    let mut lengths = Vec::new();
    while let Some(piece) = pieces.next() {
        assert!(piece.batch.weight() < 3 * Batch::WEIGHT_AT_MOST, "{:?}", piece.batch);
        lengths.extend(deliver(piece).iter().map(String::len));
        // Every piece has its token by now. The tokens of pieces that are not delivered keep the pull open.
        assert_eq!(scene.open().is_empty(), pieces.peek().is_none());
    }
    assert_eq!(lengths, [[1 << 20; 12].as_slice(), &[5]].concat());
    assert_eq!(scene.failed(), [] as [u64; 0]);
}

/// Returns a zstd frame of zeros, which is one incomplete line.
fn zeros(bytes: usize) -> Vec<u8> {
    zstd::bulk::compress(&vec![0; bytes], 1).unwrap()
}

#[test]
fn endless_line_expands_one_step_per_round() {
    const BYTES: usize = 64 << 20;
    let mut scene = Scene::new(&[("decompress", json!({})), ("lines", json!({}))]);
    let bomb = zeros(BYTES);
    assert!(bomb.len() < 10_000, "{}", bomb.len());
    let mut batch = Batch::new();
    batch.stream(1).push_fragment(&bomb);
    scene.push(batch);
    let mut rounds = 1;
    while matches!(scene.chain.next(), Next::More) {
        rounds += 1;
    }
    // A round expands at most about the maximum weight of a batch.
    let least = BYTES / Batch::WEIGHT_AT_MOST;
    assert!((least..=least + 2).contains(&rounds), "{rounds}");
    assert!(!scene.chain.has_more());
    assert_eq!(scene.open(), [1], "the line has not ended");
}

#[test]
fn restarted_preprocessors_discard_input_and_fail_pulls() {
    let make =
        |name: &'static str| -> MakePreprocessor { Box::new(move || Ok(pre(name, &json!({})))) };
    let mut scene = lines();
    scene.chain = Preprocessors::restartable(
        ["decompress", "lines"].map(|name| (pre(name, &json!({})), make(name))),
    );
    let mut batch = Batch::new();
    batch.stream(1).push_fragment(&zeros(64 << 20));
    scene.push(batch);
    assert!(matches!(scene.chain.next(), Next::More));
    scene.chain.restart().unwrap();
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![1]));
    assert!(!scene.chain.has_more() && matches!(scene.chain.next(), Next::Nothing));
    assert!(scene.end(StreamEnd::Aborted).is_empty(), "no stream has begun");
    let next = zstd::bulk::compress(b"whole\n", 1).unwrap();
    assert_eq!(scene.pull(&[(1, &next)]), ["whole"]);
    assert_eq!(scene.open(), [] as [u64; 0]);
}

#[test]
fn preprocessor_with_endless_more_fails_its_pull_and_restarts() {
    let mut scene = lines();
    let make: MakePreprocessor = Box::new(|| Ok(pre("lines", &json!({}))));
    scene.chain = Preprocessors::restartable([(Box::new(Endless::default()) as _, make)]);
    let pieces = scene.pull_only(&[(1, b"lost\n")]);
    assert!(matches!(&pieces[..], [piece] if !piece.whole && piece.batch.is_empty()));
    // The engine does not settle the token of output from which events were lost.
    drop(pieces);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![1]));
    assert_eq!(scene.pull(&[(1, b"next\n")]), ["next"]);
    assert_eq!(scene.failed(), [1]);
}

/// A splitter that appends lines that begin with a space to the line before them. It waits at most one second for such
/// lines.
struct Traces;

impl StreamSplitter for Traces {
    type State = ();

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> tremor_pdk::Result<Found> {
        let mut lines = input.windows(2).enumerate();
        let next = lines.find(|(_, two)| two[0] == b'\n' && two[1] != b' ');
        Ok(match next {
            Some((end, _)) => Found::message(0..end, end + 1),
            None if input.is_end() => Found::message(0..input.len(), input.len()),
            None => Found::More,
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

fn traces(host: &TestHost) -> Scene {
    let mut scene = lines();
    let traces = Splitter::of(Traces, "traces", host.context());
    let join = Join::preprocessor(host.context());
    scene.chain = Preprocessors::new(vec![Box::new(traces), Box::new(join)]);
    scene
}

impl Scene {
    /// Advances the clock by `time`, and returns the messages that are delivered because of that.
    fn wait(&mut self, host: &TestHost, time: Duration) -> Vec<String> {
        host.advance(time);
        self.chain.push_time(host.monotonic_ns());
        self.outputs().into_iter().flat_map(deliver).collect()
    }
}

#[test]
fn message_by_timer_has_the_pulls_of_its_buffered_bytes() {
    let host = TestHost::new();
    let mut scene = traces(&host);
    assert!(scene.pull(&[(1, b"one\n")]).is_empty());
    assert!(scene.pull(&[(1, b" two\n"), (2, b"other")]).is_empty());
    assert!(scene.wait(&host, Duration::from_millis(500)).is_empty());
    assert!(scene.pull(&[(2, b" stream")]).is_empty());
    assert_eq!(scene.open(), [1, 2, 3]);
    assert_eq!(scene.wait(&host, Duration::from_millis(500)), ["one\n two\n"]);
    assert_eq!(scene.open(), [2, 3]);
    assert_eq!(scene.wait(&host, Duration::from_millis(500)), ["other stream"]);
    assert_eq!((scene.open(), scene.failed(), scene.chain.due()), (vec![], vec![], None));
}

/// A splitter that joins the lines that `lines` emits.
struct JoinedTraces;

impl StreamSplitter for JoinedTraces {
    type State = ();

    const WHOLE_MESSAGES: WholeMessages = WholeMessages::Join(b"\n");

    fn next(&mut self, state: &mut (), input: Input<'_>) -> tremor_pdk::Result<Found> {
        Traces.next(state, input)
    }
}

#[test]
fn rejection_of_earlier_step_keeps_pulls_of_later_step() {
    let mut scene = lines();
    let joined = Splitter::of(JoinedTraces, "traces", TestHost::new().context());
    let lines = pre("lines", &json!({ "max_length": 5 }));
    scene.chain = Preprocessors::new(vec![lines, Box::new(joined)]);
    assert!(scene.pull(&[(0, b"a\n")]).is_empty());
    assert_eq!(scene.pull(&[(0, b"too long\n b\n")]), ["rejected too long"]);
    assert_eq!(scene.open(), [1, 2], "`a` and ` b` are buffered");
    assert_eq!(scene.end(StreamEnd::Complete), ["a\n b\n"]);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
}

#[test]
fn end_of_streams_clears_the_timer() {
    for (how, expected) in [(StreamEnd::Complete, "one"), (StreamEnd::Aborted, "rejected one")] {
        let host = TestHost::new();
        let mut scene = traces(&host);
        assert!(scene.pull(&[(1, b"one")]).is_empty());
        assert!(scene.chain.due().is_some());
        assert_eq!(scene.end(how), [expected]);
        assert!(scene.wait(&host, Duration::from_secs(1)).is_empty());
        assert_eq!((scene.open(), scene.failed(), scene.chain.due()), (vec![], vec![], None));
    }
}

#[test]
fn failed_batch_is_rejected_except_for_ends_of_streams() {
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.stream(1).push_fragment(b"a");
    batch.stream(1).end();
    batch.stream(2).push_message(b"b");
    let failed = preprocess(("", ""), &mut batch, &mut output, |_, _| Err(Error::bad_data("no")));
    assert!(failed.is_some_and(|it| it.left_events && !it.has_panicked));
    assert!(batch.events().iter().all(Event::is_stream_end));
    assert_eq!(batch.len(), 1);
    let rejected = output.take_rejected();
    let rejected: Vec<_> = rejected.iter().map(|it| batch.original(&it.event)).collect();
    assert_eq!(rejected, [b"a", b"b"]);
}

/// A preprocessor that buffers all bytes. `!` makes it panic: another instance replaces it, which has no bytes.
#[derive(Default)]
struct Fragile(BTreeSet<u64>);

impl Preprocessor for Fragile {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> tremor_pdk::Result<()> {
        if batch.events().iter().any(|event| batch.raw(event) == Some(b"!")) {
            self.0.clear();
            return Err(Error::panicked("oh"));
        }
        self.0.extend(batch.events().iter().map(|event| event.stream));
        batch.retain(|_| false);
        Ok(())
    }

    fn buffers(&self, stream: u64) -> bool {
        self.0.contains(&stream)
    }

    fn streams(&self) -> Vec<u64> {
        self.0.iter().copied().collect()
    }
}

#[test]
fn panic_rejects_input_and_fails_pulls_of_all_buffered_bytes() {
    let mut scene = lines();
    scene.chain = Preprocessors::new(vec![Box::new(Fragile::default())]);
    let [piece] = &mut scene.pull_only(&[(1, b"!")])[..] else { panic!("one piece") };
    assert!(piece.whole && piece.rejected.len() == 1, "nothing was buffered");
    std::mem::replace(&mut piece.token, Token::untracked()).settle();
    assert_eq!(scene.failed(), Vec::<u64>::new());
    scene.pull(&[(1, b"a")]);
    scene.pull(&[(2, b"b")]);
    assert_eq!(scene.open(), [2, 3]);
    let pieces = scene.pull_only(&[(1, b"!")]);
    assert!(!pieces[0].whole && pieces[0].rejected.len() == 1);
    drop(pieces);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![2, 3, 4]));
}
