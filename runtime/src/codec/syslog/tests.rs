use proptest::prelude::*;
use serde_json::{Value, json};
use tremor_abi::document::Document;

use super::{Clocks, Options, Zone, decode_at};
use crate::codec::{Bytes, Nodes, Span, copied::Copied, tests::encode_json_with};

/// The time 2024-03-01T12:00:00Z, in ns since the Unix epoch.
const NOW: u64 = 1_709_294_400_000_000_000;
const DAY: u64 = 86_400_000_000_000;

fn decoded_at(message: &[u8], now: u64) -> Result<Value, String> {
    decoded_in("UTC", message, now)
}

fn decoded_in(timezone: &str, message: &[u8], now: u64) -> Result<Value, String> {
    let options: Options = serde_json::from_value(json!({ "timezone": timezone })).unwrap();
    let clocks = &mut Clocks { now, zone: &mut Zone::from(&options) };
    let (mut bytes, mut nodes) = (Bytes::from_slice(message), Nodes::new());
    let span = Span { start: 0, len: u32::try_from(message.len()).unwrap() };
    let root = decode_at(clocks, &mut Copied::default(), &mut bytes, span, &mut nodes)
        .map_err(|error| error.to_string())?;
    let text = Document::new(&bytes, &nodes).root(root).to_string();
    Ok(serde_json::from_str(&text).unwrap())
}

fn encoded(value: &Value) -> Result<String, String> {
    encode_json_with("syslog", &json!({ "timezone": "UTC" }), value)
}

fn decoded(message: &str) -> Result<Value, String> {
    decoded_at(message.as_bytes(), NOW)
}

#[test]
fn rfc_5424_messages_are_read_and_written() {
    for (message, expected) in [
        (
            "<34>1 2003-10-11T22:14:15.003000Z mymachine.example.com su - ID47 - 'su root' failed",
            json!({
                "facility": "auth", "severity": "crit", "timestamp": 1_065_910_455_003_000_000_i64,
                "hostname": "mymachine.example.com", "appname": "su", "msgid": "ID47",
                "msg": "'su root' failed",
            }),
        ),
        (
            r#"<165>1 2003-08-24T12:14:15.000003Z 192.0.2.1 myproc 8710 - [a@1 iut="3" x="\"\\\] \é"][b@1]"#,
            json!({
                "facility": "local4", "severity": "notice",
                "timestamp": 1_061_727_255_000_003_000_i64,
                "hostname": "192.0.2.1", "appname": "myproc", "procid": "8710",
                "structured_data": { "a@1": { "iut": "3", "x": "\"\\] \\é" }, "b@1": {} },
            }),
        ),
        (
            r#"<0>1 - - - - - [ip ip="192.0.2.1" ip="192.0.2.129"] text"#,
            json!({
                "facility": "kern", "severity": "emerg",
                "structured_data": { "ip": { "ip": ["192.0.2.1", "192.0.2.129"] } },
                "msg": "text",
            }),
        ),
        ("<191>1 - - - - - -", json!({ "facility": "local7", "severity": "debug" })),
    ] {
        let mut expected = expected;
        expected["protocol"] = json!("RFC5424");
        assert_eq!(decoded(message), Ok(expected.clone()));
        // A backslash that does not escape anything is written as an escaped backslash.
        let written = message.replace(r"\é", r"\\é");
        assert_eq!(encoded(&expected), Ok(written));
    }
}

#[test]
fn rfc_3164_messages_are_read_and_written() {
    for (message, expected) in [
        (
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
            json!({
                "facility": "auth", "severity": "crit", "timestamp": 1_697_062_455_000_000_000_i64,
                "hostname": "mymachine", "appname": "su", "msg": "'su root' failed",
            }),
        ),
        (
            "<13>Feb  5 17:32:18 10.0.0.99 prog[42]: text: more",
            json!({
                "facility": "user", "severity": "notice",
                "timestamp": 1_707_154_338_000_000_000_i64,
                "hostname": "10.0.0.99", "appname": "prog", "procid": "42", "msg": "text: more",
            }),
        ),
        (
            "<13>Feb 29 00:00:00 - a:",
            json!({
                "facility": "user", "severity": "notice",
                "timestamp": 1_709_164_800_000_000_000_i64, "appname": "a",
            }),
        ),
        (
            "<13>use the BFG!",
            json!({ "facility": "user", "severity": "notice", "msg": "use the BFG!" }),
        ),
    ] {
        let mut expected = expected;
        expected["protocol"] = json!("RFC3164");
        assert_eq!(decoded(message), Ok(expected.clone()));
        assert_eq!(encoded(&expected).as_deref(), Ok(message));
    }
}

#[test]
fn observed_deviations_from_rfc_3164_are_read() {
    for (message, key, expected) in [
        ("<13>Feb 05 17:32:18 host a: b", "timestamp", json!(1_707_154_338_000_000_000_i64)),
        (
            "<13>2024-02-05T17:32:18+00:00 host a: b",
            "timestamp",
            json!(1_707_154_338_000_000_000_i64),
        ),
        ("<13>2024-02-05T17:32:18Z host a: b", "hostname", json!("host")),
        ("<13>Feb  5 17:32:18 prog[42]: text", "hostname", json!(null)),
        ("<13>Feb  5 17:32:18 prog[42]: text", "procid", json!("42")),
        ("<13>Feb  5 17:32:18 prog: text", "appname", json!("prog")),
        ("<13>Feb  5 17:32:18 host prog[42] text", "msg", json!("text")),
        ("<13>Feb  5 17:32:18 host some text", "msg", json!("some text")),
        ("<13>Feb  5 17:32:18 host some text", "appname", json!(null)),
        ("<13>Feb 30 17:32:18 host a: b", "msg", json!("Feb 30 17:32:18 host a: b")),
        ("<13>Feb  5 17:32:18  prog: text", "appname", json!("prog")),
        ("<13>Feb  5 17:32:18 prog: text", "hostname", json!(null)),
        ("<13>1 2", "msg", json!("1 2")),
        ("<13>1 2", "protocol", json!("RFC3164")),
        ("<13>2 text", "msg", json!("2 text")),
        ("\u{feff}<13>text", "msg", json!("text")),
    ] {
        assert_eq!(decoded(message).unwrap()[key], expected, "{message}");
    }
}

#[test]
fn cisco_times_are_read() {
    // 2024-02-05T17:32:18Z.
    let (s, ms) = (1_707_154_338_000_000_000_i64, 1_000_000);
    for (message, timestamp, msg) in [
        ("<13>*Feb  5 17:32:18.123: %SYS-5-CONFIG: text", s + 123 * ms, "text"),
        ("<13>.Feb  5 17:32:18: %SYS-5-CONFIG: text", s, "text"),
        ("<13>Feb  5 17:32:18.000001: %SYS-5-CONFIG: text", s + 1_000, "text"),
        ("<13>Feb 05 2024 17:32:18: %SYS-5-CONFIG: text", s, "text"),
        ("<13>Feb  5 2024 17:32:18.5 fw : %SYS-5-CONFIG: text", s + 500 * ms, "text"),
        ("<13>2024-02-05T17:32:18Z: %SYS-5-CONFIG: text", s, "text"),
        ("<13>2024-02-05T17:32:18Z fw : %SYS-5-CONFIG: text", s, "text"),
        ("<13>Feb 29 2019 17:32:18: text", 0, "Feb 29 2019 17:32:18: text"),
        ("<13>Feb  5 17:32:18.1234567890 h: text", 0, "Feb  5 17:32:18.1234567890 h: text"),
        ("<13>Feb  5 17:32:18x", 0, "Feb  5 17:32:18x"),
        ("<13>Feb  5 17:32:18:x", 0, "Feb  5 17:32:18:x"),
    ] {
        let value = decoded(message).unwrap();
        assert_eq!(value["timestamp"].as_i64().unwrap_or_default(), timestamp, "{message}");
        assert_eq!(value["msg"], msg, "{message}");
        let appname = if msg == "text" { json!("%SYS-5-CONFIG") } else { json!(null) };
        assert_eq!(value["appname"], appname, "{message}");
        let hostname = if message.contains(" fw :") { json!("fw") } else { json!(null) };
        assert_eq!(value["hostname"], hostname, "{message}");
    }
    assert_eq!(decoded("<13>Feb  5 17:32:18: some text").unwrap()["msg"], "some text");
}

#[test]
fn ip_address_after_the_time_is_the_host() {
    for (word, host) in [
        ("2001:db8::1", "2001:db8::1"),
        ("2001:db8::", "2001:db8::"),
        ("::", "::"),
        ("2001:db8::5:", "2001:db8::5"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("fe80::1%eth0:", "fe80::1%eth0"),
        ("192.0.2.1:", "192.0.2.1"),
    ] {
        let value = decoded(&format!("<13>Feb  5 17:32:18 {word} prog[7]: text")).unwrap();
        let found = ["hostname", "appname", "procid", "msg"].map(|key| value[key].clone());
        assert_eq!(found, [host, "prog", "7", "text"], "{word}");
        let written = json!({ "protocol": "RFC3164", "timestamp": 0, "hostname": host });
        let written = encoded(&written).unwrap();
        assert_eq!(decoded(&written).unwrap()["hostname"], host, "{written}");
    }
}

#[test]
fn invalid_header_keeps_the_message() {
    for (message, expected) in [
        ("<1>1 now text", json!({ "protocol": "RFC3164", "msg": "1 now text" })),
        ("<1>1 -", json!({})),
        ("<1>1 - é x", json!({ "msg": "é x" })),
        ("<1>1 - host", json!({ "hostname": "host" })),
        ("<1>1 -  host", json!({ "msg": "host" })),
        (
            "<1>1 - h a p id text",
            json!({ "hostname": "h", "appname": "a", "procid": "p",
            "msgid": "id", "msg": "text" }),
        ),
        ("<1>1 - h a - - []", json!({ "hostname": "h", "appname": "a", "msg": "[]" })),
        ("<1>1 - h - - - [a][a] t", json!({ "hostname": "h", "msg": "[a][a] t" })),
        ("<1>1 - h - - - [a b] t", json!({ "hostname": "h", "msg": "[a b] t" })),
        ("<1>1 - h - - - [a b=c] t", json!({ "hostname": "h", "msg": "[a b=c] t" })),
        ("<1>1 - h - - - [a b=\"c", json!({ "hostname": "h", "msg": "[a b=\"c" })),
        ("<1>1 - h - - - [a b=\"c]\"]", json!({ "hostname": "h", "msg": "[a b=\"c]\"]" })),
        ("<1>1 - h - - - [a b=\"c\"x", json!({ "hostname": "h", "msg": "[a b=\"c\"x" })),
        ("<1>1 - h - - - [a]x", json!({ "hostname": "h", "msg": "[a]x" })),
        ("<1>1 - h - - - -x", json!({ "hostname": "h", "msg": "-x" })),
    ] {
        let mut expected = expected;
        expected["facility"] = json!("kern");
        expected["severity"] = json!("alert");
        if expected["protocol"].is_null() {
            expected["protocol"] = json!("RFC5424");
        }
        assert_eq!(decoded(message), Ok(expected), "{message}");
    }
    let value = decoded_at(b"<1>Feb  5 17:32:18 \xff text", NOW).unwrap();
    assert_eq!((&value["hostname"], &value["msg"]), (&json!(null), &json!("/yB0ZXh0")));
}

#[test]
fn blank_message_contains_no_event() {
    for message in ["", "\n", "\r\n", "\0", " ", "\u{feff}\n"] {
        assert!(super::is_blank(message.as_bytes()), "{message:?}");
        assert!(decoded(message).is_err(), "{message:?}");
    }
    assert!(!super::is_blank(b"text"));
}

/// Timestamps of RFC 3164 have no year: the codec chooses the latest year with which the time is at most a day in the
/// future.
#[test]
fn missing_year_is_latest_with_time_at_most_a_day_ahead() {
    let year = |message: &str, now| {
        let value = decoded_at(message.as_bytes(), now).unwrap();
        let timestamp = value["timestamp"].as_i64().unwrap();
        super::civil::Civil::of(timestamp).year
    };
    for (message, now, expected) in [
        ("<13>Mar  1 12:00:00 h a: b", NOW, 2024),
        ("<13>Mar  2 12:00:00 h a: b", NOW, 2024),
        ("<13>Mar  2 12:00:01 h a: b", NOW, 2023),
        ("<13>Dec 31 23:59:59 h a: b", NOW, 2023),
        ("<13>Jan  1 00:00:00 h a: b", NOW - 61 * DAY + DAY / 2, 2024),
        ("<13>Feb 29 00:00:00 h a: b", NOW + 1_000 * DAY, 2024),
    ] {
        assert_eq!(year(message, now), expected, "{message}");
    }
}

#[test]
fn byte_order_mark_is_removed_and_binary_data_unchanged() {
    let value = decoded("<0>1 - - - - - - \u{feff}text").unwrap();
    assert_eq!(value["msg"], "text");
    let value = decoded_at(b"<0>1 - - - - - - \xff", NOW).unwrap();
    assert_eq!(value["msg"], "/w==", "binary data is base64 in JSON");
}

#[test]
fn trailer_is_not_part_of_the_text() {
    // rsyslog and syslog-ng leave a line feed at the end, in datagrams and in messages with a length prefix.
    for (message, expected) in [
        ("<13>1 - - - - - - text\n", json!("text")),
        ("<13>1 - - - - - - two\nlines\n", json!("two\nlines")),
        ("<13>1 - - - - - - text\n\n", json!("text")),
        ("<13>1 - - - - - - text\r\n", json!("text")),
        ("<13>1 - - - - - - text\0", json!("text")),
        ("<13>1 - - - - - - text\r\n\0", json!("text")),
        ("<13>1 - - - - - - a\0b\rc", json!("a\0b\rc")),
        ("<13>Feb  5 17:32:18 host a: text\0", json!("text")),
        ("<13>1 - - - - - -\n", json!(null)),
        ("<13>Feb  5 17:32:18 host a: text\n", json!("text")),
        ("<13>Feb  5 17:32:18 host a:\n", json!(null)),
        ("<13>text\n", json!("text")),
    ] {
        assert_eq!(decoded(message).unwrap()["msg"], expected, "{message:?}");
    }
}

/// RFC 3164, section 4.3.3: a relay gives such a message the priority 13.
#[test]
fn message_without_priority_is_a_notice_of_user() {
    let s = 1_707_154_338_000_000_000_i64;
    for (message, expected) in [
        ("text", json!({ "msg": "text" })),
        ("<192>1 - - - - - -", json!({ "msg": "<192>1 - - - - - -" })),
        ("<>text", json!({ "msg": "<>text" })),
        ("<1", json!({ "msg": "<1" })),
        ("1 - h a - - - text", json!({ "msg": "1 - h a - - - text" })),
        (
            "Feb  5 17:32:18 host-1 sshd[4711]: Accepted publickey",
            json!({
                "timestamp": s, "hostname": "host-1", "appname": "sshd", "procid": "4711",
                "msg": "Accepted publickey",
            }),
        ),
        (
            "2024-02-05T17:32:18+00:00 host-2 systemd[1]: Started",
            json!({
                "timestamp": s, "hostname": "host-2", "appname": "systemd", "procid": "1",
                "msg": "Started",
            }),
        ),
    ] {
        let mut expected = expected;
        expected["protocol"] = json!("RFC3164");
        expected["facility"] = json!("user");
        expected["severity"] = json!("notice");
        assert_eq!(decoded(message), Ok(expected), "{message}");
    }
}

/// Forms of headers that devices of these vendors send.
#[test]
fn headers_of_devices_are_read() {
    // 2024-02-05T17:32:18Z.
    let (s, ms) = (1_707_154_338_000_000_000_i64, 1_000_000);
    for (message, timestamp, host, program) in [
        // Cisco IOS with a counter, a sequence number and the host.
        ("<189>41: *Feb  5 17:32:18.123: %SYS-5-A: text", s + 123 * ms, None, "%SYS-5-A"),
        (
            "<189>41: rt-1: *Feb  5 17:32:18.123 UTC: %SYS-5-A: text",
            s + 123 * ms,
            Some("rt-1"),
            "%SYS-5-A",
        ),
        ("<189>41: rt-1: 000042: Feb  5 17:32:18: %SYS-5-A: text", s, Some("rt-1"), "%SYS-5-A"),
        ("<189>rt-1: .Feb  5 17:32:18 CET: %SYS-5-A: text", s, Some("rt-1"), "%SYS-5-A"),
        (
            "<189>41: 10.0.0.1: Feb 5 2024 17:32:18 GMT: %SYS-5-A: text",
            s,
            Some("10.0.0.1"),
            "%SYS-5-A",
        ),
        // Cisco NX-OS and ASA.
        ("<189>: 2024 Feb  5 17:32:18 UTC: %ETH-5-A: text", s, None, "%ETH-5-A"),
        ("<189>: 2024 Feb  5 17:32:18.5 UTC: %ETH-5-A: text", s + 500 * ms, None, "%ETH-5-A"),
        ("<166>Feb 05 2024 17:32:18 fw-1 : %ASA-6-A: text", s, Some("fw-1"), "%ASA-6-A"),
        ("<166>:Feb 05 17:32:18 UTC: %FTD-6-A: text", s, None, "%FTD-6-A"),
        // Juniper with milliseconds and the year.
        ("<28>Feb  5 17:32:18.123 2024 mx-1 mgd[4163]: text", s + 123 * ms, Some("mx-1"), "mgd"),
        ("<28>Feb  5 17:32:18 2024 mx-1 mgd[4163]: text", s, Some("mx-1"), "mgd"),
        // VMware ESXi.
        (
            "<166>2024-02-05T17:32:18.123Z esx-1.example.com Hostd: text",
            s + 123 * ms,
            Some("esx-1.example.com"),
            "Hostd",
        ),
        // Times of RFC 3339 without an offset, and a blank after the priority.
        ("<13>2024-02-05T17:32:18 host app: text", s, Some("host"), "app"),
        ("<13>2024-02-05 17:32:18.123 host app: text", s + 123 * ms, Some("host"), "app"),
        ("<13> Feb  5 17:32:18 host app: text", s, Some("host"), "app"),
    ] {
        let value = decoded(message).unwrap();
        let found = [&value["timestamp"], &value["hostname"], &value["appname"], &value["msg"]];
        let expected = [json!(timestamp), json!(host), json!(program), json!("text")];
        assert_eq!(found.map(Clone::clone), expected, "{message}");
    }
    for text in
        ["app: 2024-02-05T17:32:18Z text", "a: b: Feb  5 17:32:18 text", "41: text", ": text"]
    {
        assert_eq!(decoded(&format!("<13>{text}")).unwrap()["msg"], text);
    }
}

#[test]
fn times_without_an_offset_are_in_the_configured_zone() {
    for (timezone, message, hours) in [
        ("UTC", "<13>Feb  5 17:32:18 h a: b", 0),
        ("Europe/Berlin", "<13>Feb  5 17:32:18 h a: b", -1),
        ("America/New_York", "<13>Feb  5 17:32:18 h a: b", 5),
        ("America/New_York", "<13>Feb  5 2024 17:32:18 h a: b", 5),
        ("America/New_York", "<13>2024-02-05T17:32:18 h a: b", 5),
        ("America/New_York", "<13>2024-02-05T17:32:18Z h a: b", 0),
        ("America/New_York", "<13>1 2024-02-05T17:32:18Z h a - - - b", 0),
        ("America/New_York", "<13>Feb  5 17:32:18 UTC: %SYS-5-A: b", 0),
        ("-05:00", "<13>Feb  5 17:32:18 EST: %SYS-5-A: b", 5),
    ] {
        let value = decoded_in(timezone, message.as_bytes(), NOW).unwrap();
        let expected = 1_707_154_338_000_000_000_i64 + hours * 3_600_000_000_000;
        assert_eq!(value["timestamp"], expected, "{timezone}: {message}");
    }
    let value = json!({
        "protocol": "RFC3164", "timestamp": 1_707_154_338_000_000_000_i64, "hostname": "h",
    });
    let config = json!({ "timezone": "Asia/Kolkata" });
    let written = encode_json_with("syslog", &config, &value).unwrap();
    assert_eq!(written, "<13>Feb  5 23:02:18 h");
}

/// The clock at midnight of a year: the year of a time is chosen in the zone of the time.
#[test]
fn missing_year_follows_the_configured_zone() {
    let new_year = 1_704_067_200_000_000_000;
    let year = |timezone: &str, message: &str, now| {
        let value = decoded_in(timezone, message.as_bytes(), now).unwrap();
        super::civil::Civil::of(value["timestamp"].as_i64().unwrap()).year
    };
    // 23:00 of New Year's Eve in New York is 04:00 in UTC.
    assert_eq!(year("America/New_York", "<13>Dec 31 23:00:00 h a: b", new_year + DAY / 4), 2024);
    assert_eq!(year("Asia/Tokyo", "<13>Jan  1 08:00:00 h a: b", new_year - DAY / 24), 2023);
}

#[test]
fn unrepresentable_value_is_an_error() {
    for (value, expected) in [
        (json!("text"), "expected an object, found text"),
        (json!({ "protocol": "RFC1" }), "expected `RFC5424` or `RFC3164` as `protocol`"),
        (json!({ "facility": "no" }), "expected a name or a number from 0 to 23 as `facility`"),
        (json!({ "severity": 8 }), "expected a name or a number from 0 to 7 as `severity`"),
        (json!({ "hostname": "two words" }), "`hostname` is \"two words\""),
        (json!({ "hostname": "-" }), "`hostname` is \"-\""),
        (json!({ "appname": "é" }), "`appname` is \"é\""),
        (json!({ "procid": 1.5 }), "expected text or an integer as `procid`, found a number"),
        (json!({ "timestamp": "now" }), "expected ns since the Unix epoch as `timestamp`"),
        (json!({ "structured_data": { "a": 1 } }), "expected an object as the structured data"),
        (json!({ "structured_data": { "a=": {} } }), "\"a=\" cannot name structured data"),
        (json!({ "structured_data": { "a": { "b": {} } } }), "expected text as the parameter `b`"),
        (json!({ "msg": 1 }), "expected text or binary data as `msg`"),
        (json!({ "message": "m" }), "unknown key `message`"),
        (json!({ "protocol": "RFC3164", "hostname": "h" }), "RFC 3164 needs a `timestamp`"),
        (json!({ "protocol": "RFC3164", "msgid": "m" }), "RFC 3164 has neither `msgid` nor"),
        (
            json!({ "protocol": "RFC3164", "timestamp": 0, "hostname": "h:" }),
            "RFC 3164 cannot write the `hostname` \"h:\"",
        ),
        (
            json!({ "protocol": "RFC3164", "timestamp": 0, "appname": "a:b" }),
            "RFC 3164 cannot write the `appname` \"a:b\"",
        ),
    ] {
        let error = encoded(&value).unwrap_err();
        assert!(error.contains(expected), "{value}: {error}");
    }
}

#[test]
fn omitted_keys_have_defaults() {
    let encode = |value| encoded(&value).unwrap();
    assert_eq!(encode(json!({})), "<13>1 - - - - - -");
    assert_eq!(encode(json!({ "severity": 0, "facility": 3, "procid": 7 })), "<24>1 - - - 7 - -");
}

proptest! {
    #[test]
    fn written_value_is_read_unchanged(
        severity in 0..8_usize,
        facility in 0..24_usize,
        // Whole µs, in years of four digits.
        timestamp in -2_000_000_000_000_000..9_000_000_000_000_000_i64,
        hostname in "[!-~]{2,20}",
        procid in "[!-~]{2,20}",
        data in prop::collection::btree_map(
            "[a-z@0-9]{1,32}",
            prop::collection::btree_map("[a-z]{1,3}", any::<String>(), 0..3),
            1..3,
        ),
        msg in "[^\u{feff}\n].*[^\0\r\n]",
    ) {
        let value = json!({
            "protocol": "RFC5424",
            "facility": super::names::FACILITIES[facility],
            "severity": super::names::SEVERITIES[severity],
            "timestamp": timestamp * 1_000,
            "hostname": hostname,
            "procid": procid,
            "structured_data": data,
            "msg": msg,
        });
        let message = encoded(&value).unwrap();
        prop_assert_eq!(decoded(&message), Ok(value), "{}", message);
    }

    #[test]
    fn no_message_panics(
        message in "<[0-9]{1,3}>(1 - - - - - )?[a\\-\\[\\]\"=\\\\ 1:é]{0,30}",
    ) {
        let _ = decoded(&message);
    }
}
