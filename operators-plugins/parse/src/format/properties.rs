//! Property tests of the formats: no text causes a panic, and the results equal those of a regular
//! expression.

use std::sync::LazyLock;

use proptest::prelude::*;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::Parser;
use crate::testing::{parsed, parser};

fn parsers() -> Vec<Parser> {
    let configs = [
        json!({ "format": "key_value" }),
        json!({ "format": "key_value", "field_delimiter": ", ", "key_value_delimiter": ":" }),
        json!({ "format": "nginx_combined" }),
        json!({ "format": "nginx_error" }),
        json!({ "format": "apache_common" }),
        json!({ "format": "apache_combined" }),
        json!({ "format": "regex", "pattern": r"(?<a>\w+).*?(?<b>\d*)$" }),
        json!({ "format": "json" }),
        json!({ "format": "csv" }),
        json!({ "format": "csv", "delimiter": " ", "columns": ["a", "b"] }),
        json!({ "format": "timestamp" }),
        json!({ "format": "timestamp", "time_format": "%b %e %T", "timezone": "Asia/Tokyo" }),
        json!({ "format": "timestamp", "time_format": "unix_ms" }),
        json!({ "format": "url" }),
        json!({ "format": "query" }),
        json!({ "format": "grok", "pattern": "%{DATA:a} %{NUMBER:b:int}%{QS:c}?" }),
    ];
    configs.into_iter().map(parser).collect()
}

/// A line of each format. The tests truncate and change these lines.
const LINES: [&str; 6] = [
    r#"172.17.0.1 - alice [01/Apr/2021:12:02:31 +0000] "POST /x HTTP/1.1" 404 153 "-" "x \"y\"" "2.75""#,
    r#"2021/04/01 13:02:31 [error] 31#32: *1 open() "/a" failed, client: ::1, server: s, request: "G / H", host: "h""#,
    r#"{"a":[1,-2.5e3,"\u00e4\ud83d\ude00",{"b":null}]}"#,
    r#"a=1 "b c"='d \' e',"f ""g""",h "#,
    "https://a%20b:p@[::1]:80/x/y?q=1&q=%C3%A4#f",
    "2024-07-15T16:24:59.123+02:00",
];

/// Each parser reads 100 KB of each fragment within milliseconds. If its time were quadratic, this test would take
/// minutes.
#[test]
fn time_is_linear_in_the_length_of_the_text() {
    let fragments = [
        "a ", "a", " ", "\"", "\"\"", "\\", "\"a\" ", "a=\"b\" ", "a=\"", "a= ", "a:b, ", "a, ",
        "\"a\",", ",", "[", "{\"a\":", "[a] ", "a&", "%", "%41=&", "/", "@", ":", "?", "#", "- ",
        "0", "<",
    ];
    for fragment in fragments {
        for end in ["", "=1"] {
            let text = fragment.repeat(100_000 / fragment.len()) + end;
            for parser in &mut parsers() {
                let _ = parsed(parser, &text);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in any::<String>()) {
        for parser in &mut parsers() {
            let _ = parsed(parser, &text);
        }
    }

    #[test]
    fn no_changed_line_makes_a_parser_panic(
        line in prop::sample::select(&LINES[..]),
        (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        new in r#"[ "'=\\,\[\]{}:a1ä-]{0,3}"#,
    ) {
        let mut text: Vec<char> = line.chars().collect();
        let (from, to) = (from.index(text.len()), to.index(text.len()));
        text.splice(from.min(to)..from.max(to), new.chars());
        let text: String = text.into_iter().collect();
        for parser in &mut parsers() {
            if let Err(message) = parsed(parser, &text) {
                prop_assert!(message.starts_with("expected "), "{}", message);
            }
        }
    }
}

/// The regular expression of VRL for the format `combined` of nginx, with parts for the request.
static NGINX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?x) ^\s* (-|(?P<client>\S+))\s+ \-\s+ (-|(?P<user>\S+))\s+ \[(?P<timestamp>.+)\]\s+
        "(?P<request>[^"]*)"\s+ (?P<status>\d+)\s+ (?P<size>\d+)\s+ "(-|(?P<referer>[^"]*))"\s+
        "(-|(?P<agent>[^"]*))" (\s+"(-|(?P<compression>[^"]+))")? \s*$"#,
    )
    .unwrap()
});

/// A regular expression for the format `combined` of Apache.
static APACHE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?x) ^\s* (-|(?P<host>\S+))\s+ (-|(?P<identity>\S+))\s+ (-|(?P<user>\S+))\s+
        \[(?P<timestamp>[^\]]+)\]\s+ "(-|(?P<message>(?:[^"\\]|\\.)*))"\s+ (-|(?P<status>\d+))\s+
        (-|(?P<size>\d+))\s+ "(-|(?P<referrer>(?:[^"\\]|\\.)*))"\s+ "(-|(?P<agent>(?:[^"\\]|\\.)*))" \s*$"#,
    )
    .unwrap()
});

static REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?P<method>[A-Za-z0-9_-]+) (?P<path>.+) (?P<protocol>HTTP/[^ ]*)$").unwrap()
});

/// Returns the fields that a regular expression finds in a line, as the operator writes them.
fn by_regex(regex: &Regex, line: &str) -> Option<Value> {
    let mut fields = Map::new();
    let mut add = |regex: &Regex, text: &str| {
        let captures = regex.captures(text)?;
        for name in regex.capture_names().flatten() {
            let Some(found) = captures.name(name).filter(|found| !found.is_empty()) else {
                continue;
            };
            let found = found.as_str();
            let value = match name {
                "status" | "size" => Value::from(found.parse::<u64>().unwrap()),
                "timestamp" => {
                    let time = jiff::fmt::strtime::parse("%d/%b/%Y:%T %z", found).unwrap();
                    Value::from(time.to_timestamp().unwrap().to_string())
                }
                _ => Value::from(found),
            };
            fields.insert(name.to_owned(), value);
        }
        Some(())
    };
    add(regex, line)?;
    let captures = regex.captures(line)?;
    let request = captures.name("request").or(captures.name("message"));
    request.map(|request| add(&REQUEST, request.as_str()));
    // The operator writes an empty request of nginx as well.
    if regex.capture_names().flatten().any(|name| name == "request") {
        fields.entry("request").or_insert_with(|| "".into());
    }
    Some(fields.into())
}

fn time() -> impl Strategy<Value = String> {
    let zone = (prop::sample::select(&["+", "-"][..]), 0..15, 0..60);
    (1..=28, 0..12_usize, 1970..2100, 0..86_400, zone).prop_map(
        |(day, month, year, second, zone)| {
            let names = [
                "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
            ];
            let (hour, minute) = (second / 3_600, second / 60 % 60);
            let (sign, hours, minutes) = zone;
            format!(
                "{day:02}/{}/{year}:{hour:02}:{minute:02}:{:02} {sign}{hours:02}{minutes:02}",
                names[month],
                second % 60
            )
        },
    )
}

const WORD: &str = "-|[!-~ä]{1,12}";
const QUOTED: &str = r"-|(?:[ !#-\[\]-~ä]|\\x22){0,20}";
const LINE: &str =
    "(?:[A-Z]{1,7} /[!#-\\[\\]-~ä]{0,12}(?: x)? HTTP/[0-9.]{1,3})|-|[ !#-\\[\\]-~]{0,20}";

proptest! {
    #[test]
    fn nginx_lines_have_the_fields_of_a_regex(
        client in WORD, user in WORD, time in time(), request in LINE, status in 0_u64..1_000,
        size in any::<u64>(), referer in QUOTED, agent in QUOTED,
        compression in prop::option::of("-|[0-9.]{1,4}"), end in "[ \n]{0,2}",
    ) {
        let mut line = format!(r#"{client} - {user} [{time}] "{request}" {status} {size} "{referer}" "{agent}""#);
        if let Some(compression) = compression {
            line = format!("{line} \"{compression}\"");
        }
        line.push_str(&end);
        let value = parsed(&mut Parser::NginxCombined, &line);
        let value = value.map(|value| serde_json::from_str::<Value>(&value).unwrap());
        prop_assert_eq!(value.ok(), by_regex(&NGINX, &line), "{}", line);
    }

    #[test]
    fn apache_lines_have_the_fields_of_a_regex(
        host in WORD, identity in WORD, user in WORD, time in time(), request in LINE,
        status in "-|[1-5][0-9]{2}", size in "-|[0-9]{1,9}", referrer in QUOTED,
        agent in r#"-|(?:[ !#-\[\]-~ä]|\\["\\n]){0,20}"#,
    ) {
        let line = format!(
            r#"{host} {identity} {user} [{time}] "{request}" {status} {size} "{referrer}" "{agent}""#
        );
        let value = parsed(&mut Parser::Apache { is_combined: true }, &line);
        let value = value.map(|value| serde_json::from_str::<Value>(&value).unwrap());
        prop_assert_eq!(value.ok(), by_regex(&APACHE, &line), "{}", line);
    }

    #[test]
    fn no_user_keeps_its_request_out_of_the_log(
        user in r"[ !#-\[\]-~ä]{0,30}|(?: ?\[10/Oct/2000:13:55:36 -0700\] ?){1,2}", time in time(),
    ) {
        let line = format!(r#"::1 - {user} [{time}] "GET / HTTP/1.1" 200 1"#);
        let expected = Some(user.trim_matches(' ')).filter(|user| !matches!(*user, "" | "-"));
        for (mut parser, end) in [
            (Parser::NginxCombined, r#" "-" "x""#),
            (Parser::Apache { is_combined: true }, r#" "-" "x""#),
            (Parser::Apache { is_combined: false }, ""),
        ] {
            let value = parsed(&mut parser, &format!("{line}{end}")).unwrap();
            let value: Value = serde_json::from_str(&value).unwrap();
            prop_assert_eq!(value.get("user").and_then(Value::as_str), expected, "{}", line);
            prop_assert_eq!(&value["method"], "GET");
            let time = jiff::fmt::strtime::parse("%d/%b/%Y:%T %z", &time).unwrap();
            prop_assert_eq!(&value["timestamp"], &time.to_timestamp().unwrap().to_string());
        }
    }
}
