//! Responses of the OpenTelemetry protocol.

use hyper::StatusCode;
use tremor_pdk::{Error, ErrorPolicy, Result, serde::Deserialize};

use crate::exchange::{
    Answer, Response,
    answer::{SHOWN, printable},
};

/// Returns whether a request may be sent again after a response with this status. OTLP allows that
/// for four statuses only.
pub(crate) fn may_retry(status: StatusCode) -> bool {
    [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status)
}

/// Returns whether a body of OTLP is JSON: no message in protobuf begins with `{`.
pub(crate) fn is_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}

/// Checks the response to an OTLP request that the server has accepted, which may report that it
/// rejected some items of the request.
///
/// # Errors
/// An error of the kind bad data if some items were rejected, or if the response cannot be read,
/// because OTLP forbids sending such a request again.
pub(crate) fn check_items(response: &Response<'_>) -> Result<()> {
    let Response { host, url, answer, secrets } = response;
    if let Some(why) = &answer.undecoded {
        let text = format!(
            "`{url}` accepted the request, but may have rejected some of its items: cannot read the response: {why}"
        );
        return Err(Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER));
    }
    let Some(PartialSuccess { rejected, message }) = PartialSuccess::of(answer) else {
        return Ok(());
    };
    let message = printable(&secrets.redacted(message.as_bytes(), SHOWN));
    if rejected == 0 {
        tremor_pdk::info!(host, "`{url}` accepted a request with a message: {message}");
        return Ok(());
    }
    let text =
        format!("`{url}` accepted the request but rejected {rejected} of its items: {message}");
    Err(Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER))
}

/// Message of an OTLP response with a successful status.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialSuccess {
    /// Number of rejected log records, data points or spans.
    pub(crate) rejected: i64,
    /// Reason of the rejection, or a warning.
    pub(crate) message: String,
}

impl PartialSuccess {
    /// Parses the response. Returns `None` if the response reports neither a rejection nor a
    /// message, or is not an OTLP response.
    pub(crate) fn of(answer: &Answer) -> Option<Self> {
        let found = if is_json(&answer.body) {
            Self::of_json(&answer.body)
        } else {
            Some(Self::of_protobuf(&answer.body))
        };
        found.filter(|found| *found != Self::default())
    }

    fn of_json(body: &[u8]) -> Option<Self> {
        /// A 64-bit integer, which the protocol's JSON encodes as text.
        #[derive(Deserialize)]
        #[serde(untagged, crate = "tremor_pdk::serde")]
        enum Integer {
            Number(i64),
            Text(String),
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", crate = "tremor_pdk::serde")]
        struct Partial {
            #[serde(
                alias = "rejectedLogRecords",
                alias = "rejectedDataPoints",
                alias = "rejectedSpans"
            )]
            rejected: Option<Integer>,
            error_message: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", crate = "tremor_pdk::serde")]
        struct Response {
            partial_success: Option<Partial>,
        }
        let partial = serde_json::from_slice::<Response>(body).ok()?.partial_success?;
        let rejected = match partial.rejected {
            None => 0,
            Some(Integer::Number(number)) => number,
            Some(Integer::Text(text)) => text.parse().ok()?,
        };
        Some(Self { rejected, message: partial.error_message.unwrap_or_default() })
    }

    fn of_protobuf(body: &[u8]) -> Self {
        let mut found = Self::default();
        for partial in Fields(body).filter_map(|field| field.bytes(1)) {
            for field in Fields(partial) {
                match field {
                    Field { number: 1, value: Wire::Varint(value) } => {
                        found.rejected = value.cast_signed();
                    }
                    field => {
                        if let Some(text) = field.bytes(2) {
                            found.message = String::from_utf8_lossy(text).into_owned();
                        }
                    }
                }
            }
        }
        found
    }
}

/// A field of a protobuf message.
struct Field<'b> {
    number: u64,
    value: Wire<'b>,
}

enum Wire<'b> {
    Varint(u64),
    Bytes(&'b [u8]),
    /// A number with a fixed length.
    Fixed,
    GroupStart,
    GroupEnd,
}

impl<'b> Field<'b> {
    /// Returns the bytes of the field if it has this number and a length.
    fn bytes(self, number: u64) -> Option<&'b [u8]> {
        match self.value {
            Wire::Bytes(bytes) if self.number == number => Some(bytes),
            _ => None,
        }
    }
}

/// Iterates over the fields of a protobuf message, without those in groups. Ends at the first field that is malformed.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for group in 0..10 {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << (7 * group);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn field(&mut self) -> Option<Field<'b>> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            3 => Wire::GroupStart,
            4 => Wire::GroupEnd,
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return None,
        };
        Some(Field { number: key >> 3, value })
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Field<'b>;

    fn next(&mut self) -> Option<Field<'b>> {
        let mut groups = 0_usize;
        loop {
            let field = self.field()?;
            match field.value {
                Wire::GroupStart => groups += 1,
                Wire::GroupEnd => groups = groups.checked_sub(1)?,
                _ if groups == 0 => return Some(field),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PartialSuccess;
    use crate::exchange::Answer;

    fn of(body: &[u8]) -> Option<(i64, String)> {
        let answer = Answer { body: body.to_vec(), ..Answer::default() };
        PartialSuccess::of(&answer).map(|it| (it.rejected, it.message))
    }

    #[test]
    fn partial_success_is_read_in_either_encoding() {
        let three = Some((3, "too old".to_owned()));
        assert_eq!(of(b"\x0a\x0b\x08\x03\x12\x07too old"), three);
        let json = br#" {"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#;
        assert_eq!(of(json), three);
        let json = br#"{"partialSuccess":{"rejectedSpans":3,"errorMessage":"too old"}}"#;
        assert_eq!(of(json), three);
        let json = br#"{"partialSuccess":{"rejectedSpans":3,"errorMessage":null}}"#;
        assert_eq!(of(json), Some((3, String::new())));
        let warning = br#"{"partialSuccess":{"errorMessage":"slow down"}}"#;
        assert_eq!(of(warning), Some((0, "slow down".to_owned())));
    }

    #[test]
    fn unknown_fields_do_not_hide_a_rejection() {
        for unknown in [
            &b"\x78\x01"[..],
            b"\x79\0\0\0\0\0\0\0\0",
            b"\x7a\x02\x08\x09",
            b"\x7b\x0b\x08\x09\x0c\x08\x09\x7c",
            b"\x7d\0\0\0\0",
        ] {
            let inner = [unknown, b"\x08\x03", unknown, b"\x12\x02no", unknown].concat();
            let length = u8::try_from(inner.len()).unwrap();
            let body = [unknown, &[0x0a, length], &inner, unknown].concat();
            // A body that begins with `{` is JSON.
            let body = if unknown[0] == b'{' { body[unknown.len()..].to_vec() } else { body };
            assert_eq!(of(&body), Some((3, "no".to_owned())), "{unknown:?}");
        }
    }

    #[test]
    fn empty_response_and_other_format_count_as_success() {
        for body in [&b""[..], b"\x0a\x00", b"\x0a\x7f", b"\xff\xff\xff", b"<html>", b"[]"] {
            assert_eq!(of(body), None, "{body:?}");
        }
        for body in [&b"{}"[..], br#"{"partialSuccess":{}}"#, b"{\"partialSuccess\":1}"] {
            assert_eq!(of(body), None, "{body:?}");
        }
    }
}
