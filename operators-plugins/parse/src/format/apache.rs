//! The access logs of Apache: `common` and `combined`.

use tremor_pdk::Writer;

use super::request::{field, request_line, time, user};
use crate::stop::{Cursor, Stop};

/// Takes a text between double quotes, in which Apache writes a double quote as `\"`. A `-` without quotes stands for a
/// missing text.
fn quoted<'t>(
    cursor: &mut Cursor<'t>,
    before: &'static str,
    after: &'static str,
) -> Result<&'t str, Stop> {
    if cursor.skip(b'-') {
        return Ok("-");
    }
    cursor.expect(b'"', before)?;
    let rest = cursor.rest();
    let bytes = rest.as_bytes();
    let mut end = 0;
    loop {
        let found = bytes.get(end..).and_then(|bytes| memchr::memchr2(b'"', b'\\', bytes));
        end += found.ok_or_else(|| cursor.stop(after))?;
        if bytes[end] == b'"' {
            break;
        }
        // Skip two bytes: if the escaped character has more bytes, none of the others is a quote or
        // a backslash.
        end += 2;
    }
    let text = &rest[..end];
    cursor.take(end);
    cursor.skip(b'"');
    Ok(text)
}

/// Takes a number. Returns `None` for a `-`, which stands for a missing number.
fn number(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<Option<u64>, Stop> {
    if cursor.skip(b'-') { Ok(None) } else { cursor.number(expected).map(Some) }
}

/// Writes the fields of a line in the format `common`, or in the format `combined`, which has two more.
pub(crate) fn access(text: &str, is_combined: bool, out: &mut Writer<'_>) -> Result<(), Stop> {
    let mut cursor = Cursor::trimmed(text);
    field(out, "host", cursor.word("the host")?);
    cursor.spaces("a space after the host")?;
    field(out, "identity", cursor.word("the identity")?);
    cursor.spaces("a space after the identity")?;
    field(out, "user", user(&mut cursor)?);
    time(&mut cursor, out)?;
    cursor.spaces("a space after the time")?;
    let request = quoted(&mut cursor, "`\"` before the request", "`\"` after the request")?;
    field(out, "message", request);
    request_line(out, request);
    cursor.spaces("a space after the request")?;
    for (key, expected, after) in [
        ("status", "a status", Some("a space after the status")),
        ("size", "a size", is_combined.then_some("a space after the size")),
    ] {
        if let Some(number) = number(&mut cursor, expected)? {
            out.key(key);
            out.u64(number);
        }
        after.map_or(Ok(()), |after| cursor.spaces(after))?;
    }
    if is_combined {
        let referrer = quoted(&mut cursor, "`\"` before the referrer", "`\"` after the referrer")?;
        field(out, "referrer", referrer);
        cursor.spaces("a space after the referrer")?;
        let agent = quoted(&mut cursor, "`\"` before the agent", "`\"` after the agent")?;
        field(out, "agent", agent);
    }
    cursor.end("the end of the line")
}

#[cfg(test)]
mod tests {
    use crate::{format::Parser, testing::parsed};

    const COMMON: &str = r#"127.0.0.1 bob frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;

    #[test]
    fn common_line_becomes_fields() {
        let parser = &mut Parser::Apache { is_combined: false };
        let expected = r#"{"host":"127.0.0.1","identity":"bob","user":"frank","timestamp":"2000-10-10T20:55:36Z","message":"GET /apache_pb.gif HTTP/1.0","method":"GET","path":"/apache_pb.gif","protocol":"HTTP/1.0","status":200,"size":2326}"#;
        assert_eq!(parsed(parser, COMMON).as_deref(), Ok(expected));
        let line = r#"- - - [10/Oct/2000:13:55:36 +0000] "-" 408 -"#;
        let expected = r#"{"timestamp":"2000-10-10T13:55:36Z","status":408}"#;
        assert_eq!(parsed(parser, line).as_deref(), Ok(expected));
        let error = parsed(parser, &format!("{COMMON} \"-\" \"x\"")).unwrap_err();
        assert!(error.starts_with("expected the end of the line at byte 87"), "{error}");
    }

    #[test]
    fn user_may_have_spaces_brackets_and_quotes() {
        let parser = &mut Parser::Apache { is_combined: false };
        for user in ["john smith", "\"\"", "a [b] \\\"x] \\\"", "[10/Oct/2000:13:55:36 -0700] c"] {
            let line = COMMON.replace("frank", user);
            let value = parsed(parser, &line).unwrap();
            let value: serde_json::Value = serde_json::from_str(&value).unwrap();
            assert_eq!((&value["identity"], &value["user"]), (&"bob".into(), &user.into()));
            assert_eq!(value["timestamp"], "2000-10-10T20:55:36Z");
        }
    }

    #[test]
    fn combined_line_has_escaped_quotes() {
        let parser = &mut Parser::Apache { is_combined: true };
        let line = format!(r#"{COMMON} "-" "a \"b\" \\""#);
        let text = parsed(parser, &line).unwrap();
        assert!(text.ends_with(r#""size":2326,"agent":"a \\\"b\\\" \\\\"}"#), "{text}");
        for end in 0..line.len() {
            let error = parsed(parser, &line[..end]).unwrap_err();
            assert!(error.starts_with("expected "), "{error}");
        }
    }
}
