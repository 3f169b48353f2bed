//! URLs and their queries.

use std::collections::HashMap;

use tremor_pdk::Writer;

use crate::{stop::Stop, types::Types};

/// A parser of queries, such as `a=1&b=two+words`.
#[derive(Debug, Default)]
pub(crate) struct Query {
    types: Types,
}

impl Query {
    pub(crate) fn new(types: Types) -> Self {
        Self { types }
    }

    /// Writes the pairs of a query, which begins at byte `offset` of the parsed text. The values of a key that occurs
    /// several times are an array.
    pub(crate) fn pairs(
        &self,
        query: &str,
        offset: usize,
        out: &mut Writer<'_>,
    ) -> Result<(), Stop> {
        let query_only = query.strip_prefix('?').unwrap_or(query);
        let mut at = offset + query.len() - query_only.len();
        let mut order: Vec<String> = Vec::new();
        let mut values: HashMap<String, Vec<(String, usize)>> = HashMap::new();
        for pair in query_only.split('&') {
            if !pair.is_empty() {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let value_at = at + pair.len() - value.len();
                let (key, value) = (decoded(key, at, true)?, decoded(value, value_at, true)?);
                let known = values.entry(key.clone()).or_insert_with(|| {
                    order.push(key);
                    Vec::new()
                });
                known.push((value, value_at));
            }
            at += pair.len() + 1;
        }
        for key in &order {
            out.key(key);
            let of = self.types.of(key);
            match values.get(key).map(Vec::as_slice).unwrap_or_default() {
                [(value, at)] => of.write(value, *at, out)?,
                several => {
                    out.begin_array();
                    for (value, at) in several {
                        of.write(value, *at, out)?;
                    }
                    out.end_array();
                }
            }
        }
        Ok(())
    }
}

/// Decodes `%20`, and `+` as a space if `plus` is set. `at` is the position of the text, for errors.
fn decoded(text: &str, at: usize, plus: bool) -> Result<String, Stop> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' if plus => b' ',
            b'%' => {
                let here = at + text.len() - after.len() - 1;
                let digits = after.first_chunk::<2>();
                let decoded = digits.and_then(|[high, low]| {
                    let digit = |digit: &u8| char::from(*digit).to_digit(16);
                    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
                });
                rest = after.get(2..).unwrap_or_default();
                decoded.ok_or_else(|| Stop::new(here, "two hexadecimal digits after `%`"))?
            }
            other => *other,
        });
    }
    String::from_utf8(bytes).map_err(|_| Stop::new(at, "escapes that are UTF-8"))
}

/// Writes the parts of an absolute URL, such as `https://user@host:8080/path?query#fragment`. Missing parts are left
/// out. Only the user, the password and the query are decoded.
pub(crate) fn parts(text: &str, out: &mut Writer<'_>) -> Result<(), Stop> {
    let trimmed = text.trim_ascii();
    let start = text.len() - text.trim_ascii_start().len();
    let is_scheme = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.');
    let scheme_end = trimmed.bytes().take_while(|c| is_scheme(*c)).count();
    let starts_with_letter = trimmed.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts_with_letter {
        return Err(Stop::new(start, "the scheme of a URL, such as `https`"));
    }
    let Some(rest) = trimmed[scheme_end..].strip_prefix("://") else {
        return Err(Stop::new(start + scheme_end, "`://` after the scheme"));
    };
    if let Some(space) = trimmed.find(|c: char| c.is_ascii_whitespace() || c.is_ascii_control()) {
        return Err(Stop::new(start + space, "no white space in a URL"));
    }
    out.key("scheme");
    out.str(&trimmed[..scheme_end].to_ascii_lowercase());
    let at = start + trimmed.len() - rest.len();
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    self::authority(authority, at, out)?;
    let rest = &rest[authority.len()..];
    let (rest, fragment) =
        rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (path, query) =
        rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    out.key("path");
    out.str(if path.is_empty() { "/" } else { path });
    if let Some(query) = query {
        out.key("query");
        out.begin_object();
        let at = at + authority.len() + path.len() + 1;
        Query::default().pairs(query, at, out)?;
        out.end_object();
    }
    if let Some(fragment) = fragment {
        out.key("fragment");
        out.str(fragment);
    }
    Ok(())
}

/// Writes the user, the password, the host and the port.
fn authority(text: &str, mut at: usize, out: &mut Writer<'_>) -> Result<(), Stop> {
    let mut address = text;
    if let Some((user, host)) = text.rsplit_once('@') {
        let (user, password) =
            user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
        for (key, value) in [("username", Some(user)), ("password", password)] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let value = decoded(value, at, false)?;
                out.key(key);
                out.str(&value);
            }
        }
        at += text.len() - host.len();
        address = host;
    }
    let host_end = if address.starts_with('[') {
        address.find(']').ok_or_else(|| Stop::new(at, "`]` after an IPv6 address"))? + 1
    } else {
        address.find(':').unwrap_or(address.len())
    };
    let (host, port) = address.split_at(host_end);
    if host.is_empty() {
        return Err(Stop::new(at, "a host"));
    }
    out.key("host");
    out.str(host);
    if port.is_empty() {
        return Ok(());
    }
    let digits = port.strip_prefix(':').filter(|port| port.bytes().all(|c| c.is_ascii_digit()));
    match digits {
        Some("") => Ok(()),
        digits => {
            let port = digits.and_then(|port| port.parse::<u16>().ok());
            let expected = "`:` and a port from 0 to 65535 after the host";
            let port = port.ok_or_else(|| Stop::new(at + host_end, expected))?;
            out.key("port");
            out.u64(port.into());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{parsed, parser};

    #[test]
    fn url_has_parts() {
        let mut parser = parser(json!({ "format": "url" }));
        for (text, expected) in [
            (
                "HTTPS://a%20b:p%3Aw@host.example:8443/x/y%20z?q=1&q=2&e=%C3%A4+b&f#part",
                "{\"scheme\":\"https\",\"username\":\"a b\",\"password\":\"p:w\",\"host\":\"host.example\",\"port\":8443,\"path\":\"/x/y%20z\",\"query\":{\"q\":[\"1\",\"2\"],\"e\":\"\u{e4} b\",\"f\":\"\"},\"fragment\":\"part\"}",
            ),
            ("http://[::1]:80", r#"{"scheme":"http","host":"[::1]","port":80,"path":"/"}"#),
            ("http://host:/?", r#"{"scheme":"http","host":"host","path":"/","query":{}}"#),
        ] {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("/path", "expected the scheme of a URL, such as `https` at byte 0"),
            ("http:/host", "expected `://` after the scheme at byte 4"),
            ("http:///path", "expected a host at byte 7"),
            ("http://h:65536/", "a port from 0 to 65535 after the host at byte 8"),
            ("http://[::1/", "expected `]` after an IPv6 address at byte 7"),
            ("http://h/a b", "expected no white space in a URL at byte 10"),
            ("http://h/?a=%4", "expected two hexadecimal digits after `%` at byte 12"),
            ("http://h/?a=%ff", "expected escapes that are UTF-8 at byte 12"),
        ] {
            let error = parsed(&mut parser, text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn query_has_types() {
        let mut parser = parser(json!({ "format": "query", "types": { "n": "integer" } }));
        for (text, expected) in
            [("?n=1&s=a%26b&&", r#"{"n":1,"s":"a&b"}"#), ("n=1&n=2", r#"{"n":[1,2]}"#), ("", "{}")]
        {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected), "{text}");
        }
        let error = parsed(&mut parser, "?s=1&n=x").unwrap_err();
        assert!(error.contains("an integer of at most 64 bits at byte 7"), "{error}");
    }
}
