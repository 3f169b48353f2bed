//! The processors `lines`, for messages that are lines, or that end with another character.

use serde::{Deserialize, Deserializer, de::Error};
use tremor_pdk::{
    Batch, Component, ComponentContext, Found, Input, Output, Postprocessor, Result,
    StreamSplitter, units::MessageBytes,
};

use super::max_length;

/// Splits byte streams at line feeds. A carriage return before the line feed is removed, and so is a UTF-8 signature at
/// the start of a stream or of a whole message. A last line without a line feed is a message, because the end of a
/// stream or of a whole message ends a line.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// ASCII character that ends a message, instead of a line feed. A carriage return before it is then kept.
    #[serde(default = "line_feed", deserialize_with = "ascii")]
    #[schemars(with = "char")]
    separator: u8,
    /// Maximum length of a line in bytes. Longer lines go to `err`.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
}

const fn line_feed() -> u8 {
    b'\n'
}

fn ascii<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err(D::Error::custom(format_args!("expected one ASCII character, found {text:?}"))),
    }
}

/// The preprocessor `lines`.
pub(crate) struct Lines {
    separator: u8,
    /// `true` if a carriage return before the separator is removed.
    strips_return: bool,
    max_length: usize,
}

impl Lines {
    /// Creates a splitter of lines of at most `max_length` bytes. If `strips_return` is set, the carriage return before a
    /// line feed is removed.
    pub(super) const fn of(max_length: usize, strips_return: bool) -> Self {
        Self { separator: b'\n', strips_return, max_length }
    }
}

impl Component for Lines {
    const NAME: &str = "lines";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let Config { separator, max_length } = config;
        Ok(Self { separator, strips_return: separator == b'\n', max_length: max_length.get() })
    }
}

/// State of a stream.
pub(crate) struct Line {
    /// `true` until the first line of the stream is complete, because the first line may begin with a UTF-8 signature.
    is_first: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self { is_first: true }
    }
}

impl StreamSplitter for Lines {
    type State = Line;

    #[inline]
    fn next(&mut self, line: &mut Line, input: Input<'_>) -> Result<Found> {
        const SIGNATURE: &[u8] = b"\xef\xbb\xbf";
        let seen = input.seen();
        let end = memchr::memchr(self.separator, &input[seen..]).map(|length| seen + length);
        if end.is_none() && !input.is_end() {
            return Ok(Found::More);
        }
        let is_first = std::mem::take(&mut line.is_first) && input.starts_with(SIGNATURE);
        let start = if is_first { SIGNATURE.len() } else { 0 };
        Ok(match end {
            Some(end) => {
                let has_return = self.strips_return && input[start..end].ends_with(b"\r");
                let stripped = end - usize::from(has_return);
                Found::message(start..stripped, end + 1)
            }
            None if start == input.len() => Found::Skip(start),
            None => Found::message(start..input.len(), input.len()),
        })
    }

    fn max_length(&self) -> usize {
        self.max_length
    }
}

/// Ends every message with a line feed.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct EndConfig {
    /// ASCII character that ends a message, instead of a line feed.
    #[serde(default = "line_feed", deserialize_with = "ascii")]
    #[schemars(with = "char")]
    separator: u8,
}

/// The postprocessor `lines`, which appends a line feed or another character to each message.
pub(crate) struct End([u8; 1]);

impl Component for End {
    const NAME: &str = "lines";
    type Config = EndConfig;

    fn new(config: EndConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self([config.separator]))
    }
}

impl Postprocessor for End {
    fn suffix(&self) -> Option<&[u8]> {
        Some(&self.0)
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.reject_all(batch.cut(|cutter| cutter.emit_followed(&self.0)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tremor_abi::batch::{HostBatch, HostOutput, Rejected};
    use tremor_pdk::{Batch, Component, Output, Preprocessor, Splitter, testing::TestHost};

    use super::Lines;
    use crate::processor::testing::{finish, process_all};

    type Split = Splitter<Lines>;

    fn lines(max_length: usize) -> Split {
        Splitter::of(Lines::of(max_length, true), Lines::NAME, TestHost::new().context())
    }

    fn process(lines: &mut Split, batch: &mut Batch) -> Vec<Rejected> {
        let mut output = Output::new();
        lines.process(batch, &mut output).unwrap();
        output.take_rejected()
    }

    fn messages(batch: &Batch) -> Vec<String> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        batch.events().iter().filter_map(|event| batch.raw(event)).map(text).collect()
    }

    fn run(lines: &mut Split, fragments: &[&[u8]]) -> (Vec<String>, Vec<Rejected>) {
        let (mut found, mut rejected) = (Vec::new(), Vec::new());
        for fragment in fragments {
            let mut batch = Batch::new();
            batch.stream(0).push_fragment(fragment);
            rejected.extend(process(lines, &mut batch));
            found.extend(messages(&batch));
        }
        let mut batch = Batch::new();
        let mut output = Output::new();
        finish(lines, &mut batch, &mut output);
        rejected.extend(output.take_rejected());
        found.extend(messages(&batch));
        (found, rejected)
    }

    #[test]
    fn stream_has_the_same_lines_in_any_fragments() {
        let text = b"one\ntwo\r\n\nthree\rstill three\nlast";
        let expected = ["one", "two", "", "three\rstill three", "last"];
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            let (found, rejected) = run(&mut lines(100), &pieces);
            assert_eq!(found, expected, "cut every {size} bytes");
            assert!(rejected.is_empty());
        }
    }

    #[test]
    fn other_separator_splits_and_keeps_line_ends() {
        let lines = Lines { separator: 0, strips_return: false, max_length: 100 };
        let mut lines = Splitter::of(lines, Lines::NAME, TestHost::new().context());
        let (found, _) = run(&mut lines, &[b"one\ntwo\r\0", b"\0th", b"ree\r\n"]);
        assert_eq!(found, ["one\ntwo\r", "", "three\r\n"]);
    }

    #[test]
    fn separator_is_one_ascii_character() {
        let read = |text: &str| serde_json::from_str::<super::EndConfig>(text);
        assert_eq!(read("{}").unwrap().separator, b'\n');
        assert_eq!(read(r#"{ "separator": "\u0000" }"#).unwrap().separator, 0);
        for text in ["", "ab", "é"] {
            let error = read(&format!("{{ \"separator\": {text:?} }}")).unwrap_err().to_string();
            assert!(error.starts_with("expected one ASCII character"), "{error}");
        }
    }

    #[test]
    fn utf8_signature_is_removed_again_after_an_aborted_stream() {
        let mut lines = lines(100);
        for _ in 0..2 {
            let mut batch = Batch::new();
            batch.stream(0).push_fragment("\u{feff}one\ntwo".as_bytes());
            assert!(process(&mut lines, &mut batch).is_empty());
            assert_eq!(messages(&batch), ["one"]);
            // If a source reads a stream again from its start, it first aborts the stream.
            let mut end = Batch::new();
            end.stream(0).abort();
            assert_eq!(process(&mut lines, &mut end).len(), 1, "the incomplete line");
        }
    }

    #[test]
    fn utf8_signature_is_removed_at_the_start_of_a_stream_only() {
        let text = "\u{feff}one\r\n\u{feff}two\nlast \u{feff}".as_bytes();
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            let (found, _) = run(&mut lines(100), &pieces);
            let expected = ["one", "\u{feff}two", "last \u{feff}"];
            assert_eq!(found, expected, "cut every {size} bytes");
        }
        for (text, expected) in [
            ("\u{feff}", &[][..]),
            ("\u{feff}\n", &[""]),
            ("\u{feff}\r\na", &["", "a"]),
            ("\u{feff}one", &["one"]),
            ("\u{feff}\u{feff}one", &["\u{feff}one"]),
        ] {
            for size in 1..=text.len() {
                let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                assert_eq!(run(&mut lines(100), &pieces).0, expected, "{text:?} by {size} bytes");
            }
            let mut batch = Batch::new();
            batch.push_message(text.as_bytes());
            assert!(process(&mut lines(100), &mut batch).is_empty());
            assert_eq!(messages(&batch), expected, "{text:?} as a whole message");
        }
    }

    #[test]
    fn streams_do_not_mix() {
        let mut lines = lines(100);
        let mut batch = Batch::new();
        batch.stream(1).push_fragment(b"a");
        batch.stream(2).push_fragment(b"b");
        batch.stream(1).push_fragment(b"a\n");
        batch.stream(2).end();
        assert!(process(&mut lines, &mut batch).is_empty());
        assert_eq!(messages(&batch), ["aa", "b"]);
    }

    #[test]
    fn whole_message_ends_its_last_line() {
        let mut lines = lines(100);
        let mut batch = Batch::new();
        batch.push_message(b"a\nb");
        batch.push_message(b"c");
        assert!(process(&mut lines, &mut batch).is_empty());
        assert_eq!(messages(&batch), ["a", "b", "c"]);
    }

    #[test]
    fn line_above_the_limit_is_rejected_with_its_length() {
        for size in [3, 7, 100] {
            let text = [b"ok\n".as_slice(), &[b'x'; 21], b"\nfine\n"].concat();
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            let (found, rejected) = run(&mut lines(20), &pieces);
            assert_eq!(found, ["ok", "fine"], "cut every {size} bytes");
            let [rejected] = &rejected[..] else { panic!("expected one, not {rejected:?}") };
            assert!(rejected.error.to_string().contains("21 bytes"), "{}", rejected.error);
        }
    }

    #[test]
    fn rejected_huge_line_keeps_4_kib() {
        let mut lines = lines(1 << 20);
        let mut batch = Batch::new();
        batch.stream(0).push_fragment(&vec![b'x'; 3 << 20]);
        assert!(process(&mut lines, &mut batch).is_empty());
        let mut rest = Batch::new();
        rest.stream(0).push_fragment(b"x\n");
        let rejected = process(&mut lines, &mut rest);
        assert_eq!(rest.original(&rejected[0].event).len(), 4 << 10);
        assert!(rejected[0].error.to_string().contains("3145729 bytes"));
    }

    #[test]
    fn many_empty_lines_leave_in_light_batches() {
        let mut batch = Batch::new();
        batch.stream(0).push_fragment("\n".repeat(300_000).as_bytes());
        batch.stream(0).push_fragment(b"last\n");
        let (batches, rejected) = process_all(&mut lines(100), batch);
        assert!(rejected.is_empty() && batches.len() > 5);
        assert!(batches.iter().all(|batch| batch.weight() < Batch::WEIGHT_AT_MOST + 400_000));
        assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), 300_001);
        assert_eq!(messages(batches.last().unwrap()).last().unwrap(), "last");
    }

    #[test]
    fn incomplete_lines_of_all_streams_share_one_limit() {
        let mut lines = lines(40 << 20);
        let mut rejected = Vec::new();
        for stream in 0..60 {
            let mut batch = Batch::new();
            batch.stream(stream).push_fragment(&vec![b'x'; 1 << 20]);
            rejected.extend(process(&mut lines, &mut batch));
        }
        assert!(rejected.is_empty());
        let mut ends = Batch::new();
        (0..60).for_each(|stream| ends.stream(stream).end());
        let (batches, rejected) = process_all(&mut lines, ends);
        let whole: Vec<_> = batches.iter().flat_map(messages).collect();
        assert_eq!((whole.len(), rejected.len()), (40, 20));
        assert!(whole.iter().all(|line| line.len() == 1 << 20));
        assert!(batches.iter().all(|batch| batch.weight() < Batch::WEIGHT_AT_MOST + (2 << 20)));
        let expected = "the unfinished messages of all streams had reached their limit";
        assert!(rejected[0].contains(expected), "{}", rejected[0]);
    }
}
