//! Test cases for RFC 6455: groups 1 to 7 of the Autobahn test suite, with Autobahn's numbers. The
//! tests of both connectors send each case with one write and byte by byte.
//!
//! Frames with an unexpected or a missing mask, and messages that are too long, are not included,
//! because they differ between client and server. The tests of the connectors cover them. Groups 9
//! (measures durations), 12 and 13 (compression) do not apply.

const FIN: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Frames that a peer sends, and the expected results.
pub(crate) struct Case {
    /// Numbers in Autobahn, and a description.
    pub(crate) name: String,
    frames: Vec<Frame>,
    /// Expected events.
    pub(crate) messages: Vec<Vec<u8>>,
    /// Expected pongs. A pong may be missing if a later pong is sent.
    pub(crate) pongs: Vec<Vec<u8>>,
    /// Expected code of the close frame; `None` if the frame has no code.
    pub(crate) code: Option<u16>,
    /// `true` if the stream is expected to be aborted; `false` if it is expected to end.
    pub(crate) is_cut_off: bool,
}

struct Frame {
    first: u8,
    payload: Vec<u8>,
}

impl Frame {
    /// Encodes the frame with the shortest length form, masked if `mask` is set.
    fn bytes(&self, mask: Option<[u8; 4]>) -> Vec<u8> {
        let (mut bytes, length) = (vec![self.first], self.payload.len());
        let masked = if mask.is_some() { 0x80 } else { 0 };
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(length @ 0..126), _) => bytes.push(masked | length),
            (_, Ok(length)) => {
                bytes.push(masked | 0x7e);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
            _ => {
                bytes.push(masked | 0x7f);
                bytes.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        bytes.extend(mask.into_iter().flatten());
        let mask = mask.unwrap_or_default().into_iter().cycle();
        bytes.extend(self.payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
        bytes
    }
}

fn frame(first: u8, payload: impl AsRef<[u8]>) -> Frame {
    Frame { first, payload: payload.as_ref().to_vec() }
}

fn close(code: u16, reason: impl AsRef<[u8]>) -> Frame {
    frame(FIN | CLOSE, [&code.to_be_bytes(), reason.as_ref()].concat())
}

/// Returns a message in which each byte is a fragment.
fn scattered(opcode: u8, message: &[u8]) -> Vec<Frame> {
    let last = message.len().saturating_sub(1);
    let fragments = message.iter().enumerate().map(|(at, byte)| {
        let opcode = if at == 0 { opcode } else { CONTINUATION };
        frame(if at == last { FIN | opcode } else { opcode }, [*byte])
    });
    fragments.collect()
}

impl Case {
    fn new(name: impl Into<String>, frames: Vec<Frame>) -> Self {
        let (messages, pongs) = Default::default();
        let name = name.into();
        Self { name, frames, messages, pongs, code: Some(1000), is_cut_off: false }
    }

    fn delivering(mut self, message: impl AsRef<[u8]>) -> Self {
        self.messages.push(message.as_ref().to_vec());
        self
    }

    fn answered(mut self, pong: impl AsRef<[u8]>) -> Self {
        self.pongs.push(pong.as_ref().to_vec());
        self
    }

    /// Expects that the connection is rejected with `code`.
    fn refused(self, code: u16) -> Self {
        Self { code: Some(code), is_cut_off: true, ..self }
    }

    /// Returns the bytes of all frames, with this mask. Appends a close frame if the case is valid
    /// and has none.
    pub(crate) fn bytes(&self, mask: Option<[u8; 4]>) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.frames.iter().flat_map(|it| it.bytes(mask)).collect();
        let is_closed = self.frames.iter().any(|it| it.first & 0x0f == CLOSE);
        if !is_closed && !self.is_cut_off {
            bytes.extend(close(1000, "").bytes(mask));
        }
        bytes
    }
}

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    [lengths(), pings(), reserved(), fragments(), texts(), closes()].into_iter().flatten().collect()
}

/// Group 1: messages whose lengths are around those at which the encoding of the length changes.
fn lengths() -> Vec<Case> {
    let mut cases = Vec::new();
    for (group, opcode) in [("1.1", TEXT), ("1.2", BINARY)] {
        for (number, length) in (1..).zip([0, 125, 126, 127, 128, 65_535, 65_536]) {
            let payload = vec![if opcode == TEXT { b'*' } else { 0xfe }; length];
            let name = format!("{group}.{number}: a message of {length} bytes");
            cases.push(Case::new(name, vec![frame(FIN | opcode, &payload)]).delivering(payload));
        }
    }
    cases
}

/// Group 2: pings and pongs.
fn pings() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, payload) in [
        ("2.1: a ping without a payload", &b""[..]),
        ("2.2: a ping with text", b"Hello, world!"),
        ("2.3: a ping with bytes that are not text", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"),
        ("2.4 and 2.6: a ping of 125 bytes", &[0xfe; 125]),
    ] {
        cases.push(Case::new(name, vec![frame(FIN | PING, payload)]).answered(payload));
    }
    let pong = || frame(FIN | PONG, "unsolicited");
    cases.push(
        Case::new("2.5: a ping of 126 bytes", vec![frame(FIN | PING, [0xfe; 126])]).refused(1002),
    );
    cases.push(Case::new("2.7: an unsolicited pong", vec![frame(FIN | PONG, "")]));
    cases.push(Case::new("2.8: an unsolicited pong with a payload", vec![pong()]));
    cases.push(
        Case::new("2.9: an unsolicited pong, and a ping", vec![pong(), frame(FIN | PING, "ping")])
            .answered("ping"),
    );
    let numbers = (0..10).map(|number| format!("payload-{number}"));
    let pings = numbers.clone().map(|payload| frame(FIN | PING, payload)).collect();
    let ten = Case::new("2.10 and 2.11: ten pings", pings);
    cases.push(numbers.fold(ten, Case::answered));
    cases
}

/// Groups 3 and 4: reserved bits and opcodes.
fn reserved() -> Vec<Case> {
    let mut cases = Vec::new();
    let wrong = (1..8)
        .flat_map(|bits| {
            [TEXT, BINARY, PING, CLOSE].map(|opcode| {
                let name = format!("3.1 to 3.7: reserved bits {bits:03b}, opcode {opcode}");
                (name, FIN | bits << 4 | opcode)
            })
        })
        .chain((3..8).map(|opcode| (format!("4.1: opcode {opcode}"), FIN | opcode)))
        .chain((11..16).map(|opcode| (format!("4.2: opcode {opcode}"), FIN | opcode)));
    for (name, first) in wrong {
        for payload in ["", "reserved"] {
            cases.push(Case::new(&name, vec![frame(first, payload)]).refused(1002));
            let frames = vec![
                frame(FIN | TEXT, "before"),
                frame(first, payload),
                frame(FIN | TEXT, "after"),
                frame(FIN | PING, ""),
            ];
            let name = format!("{name}, between messages");
            cases.push(Case::new(name, frames).delivering("before").refused(1002));
        }
    }
    cases
}

/// Group 5: fragments.
fn fragments() -> Vec<Case> {
    let text = |payload| frame(TEXT, payload);
    let more = |payload| frame(CONTINUATION, payload);
    let end = |payload| frame(FIN | CONTINUATION, payload);
    let ping = |payload| frame(FIN | PING, payload);
    let pair = || [text("one "), end("two")];
    let mut cases = vec![
        Case::new("5.1: a ping in fragments", vec![frame(PING, "a"), end("b")]).refused(1002),
        Case::new("5.2: a pong in fragments", vec![frame(PONG, "a"), end("b")]).refused(1002),
        Case::new("a close in fragments", vec![frame(CLOSE, "\x03"), end("\u{e8}")]).refused(1002),
        Case::new("5.3 to 5.5: a text in two fragments", pair().into()).delivering("one two"),
        Case::new(
            "5.6 to 5.8: a ping between two fragments",
            vec![text("one "), ping("there?"), end("two")],
        )
        .delivering("one two")
        .answered("there?"),
        Case::new(
            "5.15: a continuation after the last fragment",
            pair().into_iter().chain([more("x"), frame(FIN | TEXT, "y")]).collect(),
        )
        .delivering("one two")
        .refused(1002),
        Case::new("5.18: a text within a text", vec![text("one "), frame(FIN | TEXT, "two")])
            .refused(1002),
        Case::new("bytes within a text", vec![text("one "), frame(FIN | BINARY, "two")])
            .refused(1002),
        Case::new(
            "5.19 and 5.20: pings between five fragments",
            vec![
                text("1"),
                more("2"),
                ping("pongme 1!"),
                more("3"),
                more("4"),
                ping("pongme 2!"),
                end("5"),
            ],
        )
        .delivering("12345")
        .answered("pongme 1!")
        .answered("pongme 2!"),
    ];
    for first in [FIN | CONTINUATION, CONTINUATION] {
        let frames = vec![frame(first, "nothing"), frame(FIN | TEXT, "after")];
        let name = "5.9 to 5.14: a continuation without a start, as the last fragment or not";
        cases.push(Case::new(name, frames).refused(1002));
        let frames = vec![frame(first, "x"), text("y"), end("z")];
        cases.push(
            Case::new("5.16 and 5.17: a continuation without a start, before fragments", frames)
                .refused(1002),
        );
    }
    cases
}

/// Valid UTF-8 text.
const GOOD: [(&str, &[u8]); 26] = [
    ("6.1.1: an empty text", b""),
    ("6.2: text with several bytes per character", "Hello-µ@ßöäüàá-UTF-8!!".as_bytes()),
    ("6.5: κόσμε", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"),
    ("6.6.2: the first character of κόσμε", b"\xce\xba"),
    ("6.6.5: the first two characters of κόσμε", b"\xce\xba\xe1\xbd\xb9"),
    ("6.6.7: the first three characters of κόσμε", b"\xce\xba\xe1\xbd\xb9\xcf\x83"),
    ("6.6.9: the first four characters of κόσμε", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc"),
    ("6.7.1: the first code point of one byte", b"\x00"),
    ("6.7.2: the first code point of two bytes", b"\xc2\x80"),
    ("6.7.3: the first code point of three bytes", b"\xe0\xa0\x80"),
    ("6.7.4: the first code point of four bytes", b"\xf0\x90\x80\x80"),
    ("6.9.1: the last code point of one byte", b"\x7f"),
    ("6.9.2: the last code point of two bytes", b"\xdf\xbf"),
    ("6.9.3: the last code point of three bytes", b"\xef\xbf\xbf"),
    ("6.9.4: the last code point of four bytes", b"\xf4\x8f\xbf\xbf"),
    ("6.11.1: the last code point before the surrogates", b"\xed\x9f\xbf"),
    ("6.11.2: the first code point after the surrogates", b"\xee\x80\x80"),
    ("6.11.3: the replacement character", b"\xef\xbf\xbd"),
    ("6.22.1: U+FFFE, which is not a character", b"\xef\xbf\xbe"),
    ("6.22.3: U+1FFFE", b"\xf0\x9f\xbf\xbe"),
    ("6.22.4: U+1FFFF", b"\xf0\x9f\xbf\xbf"),
    ("6.22.34: U+10FFFF and U+10FFFE", b"\xf4\x8f\xbf\xbf\xf4\x8f\xbf\xbe"),
    ("6.23.1: U+FFF9", b"\xef\xbf\xb9"),
    ("6.23.4: U+FFFC", b"\xef\xbf\xbc"),
    ("6.23.7: U+FFFD", b"\xef\xbf\xbd"),
    ("U+FDD0, which is not a character", b"\xef\xb7\x90"),
];

/// Invalid UTF-8 text.
const BAD: [(&str, &[u8]); 58] = [
    (
        "6.3: a surrogate within text",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
    ),
    ("6.6.1: half of the first character of κόσμε", b"\xce"),
    ("6.6.3: a third of the second character", b"\xce\xba\xe1"),
    ("6.6.4: two thirds of the second character", b"\xce\xba\xe1\xbd"),
    ("6.6.6: half of the third character", b"\xce\xba\xe1\xbd\xb9\xcf"),
    ("6.6.8: half of the fourth character", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce"),
    ("6.6.10: half of the fifth character", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce"),
    ("6.8.1: the first sequence of five bytes", b"\xf8\x88\x80\x80\x80"),
    ("6.8.2: the first sequence of six bytes", b"\xfc\x84\x80\x80\x80\x80"),
    ("6.10.1: the last sequence of four bytes", b"\xf7\xbf\xbf\xbf"),
    ("6.10.2: the last sequence of five bytes", b"\xfb\xbf\xbf\xbf\xbf"),
    ("6.10.3: the last sequence of six bytes", b"\xfd\xbf\xbf\xbf\xbf\xbf"),
    ("6.11.5: the first code point after U+10FFFF", b"\xf4\x90\x80\x80"),
    ("6.12.1: the first continuation byte", b"\x80"),
    ("6.12.2: the last continuation byte", b"\xbf"),
    ("6.12.3: two continuation bytes", b"\x80\xbf"),
    ("6.12.4: three continuation bytes", b"\x80\xbf\x80"),
    ("6.12.5: four continuation bytes", b"\x80\xbf\x80\xbf"),
    ("6.12.6: five continuation bytes", b"\x80\xbf\x80\xbf\x80"),
    ("6.12.7: six continuation bytes", b"\x80\xbf\x80\xbf\x80\xbf"),
    ("6.13.1: only the first of two bytes", b"\xc2 "),
    ("6.13.2: only the first of three bytes", b"\xe1 "),
    ("6.13.3: only the first of four bytes", b"\xf1 "),
    ("6.13.4: only the first of five bytes", b"\xf8 "),
    ("6.13.5: only the first of six bytes", b"\xfc "),
    ("6.14.1: two bytes without the last one", b"\xc0"),
    ("6.14.2: three bytes without the last one", b"\xe0\x80"),
    ("6.14.3: four bytes without the last one", b"\xf0\x80\x80"),
    ("6.14.4: five bytes without the last one", b"\xf8\x80\x80\x80"),
    ("6.14.5: six bytes without the last one", b"\xfc\x80\x80\x80\x80"),
    ("6.14.6: two valid bytes without the last one", b"\xdf"),
    ("6.14.7: three valid bytes without the last one", b"\xef\xbf"),
    ("6.14.8: the last sequence of four bytes without its last byte", b"\xf7\xbf\xbf"),
    ("6.14.9: the last sequence of five bytes without its last byte", b"\xfb\xbf\xbf\xbf"),
    ("6.14.10: the last sequence of six bytes without its last byte", b"\xfd\xbf\xbf\xbf\xbf"),
    ("6.15.1: several incomplete sequences in a row", b"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80"),
    ("6.16.1: the byte 254", b"\xfe"),
    ("6.16.2: the byte 255", b"\xff"),
    ("6.16.3: the bytes 254 and 255", b"\xfe\xfe\xff\xff"),
    ("6.17.1: a slash in two bytes", b"\xc0\xaf"),
    ("6.17.2: a slash in three bytes", b"\xe0\x80\xaf"),
    ("6.17.3: a slash in four bytes", b"\xf0\x80\x80\xaf"),
    ("6.17.4: a slash in five bytes", b"\xf8\x80\x80\x80\xaf"),
    ("6.17.5: a slash in six bytes", b"\xfc\x80\x80\x80\x80\xaf"),
    ("6.18.1: the last code point of one byte, in two bytes", b"\xc1\xbf"),
    ("6.18.2: the last code point of two bytes, in three bytes", b"\xe0\x9f\xbf"),
    ("6.18.3: the last code point of three bytes, in four bytes", b"\xf0\x8f\xbf\xbf"),
    ("6.18.4: the last sequence of four bytes, in five bytes", b"\xf8\x87\xbf\xbf\xbf"),
    ("6.18.5: the last sequence of five bytes, in six bytes", b"\xfc\x83\xbf\xbf\xbf\xbf"),
    ("6.19.1: zero in two bytes", b"\xc0\x80"),
    ("6.19.2: zero in three bytes", b"\xe0\x80\x80"),
    ("6.19.3: zero in four bytes", b"\xf0\x80\x80\x80"),
    ("6.20.1: the first surrogate", b"\xed\xa0\x80"),
    ("6.20.2: U+DB7F", b"\xed\xad\xbf"),
    ("6.20.5: U+DC00", b"\xed\xb0\x80"),
    ("6.20.7: the last surrogate", b"\xed\xbf\xbf"),
    ("6.21.1: a pair of surrogates", b"\xed\xa0\x80\xed\xb0\x80"),
    ("6.21.8: the last pair of surrogates", b"\xed\xaf\xbf\xed\xbf\xbf"),
];

/// Group 6: each text in one frame, and as fragments of one byte.
fn texts() -> Vec<Case> {
    let empty = |first| frame(first, "");
    let mut cases = vec![
        Case::new(
            "6.1.2: three empty fragments",
            vec![empty(TEXT), empty(CONTINUATION), empty(FIN | CONTINUATION)],
        )
        .delivering(""),
        Case::new(
            "6.1.3: an empty fragment before the text and one after it",
            vec![empty(TEXT), frame(CONTINUATION, "middle"), empty(FIN | CONTINUATION)],
        )
        .delivering("middle"),
        // The connection has to reject this text without waiting for more data.
        Case::new(
            "6.4: a fragment that cannot become text, as the last one sent",
            vec![frame(TEXT, "κόσμε"), frame(CONTINUATION, b"\xf4\x90\x80\x80")],
        )
        .refused(1007),
        Case::new(
            "bytes that are not text, as a binary message",
            vec![frame(FIN | BINARY, b"\xff\xfe")],
        )
        .delivering(b"\xff\xfe"),
    ];
    for (name, text) in GOOD {
        cases.push(Case::new(name, vec![frame(FIN | TEXT, text)]).delivering(text));
        if !text.is_empty() {
            let name = format!("{name}, in fragments");
            cases.push(Case::new(name, scattered(TEXT, text)).delivering(text));
        }
    }
    for (name, text) in BAD {
        cases.push(Case::new(name, vec![frame(FIN | TEXT, text)]).refused(1007));
        let name = format!("{name}, in fragments");
        cases.push(Case::new(name, scattered(TEXT, text)).refused(1007));
    }
    cases
}

/// Group 7: closing of connections.
fn closes() -> Vec<Case> {
    let bye = || close(1000, "");
    let long = vec![b'*'; 256 << 10];
    let mut cases = vec![
        Case::new("7.1.1: a message, and a close", vec![frame(FIN | TEXT, "x"), bye()])
            .delivering("x"),
        Case::new("7.1.2: two closes", vec![bye(), bye()]),
        Case::new("7.1.3: a ping after a close", vec![bye(), frame(FIN | PING, "")]),
        Case::new("7.1.4: a text after a close", vec![bye(), frame(FIN | TEXT, "late")]),
        Case::new(
            "7.1.5: a close between fragments",
            vec![frame(TEXT, "one "), bye(), frame(FIN | CONTINUATION, "two")],
        ),
        Case::new(
            "7.1.6: 256 KiB, a close, and a ping",
            vec![frame(FIN | TEXT, &long), bye(), frame(FIN | PING, "")],
        )
        .delivering(long),
        Case {
            code: None,
            ..Case::new("7.3.1: a close without a code", vec![frame(FIN | CLOSE, "")])
        },
        Case::new("7.3.2: a close of one byte", vec![frame(FIN | CLOSE, "\x03")]).refused(1002),
        Case::new("7.3.4: a close with a reason", vec![close(1000, "Hello World!")]),
        Case::new("7.3.5: the longest reason", vec![close(1000, [b'*'; 123])]),
        Case::new("7.3.6: a reason that is too long", vec![close(1000, [b'*'; 124])]).refused(1002),
        Case::new("7.5.1: a reason that is not text", vec![close(1000, b"\xce\xba\xed\xa0\x80")])
            .refused(1007),
    ];
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        let name = format!("7.3.3 and 7.7: code {code}");
        cases.push(Case { code: Some(code), ..Case::new(name, vec![close(code, "")]) });
    }
    // The connection ends regularly, because the peer has sent a close frame.
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        let name = format!("7.9 and 7.13: code {code}, which must not be sent");
        cases.push(Case { code: Some(1002), ..Case::new(name, vec![close(code, "")]) });
    }
    cases
}

/// Compares the frames that the connector has sent with the case: the pongs, and the code of the
/// close frame, which has to be the last frame.
pub(crate) fn compare(case: &Case, frames: &[(u8, Vec<u8>)]) {
    let name = &case.name;
    let (last, others) = frames.split_last().unwrap_or_else(|| panic!("{name}: nothing was sent"));
    let code = last.1.first_chunk().map(|code| u16::from_be_bytes(*code));
    assert_eq!((last.0, code), (FIN | CLOSE, case.code), "{name}: {frames:?}");
    let mut expected = case.pongs.iter();
    for (first, payload) in others {
        assert!(
            *first == FIN | PONG && expected.any(|pong| pong == payload),
            "{name}: {first:#x} {payload:?}"
        );
    }
    let last = others.last().map(|(_, payload)| payload);
    assert_eq!(last, case.pongs.last(), "{name}: the last ping is answered");
}
