//! The Graylog Extended Log Format, according to <https://go2docs.graylog.org/current/getting_in_log_data/gelf.html>. A
//! message is a JSON object.
//!
//! ```text
//! {"version":"1.1","host":"shop-1","short_message":"paid","timestamp":1385053862.307,"level":6,"_user":42}
//! ```
//! ```json
//! {"version":"1.1","host":"shop-1","short_message":"paid","timestamp":1385053862307000000,"level":6,"_user":42}
//! ```
//!
//! | key | value |
//! |---|---|
//! | `version` | text; when encoding, always `1.1` |
//! | `host`, `short_message` | text, required |
//! | `full_message` | text |
//! | `timestamp` | ns since the Unix epoch, exact to µs; seconds with a fraction in the message |
//! | `level` | a severity of syslog, from 0 to 7 |
//! | other keys | additional fields, whose names begin with `_` |
//!
//! For encoding, `_` is put before the names of other keys. The fields of a nested object have names such as
//! `_http_status`. GELF allows only text and numbers as values of additional fields: truth values become text, arrays
//! become text that contains JSON, and `null` is omitted. A name with other characters than ASCII letters and digits,
//! `_`, `.` and `-` is bad data, and so are `_id`, which the format reserves, and two fields with the same name.

mod encode;
mod timestamp;

use tremor_abi::document::{Node, Shape, ValueRef};

pub(super) use self::encode::encode;
use super::{
    Error,
    buffer::{Bytes, Nodes, Span},
    json, raw,
};

/// Decodes the message at `span`.
///
/// # Errors
/// Returns an error of kind "bad data" if the message is not a JSON object, or lacks a required key.
pub(super) fn decode(
    json: &mut json::Decoder,
    bytes: &mut Bytes,
    mut span: Span,
    nodes: &mut Nodes,
) -> Result<u32, Error> {
    // Some senders end a message with NUL, even in datagrams.
    while bytes.get(span.range()).is_some_and(|message| message.ends_with(b"\0")) {
        span.len -= 1;
    }
    let before = (bytes.len(), nodes.len());
    let root = json.decode(bytes, span, nodes)?;
    match check(bytes, nodes, root) {
        Ok(None) => {}
        Ok(Some((position, timestamp))) => nodes[position] = Node::i64(timestamp),
        Err(error) => {
            bytes.truncate(before.0);
            nodes.truncate(before.1);
            return Err(error);
        }
    }
    Ok(root)
}

/// Checks the keys of a message. Returns the position of the node of the timestamp, and the time in ns since the Unix
/// epoch.
fn check(bytes: &[u8], nodes: &[Node], root: u32) -> Result<Option<(usize, i64)>, Error> {
    let value = raw::view(bytes, nodes, root);
    let Shape::Object(object) = value.shape() else {
        return Err(Error::expected("an object", value.shape()));
    };
    for key in ["host", "short_message"] {
        let value = object.get(key).unwrap_or(ValueRef::NULL);
        if value.as_str().is_none() {
            return Err(Error::expected(format_args!("text as `{key}`"), value.shape()));
        }
    }
    let mut value_position = root as usize + 1;
    for (key, value) in object {
        // The node of the key comes before the nodes of the value.
        value_position += 1;
        if key == "timestamp" && !value.is_null() {
            let timestamp = timestamp::read(value).ok_or_else(|| {
                Error::expected("seconds since the Unix epoch as `timestamp`", value.shape())
            })?;
            return Ok(Some((value_position, timestamp)));
        }
        let span = nodes.get(value_position).map_or(1, Node::span);
        value_position += usize::try_from(span).unwrap_or(usize::MAX / 2);
    }
    Ok(None)
}

/// Returns whether a message contains only white space and NUL.
pub(super) fn is_blank(message: &[u8]) -> bool {
    message.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests;
