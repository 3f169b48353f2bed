//! Tests of splitters without a runtime: cuts, limits, memory and time.

#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::time::Duration;

use tremor_abi::batch::{HostBatch, HostOutput};

use super::{Found, Input, Splitter, StreamSplitter, WholeMessages};
use crate::{Batch, Error, Output, Preprocessor, Result, testing::TestHost};

const SECOND: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;

/// Joins a line and the following lines that begin with a space.
struct Traces {
    max_length: usize,
}

impl StreamSplitter for Traces {
    type State = ();
    const WHOLE_MESSAGES: WholeMessages = WholeMessages::Join(b"\n");

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        // If the input of the previous call ended with a line feed, the byte after it is new, so the line feed is
        // searched again.
        let mut start = input.seen().saturating_sub(1);
        while let Some(end) = input.find_from(start, b'\n') {
            if input.get(end + 1).is_some_and(|byte| *byte != b' ') {
                return Ok(Found::message(0..end, end + 1));
            }
            start = end + 1;
        }
        let whole = input.strip_suffix(b"\n").unwrap_or(&input).len();
        Ok(if input.is_end() { Found::message(0..whole, input.len()) } else { Found::More })
    }

    fn max_length(&self) -> usize {
        self.max_length
    }

    fn timeout(&self) -> Option<Duration> {
        Some(SECOND)
    }
}

/// Makes a message of every byte, with these exceptions:
///
/// - `!` is rejected, `?` fails the stream, and a space is skipped.
/// - `0` is an invalid message without length, and `9` is a rejected message of 9 bytes.
/// - `=` begins a message of two bytes with a separator of three bytes.
struct Bytes;

impl StreamSplitter for Bytes {
    type State = ();

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        Ok(match input[0] {
            b'!' => Found::Reject { len: 1, error: Error::bad_data("exclaims") },
            b'?' => return Err(Error::bad_data("asks")),
            b'0' => Found::message(0..0, 0),
            b'9' => Found::Reject { len: 9, error: Error::bad_data("is long") },
            b'=' => Found::message(0..2, 5),
            b' ' => Found::Skip(1),
            _ => Found::message(0..1, 1),
        })
    }
}

/// A splitter with its host.
struct Scene<T: StreamSplitter> {
    host: TestHost,
    splitter: Splitter<T>,
}

impl Scene<Traces> {
    fn traces(max_length: usize) -> Self {
        Self::of(Traces { max_length })
    }
}

impl<T: StreamSplitter> Scene<T> {
    fn of(splitter: T) -> Self {
        let host = TestHost::new();
        let splitter = Splitter::of(splitter, "double", host.context());
        Self { host, splitter }
    }

    /// Fills a batch with `fill`, splits all of its input, and returns the messages and errors.
    fn process(&mut self, fill: impl FnOnce(&mut Batch)) -> (Vec<String>, Vec<String>) {
        let mut batch = Batch::new();
        fill(&mut batch);
        let mut output = Output::new();
        self.splitter.process(&mut batch, &mut output).unwrap();
        let mut all = texts(&batch, &mut output);
        while self.splitter.has_more() {
            batch = Batch::new();
            self.splitter.process(&mut batch, &mut output).unwrap();
            let (messages, errors) = texts(&batch, &mut output);
            all.0.extend(messages);
            all.1.extend(errors);
        }
        all
    }

    fn feed(&mut self, stream: u64, text: &str) -> Vec<String> {
        let (messages, errors) =
            self.process(|batch| batch.stream(stream).push_fragment(text.as_bytes()));
        assert!(errors.is_empty(), "{errors:?}");
        messages
    }

    /// Advances the time, calls `on_time`, and returns the messages that it emits.
    fn wait(&mut self, time: Duration) -> Vec<String> {
        self.host.advance(time);
        let (mut batch, mut output) = (Batch::new(), Output::new());
        self.splitter.on_time(self.host.monotonic_ns(), &mut batch, &mut output).unwrap();
        let (messages, errors) = texts(&batch, &mut output);
        assert!(errors.is_empty(), "{errors:?}");
        messages
    }
}

fn texts(batch: &Batch, output: &mut Output) -> (Vec<String>, Vec<String>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let messages = batch.events().iter().filter_map(|event| batch.raw(event)).map(text).collect();
    let errors = output.take_rejected().iter().map(|rejected| rejected.error.to_string()).collect();
    (messages, errors)
}

#[test]
fn joined_message_is_followed_by_its_separator() {
    let mut scene = Scene::of(Bytes);
    assert!(scene.feed(1, "=ab").is_empty());
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.stream(1).push_fragment(b"cdx");
    scene.splitter.process(&mut batch, &mut output).unwrap();
    assert_eq!(texts(&batch, &mut output).0, ["=a", "x"]);
    let message = batch.get(0).unwrap().raw().unwrap();
    let start = message.as_ptr().addr() - batch.bytes().as_ptr().addr();
    assert_eq!(&batch.bytes()[start..start + 5], b"=abcd");
}

#[test]
fn stream_cut_anywhere_gives_the_same_messages() {
    let text = "one\n two\n\nthree\nfour\n five\n six";
    for size in 1..=text.len() {
        let mut scene = Scene::traces(100);
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            found.extend(scene.feed(7, std::str::from_utf8(piece).unwrap()));
        }
        assert!(scene.splitter.buffers(7));
        found.extend(scene.process(|batch| batch.stream(7).end()).0);
        assert_eq!(
            found,
            ["one\n two", "", "three", "four\n five\n six"],
            "in fragments of {size} bytes"
        );
        assert!(scene.splitter.streams().is_empty() && !scene.splitter.buffers(7));
    }
}

#[test]
fn message_within_a_fragment_is_not_copied() {
    let mut scene = Scene::traces(100);
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.stream(0).push_fragment(b"one\n two\nthree\n");
    let bytes = batch.bytes().as_ptr();
    scene.splitter.process(&mut batch, &mut output).unwrap();
    assert_eq!(batch.raw(&batch.events()[0]).unwrap().as_ptr(), bytes);
}

/// Splits messages with the positions 0, 1, … and returns the positions of the results.
fn positions<T: StreamSplitter>(
    splitter: T,
    messages: &[&str],
    add: impl Fn(&mut Batch, &[u8]),
) -> Vec<Option<usize>> {
    let (mut batch, mut output) = (Batch::new(), Output::new());
    for (position, message) in messages.iter().enumerate() {
        add(&mut batch, message.as_bytes());
        batch.events_mut().last_mut().unwrap().set_position(position);
    }
    Scene::of(splitter).splitter.process(&mut batch, &mut output).unwrap();
    batch.events().iter().map(tremor_abi::batch::Event::position).collect()
}

/// The failure of a message must not claim that an earlier event with a part of it was delivered.
#[test]
fn message_has_the_position_of_the_event_that_contains_it() {
    let fragments = |batch: &mut Batch, bytes: &[u8]| batch.stream(0).push_fragment(bytes);
    assert_eq!(
        positions(Bytes, &["ab", "c=d", "e--f", "g"], fragments),
        [Some(0), Some(0), Some(1), None, None, Some(3)]
    );
    let whole = |batch: &mut Batch, bytes: &[u8]| batch.stream(0).push_message(bytes);
    let traces = Traces { max_length: 100 };
    assert_eq!(positions(traces, &["one", " two", "three", "four"], whole), [None, None]);
}

#[test]
fn silent_stream_emits_its_last_message() {
    let mut scene = Scene::traces(100);
    assert_eq!(scene.splitter.due(), None);
    let start = scene.host.monotonic_ns();
    assert_eq!(scene.feed(1, "one\n two\n"), [""; 0]);
    assert_eq!(scene.splitter.due(), Some(start + SECOND_NS));
    assert_eq!(scene.wait(SECOND / 2), [""; 0]);
    assert_eq!(scene.feed(2, "other\n"), [""; 0]);
    assert_eq!(scene.wait(SECOND / 2), ["one\n two"]);
    assert!(!scene.splitter.buffers(1) && scene.splitter.buffers(2));
    assert_eq!(scene.splitter.due(), Some(start + SECOND_NS * 3 / 2));
    assert_eq!(scene.wait(SECOND), ["other"]);
    assert_eq!((scene.splitter.due(), scene.splitter.streams()), (None, Vec::new()));
}

#[test]
fn continued_stream_waits_for_the_timeout_again() {
    let mut scene = Scene::traces(100);
    scene.feed(1, "one\n");
    for _ in 0..10 {
        assert_eq!(scene.wait(SECOND * 3 / 4), [""; 0]);
        assert_eq!(scene.feed(1, " more\n"), [""; 0]);
    }
    assert_eq!(scene.wait(SECOND).len(), 1);
    assert_eq!(scene.splitter.due(), None);
}

#[test]
fn ended_and_aborted_streams_have_no_deadline() {
    let mut scene = Scene::traces(100);
    scene.feed(1, "one\n");
    scene.feed(2, "two\n");
    let (found, errors) = scene.process(|batch| {
        batch.stream(1).end();
        batch.stream(2).abort();
    });
    assert_eq!(found, ["one"]);
    let expected = "the stream was cut off within a message: 4 bytes of the message were received";
    assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    assert_eq!(scene.wait(SECOND), [""; 0]);
    assert_eq!((scene.splitter.due(), scene.splitter.streams()), (None, Vec::new()));
}

#[test]
fn whole_messages_are_joined() {
    let mut scene = Scene::traces(100);
    let (found, _) = scene.process(|batch| {
        for line in ["one", " two", "three", "", " four"] {
            batch.stream(3).push_message(line.as_bytes());
        }
    });
    assert_eq!(found, ["one\n two", "three"]);
    assert_eq!(scene.wait(SECOND), ["\n four"]);
}

#[test]
fn too_long_message_is_rejected_with_its_length() {
    let long = format!("{}\nfine\n", "x".repeat(300));
    for size in [1, 7, 64, 100, 1_000] {
        let mut scene = Scene::traces(20);
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for piece in long.as_bytes().chunks(size) {
            let all = scene.process(|batch| batch.stream(0).push_fragment(piece));
            found.extend(all.0);
            errors.extend(all.1);
        }
        found.extend(scene.process(|batch| batch.stream(0).end()).0);
        assert_eq!(found, ["fine"], "in fragments of {size} bytes");
        assert!(errors.len() == 1 && errors[0].contains("of 300 bytes"), "{size}: {errors:?}");
    }
}

#[test]
fn dead_letter_of_a_too_long_message_shows_its_beginning() {
    let mut scene = Scene::traces(1 << 20);
    scene.feed(0, &"x".repeat(3 << 20));
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.stream(0).push_fragment(b"\n");
    batch.stream(0).end();
    scene.splitter.process(&mut batch, &mut output).unwrap();
    let rejected = output.take_rejected();
    assert_eq!(batch.original(&rejected[0].event), "x".repeat(4 << 10).as_bytes());
    assert!(rejected[0].error.to_string().contains("3145728 bytes"), "{}", rejected[0].error);
}

/// Rejects every line.
struct Refusing;

impl StreamSplitter for Refusing {
    type State = ();

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        Ok(match input.find(b'\n') {
            Some(end) => Found::Reject { len: end + 1, error: Error::bad_data("refused") },
            None => Found::More,
        })
    }

    fn max_length(&self) -> usize {
        20
    }
}

#[test]
fn rejected_long_message_shows_its_beginning_and_length() {
    let line = format!("begin{}end\n", "x".repeat(291));
    for size in [1, 7, 64, 100, 1_000] {
        let mut scene = Scene::of(Refusing);
        let (mut shown, mut errors) = (Vec::new(), Vec::new());
        for piece in [&line, "next\n"].concat().as_bytes().chunks(size) {
            let (mut batch, mut output) = (Batch::new(), Output::new());
            batch.stream(0).push_fragment(piece);
            scene.splitter.process(&mut batch, &mut output).unwrap();
            for rejected in output.take_rejected() {
                shown.push(String::from_utf8_lossy(batch.original(&rejected.event)).into_owned());
                errors.push(rejected.error.to_string());
            }
        }
        assert_eq!(shown, [&line, "next\n"], "in fragments of {size} bytes");
        assert!(errors[0].contains("refused") && !errors[1].contains("bytes"), "{errors:?}");
        // Without a previous fragment, the splitter got the message as a whole.
        assert!(size == 1_000 || errors[0].contains("of 300 bytes"), "{size}: {errors:?}");
    }
}

#[test]
fn rejection_keeps_stream_and_error_ends_it() {
    let mut scene = Scene::of(Bytes);
    let (found, errors) = scene.process(|batch| batch.stream(0).push_fragment(b"a! b?c"));
    assert_eq!(
        (found, errors),
        (vec!["a".into(), "b".into()], vec!["exclaims".into(), "asks".into()])
    );
    let (found, errors) = scene.process(|batch| {
        batch.stream(0).push_fragment(b"d");
        batch.stream(0).end();
        batch.stream(0).push_fragment(b"e");
    });
    let lost = "3 bytes were not split into messages, because an earlier part of the stream could not be split";
    assert_eq!((found, errors), (vec!["e".into()], vec![lost.into()]));
}

#[test]
fn impossible_answer_fails_the_stream_and_not_the_process() {
    let (found, errors) = Scene::of(Bytes).process(|batch| batch.stream(0).push_message(b"a0b"));
    assert_eq!(found, ["a"]);
    assert!(errors.len() == 1 && errors[0].contains("the splitter answered"), "{errors:?}");

    let (_, errors) = Scene::of(Bytes).process(|batch| batch.stream(0).push_message(b"9"));
    let answer = "answered Reject { len: 9, error: is long } to 1 bytes";
    assert!(errors.len() == 1 && errors[0].contains(answer), "{errors:?}");
}

#[test]
fn missing_end_of_message_counts_its_separator() {
    let (found, errors) = Scene::of(Bytes).process(|batch| batch.stream(0).push_message(b"=a"));
    let missing = "the stream ended within a message: 2 of 5 bytes were received";
    assert_eq!((found, errors), (vec![], vec![missing.into()]));
}

#[test]
fn many_small_messages_are_split_into_light_batches() {
    let mut scene = Scene::of(Bytes);
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.stream(0).push_fragment(&vec![b'x'; 300_000]);
    let mut count = 0;
    loop {
        scene.splitter.process(&mut batch, &mut output).unwrap();
        assert!(batch.weight() < Batch::WEIGHT_AT_MOST + 400_000, "{}", batch.weight());
        count += batch.len();
        if !scene.splitter.has_more() {
            break;
        }
        batch = Batch::new();
    }
    assert_eq!(count, 300_000);
}

/// Buffers an incomplete message of each of `sizes`, in KiB, in a stream of its own. Returns the streams whose messages
/// were discarded.
fn discarded(scene: &mut Scene<Traces>, sizes: &[usize]) -> Vec<usize> {
    for (stream, size) in (0..).zip(sizes) {
        scene.feed(stream, &"x".repeat(size << 10));
    }
    let discarded = (0..sizes.len()).filter(|stream| {
        let (_, errors) = scene.process(|batch| batch.stream(*stream as u64).end());
        assert!(errors.iter().all(|error| error.contains("`--memory-limit`")), "{errors:?}");
        !errors.is_empty()
    });
    let discarded = discarded.collect();
    assert_eq!(scene.splitter.streams.buffers.used(), (0, 0));
    discarded
}

#[test]
fn stream_that_buffers_most_loses_its_message_for_memory() {
    let mut scene = Scene::traces(4 << 20);
    scene.host.set_memory_limit(1 << 20);
    assert_eq!(discarded(&mut scene, &[300, 600, 100, 200]), [1]);
    assert_eq!(discarded(&mut scene, &[100, 1_000, 100]), [1]);
    assert_eq!(discarded(&mut scene, &[1_000, 2_000, 3_000]), [1, 2]);
    assert!(scene.host.memory() <= 64 << 10, "a block is kept");
}

#[test]
fn single_stream_keeps_its_message_without_free_memory() {
    let mut scene = Scene::traces(4 << 20);
    scene.host.set_memory_limit(0);
    assert_eq!(discarded(&mut scene, &[4 << 10]), [0; 0]);
    assert_eq!(discarded(&mut scene, &[4 << 10, 1 << 10, 1]), [0, 1]);
}

#[test]
fn byte_is_found_from_any_position() {
    let bytes: Vec<u8> = (0..200).collect();
    for start in 0..200 {
        let input =
            Input { bytes: &bytes, seen: start, ending: super::Ending::Open, is_truncated: false };
        for byte in 0..=255_u8 {
            let expected = (usize::from(byte) >= start && byte < 200).then_some(byte.into());
            assert_eq!(input.find(byte), expected);
        }
    }
}
