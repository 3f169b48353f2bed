//! The log formats of nginx: `combined`, and its error log.

use tremor_pdk::Writer;

use super::{
    request::{field, request_line, time, user},
    zone::Zone,
};
use crate::stop::{Cursor, Stop};

/// Takes a text between double quotes, in which nginx writes a double quote as `\x22`.
fn quoted<'t>(
    cursor: &mut Cursor<'t>,
    before: &'static str,
    after: &'static str,
) -> Result<&'t str, Stop> {
    cursor.expect(b'"', before)?;
    let text = cursor.until(b'"').ok_or_else(|| cursor.stop(after))?;
    cursor.skip(b'"');
    Ok(text)
}

/// Writes the fields of a line in the format `combined`.
pub(crate) fn combined(text: &str, out: &mut Writer<'_>) -> Result<(), Stop> {
    let mut cursor = Cursor::trimmed(text);
    field(out, "client", cursor.word("the address of the client")?);
    cursor.spaces("a space after the client")?;
    cursor.expect(b'-', "`-` after the client")?;
    cursor.spaces("a space before the user")?;
    field(out, "user", user(&mut cursor)?);
    time(&mut cursor, out)?;
    cursor.spaces("a space after the time")?;
    let request = quoted(&mut cursor, "`\"` before the request", "`\"` after the request")?;
    out.key("request");
    out.str(request);
    request_line(out, request);
    cursor.spaces("a space after the request")?;
    out.key("status");
    out.u64(cursor.number("a status")?);
    cursor.spaces("a space after the status")?;
    out.key("size");
    out.u64(cursor.number("a size")?);
    cursor.spaces("a space after the size")?;
    field(
        out,
        "referer",
        quoted(&mut cursor, "`\"` before the referer", "`\"` after the referer")?,
    );
    cursor.spaces("a space after the referer")?;
    field(out, "agent", quoted(&mut cursor, "`\"` before the agent", "`\"` after the agent")?);
    if cursor.is_at_end() {
        return Ok(());
    }
    cursor.spaces("a space or the end of the line after the agent")?;
    let last = quoted(&mut cursor, "`\"` before the compression", "`\"` after the compression")?;
    field(out, "compression", last);
    cursor.end("the end of the line")
}

/// Fields at the end of a line of the error log, in the order in which nginx writes them. Quoted ones are in double
/// quotes.
const CONTEXT: [(&str, &str, bool); 7] = [
    ("client", "client", false),
    ("server", "server", false),
    ("request", "request", true),
    ("subrequest", "subrequest", true),
    ("upstream", "upstream", true),
    ("host", "host", true),
    ("referrer", "referer", true),
];

/// Length of `2021/04/01 13:02:31`.
const TIME: usize = 19;

/// Writes the fields of a line of the error log, whose time is in the time zone `zone`.
pub(crate) fn error(text: &str, zone: &Zone, out: &mut Writer<'_>) -> Result<(), Stop> {
    let mut cursor = Cursor::trimmed(text);
    let start = cursor.at();
    let expected = "a time such as `2021/04/01 13:02:31`";
    let stop = || Stop::new(start, expected);
    let time = cursor.take(TIME).ok_or_else(stop)?;
    let time = zone.of_civil(time).ok_or_else(stop)?;
    out.key("timestamp");
    out.str(&time);
    cursor.spaces("a space after the time")?;
    cursor.expect(b'[', "`[` before the severity")?;
    let severity = cursor.until(b']').ok_or_else(|| cursor.stop("`]` after the severity"))?;
    field(out, "severity", severity);
    cursor.skip(b']');
    cursor.spaces("a space after the severity")?;
    out.key("pid");
    out.u64(cursor.number("the number of the process")?);
    cursor.expect(b'#', "`#` before the number of the thread")?;
    out.key("tid");
    out.u64(cursor.number("the number of the thread")?);
    cursor.expect(b':', "`:` after the number of the thread")?;
    cursor.spaces("a space before the message")?;
    if cursor.skip(b'*') {
        out.key("cid");
        out.u64(cursor.number("the number of the connection")?);
        cursor.spaces("a space before the message")?;
    }
    message(cursor.rest(), out);
    Ok(())
}

/// Writes the message and the fields after it. The fields begin at the first position after which
/// the text consists only of fields.
fn message(text: &str, out: &mut Writer<'_>) {
    let mut at = 0;
    let mut context = None;
    while let Some(comma) = memchr::memmem::find(&text.as_bytes()[at..], b", ") {
        at += comma;
        if let Some(found) = split_context(&text[at..]) {
            context = Some((at, found));
            break;
        }
        at += 2;
    }
    let (end, values) = context.unwrap_or((text.len(), [None; 7]));
    field(out, "message", &text[..end]);
    for ((_, key, _), value) in CONTEXT.iter().zip(values) {
        if let Some(value) = value {
            out.key(key);
            out.str(value);
        }
    }
}

/// Splits a text of fields such as `, client: 127.0.0.1, server: localhost`. Returns `None` if the text has any other
/// contents.
fn split_context(mut text: &str) -> Option<[Option<&str>; 7]> {
    let mut values = [None; 7];
    for (at, ((name, _, is_quoted), value)) in CONTEXT.iter().zip(&mut values).enumerate() {
        let after = text.strip_prefix(", ").and_then(|text| text.strip_prefix(name));
        let Some(after) = after.and_then(|text| text.strip_prefix(": ")) else { continue };
        if *is_quoted {
            let inner = after.strip_prefix('"')?;
            let end = quoted_end(inner, &CONTEXT[at + 1..])?;
            (*value, text) = (Some(&inner[..end]), &inner[end + 1..]);
        } else {
            let end = after.find(',').unwrap_or(after.len());
            (*value, text) = (Some(&after[..end]), &after[end..]);
        }
    }
    text.is_empty().then_some(values)
}

/// Returns the position of the quotation mark that ends a quoted field. nginx does not escape quotation marks in the
/// error log, so the mark is the first one that one of the fields `later` or the end of the text follows.
fn quoted_end(text: &str, later: &[(&str, &str, bool)]) -> Option<usize> {
    // Without this check, each of many fields in a message would be searched to the end of the text.
    let last = text.strip_suffix('"')?.len();
    let is_end = |quote: &usize| {
        let after = text[quote + 1..].strip_prefix(", ");
        let mut after = later.iter().filter_map(|(name, ..)| after?.strip_prefix(name));
        after.any(|after| after.starts_with(": \""))
    };
    memchr::memchr_iter(b'"', text.as_bytes()).find(is_end).or(Some(last))
}

#[cfg(test)]
mod tests {
    use crate::{format::Parser, testing::parsed};

    #[test]
    fn combined_line_becomes_fields() {
        let parser = &mut Parser::NginxCombined;
        let line = r#"172.17.0.1 - alice [01/Apr/2021:12:02:31 +0000] "POST /not-found?q=1 HTTP/1.1" 404 153 "http://localhost/somewhere" "Mozilla/5.0 (X11)" "2.75""#;
        let expected = r#"{"client":"172.17.0.1","user":"alice","timestamp":"2021-04-01T12:02:31Z","request":"POST /not-found?q=1 HTTP/1.1","method":"POST","path":"/not-found?q=1","protocol":"HTTP/1.1","status":404,"size":153,"referer":"http://localhost/somewhere","agent":"Mozilla/5.0 (X11)","compression":"2.75"}"#;
        assert_eq!(parsed(parser, line).as_deref(), Ok(expected));
        let line = r#" - - - [01/Apr/2021:12:02:31 +0200] "\x16\x03\x01" 400 0 "-" "-"  "#;
        let expected = r#"{"timestamp":"2021-04-01T10:02:31Z","request":"\\x16\\x03\\x01","status":400,"size":0}"#;
        assert_eq!(parsed(parser, line).as_deref(), Ok(expected));
    }

    #[test]
    fn user_may_have_spaces_and_brackets() {
        let parser = &mut Parser::NginxCombined;
        for (user, expected) in [
            ("john smith", Some("john smith")),
            ("a [b", Some("a [b")),
            ("[b] [10/Oct/2000:13:55:36 -0700]", Some("[b] [10/Oct/2000:13:55:36 -0700]")),
            ("- - [x] ]", Some("- - [x] ]")),
            (r"a] \x22GET / HTTP/1.1\x22", Some(r"a] \x22GET / HTTP/1.1\x22")),
            ("j\u{e4} \u{e4}", Some("j\u{e4} \u{e4}")),
            ("-", None),
            (" ", None),
            ("  ", None),
        ] {
            let line =
                format!(r#"::1 - {user} [01/Apr/2021:12:02:31 +0000] "] [GET" 200 1 "-" "x""#);
            let value = parsed(parser, &line).unwrap();
            let value: serde_json::Value = serde_json::from_str(&value).unwrap();
            assert_eq!(value.get("user").and_then(|user| user.as_str()), expected, "{value}");
            assert_eq!(value["timestamp"], "2021-04-01T12:02:31Z", "{value}");
            assert_eq!(value["request"], "] [GET", "{value}");
        }
        let two = "::1 - a\n::1 - b [01/Apr/2021:12:02:31 +0000] \"GET\" 200 1 \"-\" \"x\"";
        let error = parsed(parser, two).unwrap_err();
        assert!(error.starts_with("expected `[` before the time at byte 12"), "{error}");
    }

    #[test]
    fn combined_line_that_is_cut_stops_where_it_ends() {
        let parser = &mut Parser::NginxCombined;
        let line = r#"::1 - - [01/Apr/2021:12:02:31 +0000] "GET / HTTP/2.0" 200 1 "-" "x""#;
        assert!(parsed(parser, line).is_ok());
        for end in 0..line.len() {
            let error = parsed(parser, &line[..end]).unwrap_err();
            assert!(error.starts_with("expected "), "{error}");
        }
        for (text, expected) in [
            (
                "::1 - - [01/Apr/2021:12:02:31 +0000] GET",
                "expected `\"` before the request at byte 37, found \"GET\"",
            ),
            (
                "::1 - - [01/Apr/2021]",
                "expected a time such as `10/Oct/2000:13:55:36 -0700` at byte 9, found \"01/Apr/2021]\"",
            ),
            ("no log line", "expected `-` after the client at byte 3, found \"log line\""),
        ] {
            assert_eq!(parsed(parser, text).unwrap_err(), expected);
        }
        let large = line.replace("200", "99999999999999999999");
        let error = parsed(parser, &large).unwrap_err();
        assert!(error.starts_with("expected a status of at most 64 bits at byte 54"), "{error}");
        let more = format!("{line} \"1\" 2");
        assert!(parsed(parser, &more).unwrap_err().contains("the end of the line"));
    }

    #[test]
    fn error_line_becomes_fields() {
        let parser = &mut Parser::NginxError(super::Zone::utc());
        for (line, expected) in [
            (
                r#"2021/04/01 13:02:31 [error] 31#32: *1 open() "/a, b" failed (2: No such file or directory), client: 172.17.0.1, server: localhost, request: "POST / HTTP/1.1", host: "localhost:8081", referrer: "http://x/""#,
                r#"{"timestamp":"2021-04-01T13:02:31Z","severity":"error","pid":31,"tid":32,"cid":1,"message":"open() \"/a, b\" failed (2: No such file or directory)","client":"172.17.0.1","server":"localhost","request":"POST / HTTP/1.1","host":"localhost:8081","referer":"http://x/"}"#,
            ),
            (
                r#"2021/04/01 13:02:31 [error] 31#32: *1 x, client: ::1, server: a b, request: "GET /?q="x", "y" HTTP/1.1", upstream: "http://u/?q="x"", host: "h"o"st", referrer: """#,
                r#"{"timestamp":"2021-04-01T13:02:31Z","severity":"error","pid":31,"tid":32,"cid":1,"message":"x","client":"::1","server":"a b","request":"GET /?q=\"x\", \"y\" HTTP/1.1","upstream":"http://u/?q=\"x\"","host":"h\"o\"st","referer":""}"#,
            ),
            (
                r#"2021/04/01 13:02:31 [error] 31#32: *1 x, client: ::1, request: "GET /"#,
                r#"{"timestamp":"2021-04-01T13:02:31Z","severity":"error","pid":31,"tid":32,"cid":1,"message":"x, client: ::1, request: \"GET /"}"#,
            ),
            (
                "2021/04/01 13:02:31 [notice] 1#1: signal 17 (SIGCHLD) received, client: none, other: 1",
                r#"{"timestamp":"2021-04-01T13:02:31Z","severity":"notice","pid":1,"tid":1,"message":"signal 17 (SIGCHLD) received, client: none, other: 1"}"#,
            ),
        ] {
            assert_eq!(parsed(parser, line).as_deref(), Ok(expected));
        }
        let error = parsed(parser, "2021/04/01 13:02:31 error").unwrap_err();
        assert!(error.starts_with("expected `[` before the severity at byte 20"), "{error}");
        assert!(parsed(parser, "2021/02/30 13:02:31 [error] 1#1: x").is_err());
    }
}
