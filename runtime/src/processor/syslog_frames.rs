//! The preprocessor `syslog-frames`, which splits streams of syslog messages in all framings that senders use.

use tremor_pdk::{
    Component, ComponentContext, Found, Input, Result, StreamSplitter, units::MessageBytes,
};

use super::max_length;

/// Splits byte streams into syslog messages. The framing of each message is detected: a message that follows its length
/// in decimal digits and a space (octet counting), or one that ends with a line feed, with or without a carriage return,
/// or with NUL. Empty messages are skipped.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Maximum length of a message in bytes. Longer messages go to `err`.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
}

/// Maximum number of digits of a length. Senders may pad lengths with zeros.
const MAX_DIGITS: usize = 10;

/// Maximum length that is taken for one. A larger number is text, as in rsyslog.
const MAX_COUNT: usize = 200_000_000;

/// The preprocessor `syslog-frames`.
pub(crate) struct SyslogFrames {
    max_length: usize,
}

impl Component for SyslogFrames {
    const NAME: &str = "syslog-frames";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { max_length: config.max_length.get() })
    }
}

/// The framing of the message at the beginning of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// The message has `length` bytes and begins at `start`.
    Counted { start: usize, length: usize },
    /// The message ends with a delimiter.
    Delimited,
    /// More bytes are needed.
    Unknown,
}

impl Framing {
    /// Detects octet counting (RFC 6587, section 3.4.1). A number is a length only if a space and the `<` of a priority
    /// follow it, because messages without a priority may begin with a number, such as the year of their time.
    fn of(input: &[u8]) -> Self {
        // The number of bytes to check is bounded, because each fragment of a message is checked from its beginning.
        let digits = input.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        if digits == 0 || digits > MAX_DIGITS {
            return Self::Delimited;
        }
        match &input[digits..] {
            [] | [b' '] => return Self::Unknown,
            [b' ', b'<', ..] => {}
            _ => return Self::Delimited,
        }
        let add = |sum: usize, digit: &u8| sum * 10 + usize::from(digit - b'0');
        match input[..digits].iter().fold(0, add) {
            length @ 1..=MAX_COUNT => Self::Counted { start: digits + 1, length },
            _ => Self::Delimited,
        }
    }
}

/// Returns whether the byte separates messages. Senders also put one after a message with a length.
const fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0)
}

impl StreamSplitter for SyslogFrames {
    type State = ();

    #[inline]
    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        if !input.is_truncated() {
            let delimiters = input.iter().take_while(|byte| is_delimiter(**byte)).count();
            if delimiters > 0 {
                return Ok(Found::Skip(delimiters));
            }
            match Framing::of(&input) {
                Framing::Counted { start, length } => {
                    return Ok(Found::message(start..start + length, start + length));
                }
                Framing::Unknown if !input.is_end() => return Ok(Found::More),
                Framing::Unknown | Framing::Delimited => {}
            }
        }
        let seen = input.seen();
        Ok(match memchr::memchr2(b'\n', 0, &input[seen..]) {
            Some(length) => {
                let end = seen + length;
                let has_return = input[end] == b'\n' && input[..end].ends_with(b"\r");
                Found::message(0..end - usize::from(has_return), end + 1)
            }
            None if input.is_end() => Found::message(0..input.len(), input.len()),
            None => Found::More,
        })
    }

    fn max_length(&self) -> usize {
        self.max_length
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::json;

    use super::{Framing, MAX_DIGITS};
    use crate::processor::testing::{cut_anywhere, pre, run};

    const NAME: &str = "syslog-frames";

    fn split(stream: &[u8], expected: &[&[u8]], errors: &[&str]) {
        cut_anywhere(
            stream,
            || pre(NAME, &json!({ "max_length": "1KiB" })),
            |found, rejected| {
                let text = String::from_utf8_lossy(stream);
                assert_eq!(found, expected, "{text:?}");
                assert_eq!(rejected, errors, "{text:?}");
            },
        );
    }

    #[test]
    fn framings_of_one_stream_may_differ() {
        split(
            b"<13>by line\n12 <13>counted\n<13>by line again\r\n<13>ended by NUL\x0010 <13>a\nb\0c\x009 <13>next \n",
            &[
                b"<13>by line",
                b"<13>counted\n",
                b"<13>by line again",
                b"<13>ended by NUL",
                b"<13>a\nb\0c\0",
                b"<13>next ",
            ],
            &[],
        );
    }

    #[test]
    fn number_is_a_length_only_before_a_priority() {
        for line in [
            "2024-10-11T22:14:15Z host app: text",
            "10:22:33 host app: text",
            "2024 was a good year",
            "12 monkeys",
            "12<13>text",
            "0 <13>text",
            "1000000000 <13>text",
            "99999999999999999999 <13>text",
            "12",
            "12 ",
        ] {
            split(line.as_bytes(), &[line.as_bytes()], &[]);
            split(format!("{line}\n7 <13>abc").as_bytes(), &[line.as_bytes(), b"<13>abc"], &[]);
        }
        split(b"007 <13>abc7 <13>abc", &[b"<13>abc", b"<13>abc"], &[]);
    }

    #[test]
    fn empty_messages_are_skipped() {
        split(b"\n\r\n\0<13>a\n\n\n5 <13>b\r\n\0\0", &[b"<13>a", b"<13>b"], &[]);
        split(b"\n\0\r", &[], &[]);
    }

    #[test]
    fn last_message_may_lack_its_delimiter() {
        split(b"<13>a\n<13>b", &[b"<13>a", b"<13>b"], &[]);
        let expected = "the stream ended within a message: 6 of 10 bytes were received";
        split(b"<13>a\n10 <13>bc", &[b"<13>a"], &[expected]);
    }

    #[test]
    fn digits_are_searched_for_a_length_only_at_their_start() {
        let mut digits = "7".repeat(1 << 20);
        assert_eq!(Framing::of(digits.as_bytes()), Framing::Delimited);
        digits.truncate(MAX_DIGITS);
        assert_eq!(Framing::of(digits.as_bytes()), Framing::Unknown);
        split("7".repeat(1_000).as_bytes(), &["7".repeat(1_000).as_bytes()], &[]);
    }

    #[test]
    fn stream_continues_after_too_long_message() {
        let long = "x".repeat(2_000);
        let stream = format!("<13>a\n2004 <13>{long}<13>b\n<13>{long}\n<13>c\n");
        let pre = || pre(NAME, &json!({ "max_length": "1KiB" }));
        cut_anywhere(stream.as_bytes(), pre, |found, rejected| {
            assert_eq!(found, [b"<13>a", b"<13>b", b"<13>c"]);
            assert_eq!(rejected.len(), 2, "{rejected:?}");
        });
    }

    /// A message, and the way in which it is framed.
    fn framed() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let text =
            prop_oneof!["[ -~]{0,12}".prop_map(String::into_bytes), vec(any::<u8>(), 0..12),];
        (text, 0..5_u8).prop_map(|(text, framing)| {
            let mut message = [&b"<13>"[..], &text].concat();
            if framing < 2 {
                let length = message.len();
                let end: &[u8] = if framing == 0 { b"" } else { b"\n" };
                let bytes = [format!("{length} ").as_bytes(), &message, end].concat();
                return (message, bytes);
            }
            message.retain(|byte| !b"\r\n\0".contains(byte));
            let end: &[u8] = [&b"\n"[..], b"\r\n", b"\0"][usize::from(framing) - 2];
            let bytes = [&message[..], end].concat();
            (message, bytes)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn interleaved_framings_are_read_as_written(
            all in vec(framed(), 0..8),
            size in 1..40_usize,
        ) {
            let (messages, bytes): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            let config = json!({});
            let (found, rejected) = run(&mut *pre(NAME, &config), &bytes.concat(), size);
            prop_assert_eq!((found, rejected), (messages, Vec::new()));
        }

        #[test]
        fn no_byte_of_any_stream_is_lost_or_invented(
            stream in vec(prop::sample::select(&b"019 <>a\r\n\0"[..]), 0..60),
            size in 1..20_usize,
        ) {
            let whole = run(&mut *pre(NAME, &json!({})), &stream, stream.len().max(1));
            let divided = run(&mut *pre(NAME, &json!({})), &stream, size);
            prop_assert_eq!(&whole, &divided);
        }
    }
}
