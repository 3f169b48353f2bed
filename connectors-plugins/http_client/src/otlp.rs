//! The OpenTelemetry protocol: where its requests go, and what responses say.

use hyper::{StatusCode, header::CONTENT_TYPE};
use tremor_pdk::serde::Deserialize;

use crate::line::Answer;

/// What requests have in them.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Log records, for `/v1/logs`.
    Logs,
    /// Metrics, for `/v1/metrics`.
    Metrics,
    /// Spans, for `/v1/traces`.
    Traces,
    /// Any of these, each for its path.
    Any,
}

impl Signal {
    /// Those that a request may have, by the keys that they have in JSON and the numbers in protobuf, from 1 on.
    const ALL: [(Self, &'static [u8]); 3] = [
        (Self::Logs, b"resourceLogs"),
        (Self::Metrics, b"resourceMetrics"),
        (Self::Traces, b"resourceSpans"),
    ];

    /// Where requests of one signal go.
    pub(crate) const fn path(self) -> Option<&'static str> {
        match self {
            Self::Logs => Some("/v1/logs"),
            Self::Metrics => Some("/v1/metrics"),
            Self::Traces => Some("/v1/traces"),
            Self::Any => None,
        }
    }

    /// What a message says that it has, and the request: the codec `otlp` with `signal: any` begins those in protobuf
    /// with a field of its own, 1,000, and those in JSON have one key.
    pub(crate) fn split(message: &[u8]) -> (Option<Self>, &[u8]) {
        if let Some([0xc0, 0x3e, number @ 1..=3]) = message.first_chunk() {
            return (Some(Self::ALL[usize::from(*number) - 1].0), &message[3..]);
        }
        let key = message.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
        let key = key.and_then(|rest| rest.strip_prefix(b"\"")?.split(|byte| *byte == b'"').next());
        let found = Self::ALL.into_iter().find(|(_, name)| key == Some(*name));
        (found.map(|(signal, _)| signal), message)
    }
}

/// Whether the same may be sent again after this status: after no other.
pub(crate) fn may_retry(status: StatusCode) -> bool {
    [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status)
}

/// What a response says although all is well.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialSuccess {
    /// How many records, points or spans the peer has not taken.
    pub(crate) rejected: i64,
    /// Why, or what else there is to say.
    pub(crate) message: String,
}

impl PartialSuccess {
    /// As a response has it; nothing where it has none, or is no such response.
    pub(crate) fn of(answer: &Answer) -> Option<Self> {
        let content_type = answer.headers.get(CONTENT_TYPE).map_or(&b""[..], |it| it.as_bytes());
        let is_json = content_type.to_ascii_lowercase().starts_with(b"application/json");
        let found = if is_json {
            Self::of_json(&answer.body)
        } else {
            Some(Self::of_protobuf(&answer.body))
        };
        found.filter(|found| *found != Self::default())
    }

    fn of_json(body: &[u8]) -> Option<Self> {
        /// An integer of 64 bits, which is text in the protocol's JSON.
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
            #[serde(default)]
            error_message: String,
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
        Some(Self { rejected, message: partial.error_message })
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

/// A field of a message in protobuf.
struct Field<'b> {
    number: u64,
    value: Wire<'b>,
}

enum Wire<'b> {
    Varint(u64),
    Bytes(&'b [u8]),
}

impl<'b> Field<'b> {
    /// What it has, if it is this field.
    fn bytes(self, number: u64) -> Option<&'b [u8]> {
        match self.value {
            Wire::Bytes(bytes) if self.number == number => Some(bytes),
            _ => None,
        }
    }
}

/// The fields of a message that are integers or have a length, up to the first that is neither, or broken.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Field<'b>;

    fn next(&mut self) -> Option<Field<'b>> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Wire::Bytes(bytes)
            }
            _ => return None,
        };
        Some(Field { number: key >> 3, value })
    }
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, StatusCode, header::CONTENT_TYPE};

    use super::PartialSuccess;
    use crate::line::Answer;

    fn of(content_type: &str, body: &[u8]) -> Option<(i64, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
        let answer = Answer { status: StatusCode::OK, headers, body: body.to_vec(), is_cut: false };
        PartialSuccess::of(&answer).map(|it| (it.rejected, it.message))
    }

    #[test]
    fn a_response_says_what_was_rejected_in_either_encoding() {
        let three = Some((3, "too old".to_owned()));
        assert_eq!(of("application/x-protobuf", b"\x0a\x0b\x08\x03\x12\x07too old"), three);
        let json = br#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#;
        assert_eq!(of("application/json; charset=utf-8", json), three);
        let json = br#"{"partialSuccess":{"rejectedSpans":3,"errorMessage":"too old"}}"#;
        assert_eq!(of("application/json", json), three);
        let warning = br#"{"partialSuccess":{"errorMessage":"slow down"}}"#;
        assert_eq!(of("application/json", warning), Some((0, "slow down".to_owned())));
    }

    #[test]
    fn a_response_that_says_nothing_or_is_none_is_a_success() {
        for body in [&b""[..], b"\x0a\x00", b"\x0a\x7f", b"\xff\xff\xff", b"<html>"] {
            assert_eq!(of("application/x-protobuf", body), None, "{body:?}");
        }
        for body in [&b"{}"[..], br#"{"partialSuccess":{}}"#, b"", b"[]", b"{\"partialSuccess\":1}"]
        {
            assert_eq!(of("application/json", body), None, "{body:?}");
        }
    }
}
