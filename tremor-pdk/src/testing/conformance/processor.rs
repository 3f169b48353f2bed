//! Checks of preprocessors and postprocessors.

use std::time::Duration;

use super::{
    call::{direct, timed},
    construct::MANY,
    corpus,
    report::{Finding, Verdict, ensure, fault},
    subject::{Instance, Subject},
    transcript::Transcript,
};
use tremor_abi::batch::{HostBatch, HostOutput};

use crate::{Batch, Error, ErrorKind, Output, Postprocessor, Preprocessor, testing::TestHost};

const NO_STATIC: &str = "keep state in `self` and not in a static";

/// Maximum number of calls with which a preprocessor may process one batch.
const MORE: usize = 10_000;

/// Maximum number of calls of `on_time` in a row that a preprocessor may request with `due`.
const TIMES: usize = 100;

const REPORT_BUFFERED: &str = "return `true` from `buffers` while bytes of the stream are buffered: otherwise the pull that \
    read them is acknowledged, and a restart loses them";
const BUFFERS_METHOD: &str =
    "`Preprocessor::buffers`: returns whether bytes of a stream are buffered";

/// A preprocessor with its output.
struct Pre {
    host: TestHost,
    processor: Box<dyn Preprocessor>,
    transcript: Transcript,
    rejected: usize,
}

impl Pre {
    fn new(subject: &Subject) -> Verdict<Self> {
        let host = subject.host();
        match subject.instance(&host)? {
            Instance::Preprocessor(processor) => {
                Ok(Self { host, processor, transcript: Transcript::default(), rejected: 0 })
            }
            _ => Err(Finding::skip("this is not a preprocessor")),
        }
    }

    /// Processes a batch, and calls `process` with an empty batch while `has_more` returns `true`.
    fn process(&mut self, mut batch: Batch) -> Verdict {
        let mut output = Output::new();
        for _ in 0..MORE {
            let result = direct("process", || self.processor.process(&mut batch, &mut output))?;
            taken(&batch, &mut output, result.err().as_ref(), &mut self.rejected)?;
            self.transcript.add(&batch);
            if !timed("has_more", || self.processor.has_more())? {
                return Ok(());
            }
            batch = Batch::new();
        }
        let help = "return `false` from `has_more` once all input was processed";
        let seen = format!("after {MORE} calls with empty batches, `has_more` is still `true`");
        Err(fault(seen, help)
            .of("`Preprocessor::has_more`: the preprocessor keeps input for another call"))
    }

    /// Passes `bytes` to a stream, in fragments of `length` bytes, without ending the stream.
    fn feed(&mut self, stream: u64, bytes: &[u8], length: usize) -> Verdict {
        for part in bytes.chunks(length.max(1)) {
            let mut batch = Batch::new();
            batch.stream(stream).push_fragment(part);
            self.process(batch)?;
        }
        Ok(())
    }

    /// Advances the clock to the time of `due` and calls `on_time`, up to [`TIMES`] times. Checks that only streams
    /// with buffered bytes emit messages.
    fn pass_time(&mut self) -> Verdict {
        let contract = "`Preprocessor::due`: returns the time of the next call of `on_time`";
        for _ in 0..TIMES {
            let Some(due) = timed("due", || self.processor.due())? else { return Ok(()) };
            let wait = due.saturating_sub(self.host.monotonic_ns());
            self.host.advance(Duration::from_nanos(wait));
            let now = self.host.monotonic_ns();
            let is_buffered = self.processor.buffers(1);
            let (mut batch, mut output) = (Batch::new(), Output::new());
            let result =
                direct("on_time", || self.processor.on_time(now, &mut batch, &mut output))?;
            taken(&batch, &mut output, result.err().as_ref(), &mut self.rejected)?;
            let seen = || {
                "`on_time` emits a message of a stream for which `buffers` was `false`".to_owned()
            };
            ensure(batch.is_empty() || is_buffered, seen, REPORT_BUFFERED)
                .map_err(|finding| finding.of(BUFFERS_METHOD))?;
            self.transcript.add(&batch);
            if timed("has_more", || self.processor.has_more())? {
                self.process(Batch::new())?;
            }
            let next = self.processor.due();
            let seen = || format!("`on_time` was called at {now}, and {next:?} is due");
            let help = "return a later time from `due`, or `None`, once `on_time` was called";
            ensure(next.is_none_or(|next| next > now), seen, help)
                .map_err(|finding| finding.of(contract))?;
        }
        Ok(())
    }

    fn end(&mut self, stream: u64, aborts: bool) -> Verdict {
        let mut batch = Batch::new();
        if aborts {
            batch.stream(stream).abort();
        } else {
            batch.stream(stream).end();
        }
        self.process(batch)
    }
}

/// Counts rejected input, and checks that it was rejected as bad data or because of a lost connection.
fn taken(
    batch: &Batch,
    output: &mut Output,
    failed: Option<&Error>,
    rejected: &mut usize,
) -> Verdict {
    let help = "cut with `Batch::cut`, and do not edit the fields of events";
    batch.validate().map_err(|error| fault(format_args!("after `process`: {error}"), help))?;
    let all = output.take_rejected();
    output.clear();
    *rejected += all.len() + usize::from(failed.is_some());
    let mut errors = all.iter().map(|rejected| &rejected.error).chain(failed);
    let is_good = [ErrorKind::BAD_DATA, ErrorKind::CONNECTION_LOST];
    match errors.find(|error| !is_good.contains(&error.kind())) {
        None => Ok(()),
        Some(error) => {
            let kind = error.kind();
            let seen = format!("bytes are rejected with an error of the kind {kind}: {error}");
            Err(fault(seen, "reject bytes with `Error::bad_data`"))
        }
    }
}

/// Returns the byte streams of the suite, and the samples of the subject.
fn streams(subject: &Subject) -> Vec<Vec<u8>> {
    let mut streams = corpus::streams();
    streams.extend(subject.samples.iter().cloned());
    streams
}

pub(super) fn splits_do_not_matter(subject: &Subject) -> Verdict {
    for bytes in streams(subject) {
        let whole = run(subject, &bytes, bytes.len())?;
        for length in [1, 2, 3, 7, 64] {
            let split = run(subject, &bytes, length)?;
            let seen = |difference: &str| format!("with fragments of {length} bytes, {difference}");
            let help = "keep the bytes of an unfinished message, for each stream, until the \
                remaining bytes arrive";
            whole.transcript.expect(&split.transcript, seen, help)?;
        }
    }
    Ok(())
}

/// Processes a stream from its beginning to its end.
fn run(subject: &Subject, bytes: &[u8], length: usize) -> Verdict<Pre> {
    let mut pre = Pre::new(subject)?;
    pre.feed(1, bytes, length)?;
    pre.end(1, false)?;
    Ok(pre)
}

pub(super) fn keeps_streams_apart(subject: &Subject) -> Verdict {
    let streams = streams(subject);
    let mut expected = Transcript::default();
    for (stream, bytes) in (1..).zip(&streams) {
        let mut alone = Pre::new(subject)?;
        alone.feed(stream, bytes, 5)?;
        alone.end(stream, false)?;
        expected.streams.append(&mut alone.transcript.streams);
    }
    let mut together = Pre::new(subject)?;
    let longest = streams.iter().map(Vec::len).max().unwrap_or(0);
    for start in (0..longest).step_by(5) {
        for (stream, bytes) in (1..).zip(&streams) {
            let part = bytes.get(start..bytes.len().min(start + 5)).unwrap_or_default();
            together.feed(stream, part, 5)?;
        }
    }
    for (stream, _) in (1..).zip(&streams) {
        together.end(stream, false)?;
    }
    let seen = |difference: &str| format!("with interleaved streams, {difference}");
    let help = "keep a state for each stream: `Event::stream` is the stream of an event";
    expected.expect(&together.transcript, seen, help)
}

pub(super) fn ends_streams(subject: &Subject) -> Verdict {
    for bytes in streams(subject) {
        let ended = run(subject, &bytes, 5)?;
        let left = ended.processor.streams();
        let help = "drop the state of a stream that ended or was aborted";
        ensure(
            left.is_empty(),
            || format!("after the end of the only stream, `streams` has {left:?}"),
            help,
        )?;
        ensure(
            !ended.processor.buffers(1),
            || "after the end of a stream, its bytes are still buffered".to_owned(),
            help,
        )?;
        // At the end of a connection, the runtime ends only the streams that `streams` returns.
        let mut listed = Pre::new(subject)?;
        listed.feed(1, &bytes, 5)?;
        let streams = listed.processor.streams();
        let seen = || format!("bytes of stream 1 are buffered, but `streams` has {streams:?}");
        let help = "list in `streams` every stream that has begun and not ended, because the runtime ends these \
            streams";
        ensure(!listed.processor.buffers(1) || streams.contains(&1), seen, help)?;
        for stream in listed.processor.streams() {
            listed.end(stream, false)?;
        }
        let mut explicit = ended.transcript.clone();
        let mut by_list = listed.transcript.clone();
        explicit.forget_ends();
        by_list.forget_ends();
        let seen =
            |difference: &str| format!("if only the streams in `streams` are ended, {difference}");
        explicit.expect(&by_list, seen, help)?;
    }
    Ok(())
}

pub(super) fn aborts_streams(subject: &Subject) -> Verdict {
    let help = "drop the state of an aborted stream, and reject its buffered bytes";
    for bytes in streams(subject) {
        let mut aborted = Pre::new(subject)?;
        aborted.feed(1, &bytes, 5)?;
        aborted.end(1, true)?;
        let left = aborted.processor.streams();
        ensure(
            left.is_empty(),
            || format!("after a stream was aborted, `streams` has {left:?}"),
            help,
        )?;
        // A later stream with the same number must not be affected.
        aborted.transcript = Transcript::default();
        aborted.feed(1, &bytes, 5)?;
        aborted.end(1, false)?;
        let expected = run(subject, &bytes, 5)?;
        let seen = |difference: &str| {
            format!(
                "after a stream was aborted, in another stream with the same number, {difference}"
            )
        };
        expected.transcript.expect(&aborted.transcript, seen, help)?;
    }
    Ok(())
}

pub(super) fn reports_buffered_bytes(subject: &Subject) -> Verdict {
    for bytes in streams(subject) {
        let mut pre = Pre::new(subject)?;
        pre.feed(1, &bytes, 5)?;
        let (is_buffered, before) = (pre.processor.buffers(1), pre.transcript.clone());
        pre.end(1, false)?;
        pre.transcript.forget_ends();
        let items = |transcript: &Transcript| transcript.streams.get(&1).map_or(0, Vec::len);
        let emits = items(&pre.transcript) > items(&before);
        let seen =
            || "the end of a stream for which `buffers` was `false` emits a message".to_owned();
        ensure(is_buffered || !emits, seen, REPORT_BUFFERED)?;
    }
    Ok(())
}

pub(super) fn keeps_time(subject: &Subject) -> Verdict {
    for bytes in streams(subject) {
        let mut pre = Pre::new(subject)?;
        pre.feed(1, &bytes, 5)?;
        pre.pass_time()?;
        pre.feed(1, &bytes, 5)?;
        pre.end(1, false)?;
        let ended = pre.transcript.clone();
        pre.pass_time()?;
        let seen = |difference: &str| {
            format!("if time passes after the end of the only stream, {difference}")
        };
        ended.expect(&pre.transcript, seen, "drop the state of a stream that ended")?;
    }
    Ok(())
}

pub(super) fn refuses_hostile_bytes(subject: &Subject) -> Verdict {
    let mut pre = Pre::new(subject)?;
    for (stream, bytes) in (1..).zip(corpus::hostile_bytes()) {
        pre.feed(stream, &bytes, 1 << 16)?;
        let mut batch = Batch::new();
        batch.push_message(&bytes);
        pre.process(batch)?;
        pre.end(stream, stream % 2 == 0)?;
    }
    pre.process(Batch::new())
}

pub(super) fn shares_nothing(subject: &Subject) -> Verdict {
    for bytes in streams(subject) {
        let expected = run(subject, &bytes, 5)?;
        let mut all = (0..MANY).map(|_| Pre::new(subject)).collect::<Verdict<Vec<_>>>()?;
        for part in bytes.chunks(5) {
            all.iter_mut().try_for_each(|pre| pre.feed(1, part, 5))?;
        }
        for (position, pre) in all.iter_mut().enumerate() {
            pre.end(1, false)?;
            let seen =
                |difference: &str| format!("in instance {} of {MANY}, {difference}", position + 2);
            expected.transcript.expect(&pre.transcript, seen, NO_STATIC)?;
        }
    }
    Ok(())
}

/// A postprocessor with its output.
struct Post {
    processor: Box<dyn Postprocessor>,
    transcript: Transcript,
    rejected: usize,
}

impl Post {
    fn new(subject: &Subject) -> Verdict<Self> {
        match subject.instance(&subject.host())? {
            Instance::Postprocessor(processor) => {
                Ok(Self { processor, transcript: Transcript::default(), rejected: 0 })
            }
            _ => Err(Finding::skip("this is not a postprocessor")),
        }
    }

    /// Processes messages as one batch. Returns the number of resulting events, and the number of messages that were
    /// rejected or discarded on purpose.
    fn process(&mut self, messages: &[Vec<u8>]) -> Verdict<(usize, usize)> {
        let (mut batch, mut output) = (Batch::new(), Output::new());
        messages.iter().for_each(|message| batch.push_message(message));
        let result = direct("process", || self.processor.process(&mut batch, &mut output))?;
        let discarded = output.take_discarded();
        let before = self.rejected;
        taken(&batch, &mut output, result.err().as_ref(), &mut self.rejected)?;
        self.transcript.add(&batch);
        Ok((batch.len(), self.rejected - before + discarded))
    }
}

pub(super) fn frames(subject: &Subject) -> Verdict {
    let mut post = Post::new(subject)?;
    let messages = streams(subject);
    post.process(&[])?;
    for message in &messages {
        let (left, removed) = post.process(std::slice::from_ref(message))?;
        let seen =
            || format!("a message of {} bytes is neither in the batch nor rejected", message.len());
        let help = "leave every message in the batch, or pass it to `Output::reject_all` or `Output::discard`";
        ensure(left + removed > 0, seen, help)?;
    }
    let Some(suffix) = timed("suffix", || post.processor.suffix().map(<[u8]>::to_vec))? else {
        return Ok(());
    };
    let mut post = Post::new(subject)?;
    post.process(&messages)?;
    let mut expected = Transcript::default();
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push_message(&[message, &suffix[..]].concat()));
    expected.add(&batch);
    let seen = |difference: &str| {
        format!("`process` does not append `suffix` to every message: {difference}")
    };
    let help = "let `process` append `suffix`, or return `None` from `suffix`";
    let contract =
        "`Postprocessor::suffix`: returns the suffix if appending it is all that `process` does";
    expected.expect(&post.transcript, seen, help).map_err(|finding| finding.of(contract))
}

pub(super) fn takes_hostile_bytes(subject: &Subject) -> Verdict {
    let mut post = Post::new(subject)?;
    for bytes in corpus::hostile_bytes() {
        post.process(std::slice::from_ref(&bytes))?;
    }
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.stream(0).end();
    batch.stream(1).abort();
    let result = direct("process", || post.processor.process(&mut batch, &mut output))?;
    taken(&batch, &mut output, result.err().as_ref(), &mut post.rejected)
}

pub(super) fn post_shares_nothing(subject: &Subject) -> Verdict {
    let messages = streams(subject);
    let mut first = Post::new(subject)?;
    first.process(&messages)?;
    let mut all = (0..MANY).map(|_| Post::new(subject)).collect::<Verdict<Vec<_>>>()?;
    for (position, post) in all.iter_mut().enumerate() {
        post.process(&messages)?;
        let seen =
            |difference: &str| format!("in instance {} of {MANY}, {difference}", position + 2);
        first.transcript.expect(&post.transcript, seen, NO_STATIC)?;
    }
    Ok(())
}
