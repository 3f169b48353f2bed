//! The OpenTelemetry protocol: what its requests are, and what they are answered with.

use hyper::{
    HeaderMap, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use tremor_pdk::Value;

/// What requests have in them.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Log records, at `/v1/logs`.
    Logs,
    /// Metrics, at `/v1/metrics`.
    Metrics,
    /// Spans, at `/v1/traces`.
    Traces,
    /// Any of these, each at its path.
    Any,
}

/// What a body in protobuf gets before it that says its signal: field 1,000, which no request has, and the number
/// of the signal. The codec `otlp` with `signal: any` reads it.
type Mark = [u8; 3];

impl Signal {
    /// Where requests of one signal come to.
    pub(crate) const fn path(self) -> Option<&'static str> {
        match self {
            Self::Logs => Some("/v1/logs"),
            Self::Metrics => Some("/v1/metrics"),
            Self::Traces => Some("/v1/traces"),
            Self::Any => None,
        }
    }

    /// How bodies are marked that come to this path, where requests of any signal come; none where it is no path
    /// of theirs.
    pub(crate) fn mark(path: &str) -> Option<Mark> {
        let signals = [(1, Self::Logs), (2, Self::Metrics), (3, Self::Traces)];
        let found = signals.into_iter().find(|(_, signal)| signal.path() == Some(path));
        found.map(|(number, _)| [0xc0, 0x3e, number])
    }
}

/// How a request is encoded, and its answer with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// As the header says, whatever its parameters are; none where it says something else.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(CONTENT_TYPE)?.as_bytes();
        let name = value.split(|byte| *byte == b';').next()?.trim_ascii();
        [Self::Protobuf, Self::Json]
            .into_iter()
            .find(|it| name.eq_ignore_ascii_case(it.content_type().as_bytes()))
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    pub(crate) const fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.content_type())
    }

    /// The body of an answer: an empty response where all is well, which says that nothing was rejected, and a
    /// `Status` with the message otherwise.
    pub(crate) fn body(self, message: &str) -> Bytes {
        let message = message.trim_end();
        match (self, message) {
            (Self::Protobuf, "") => Bytes::new(),
            (Self::Json, "") => Bytes::from_static(b"{}"),
            (Self::Protobuf, message) => {
                // The field `message` of `google.rpc.Status`.
                let mut body = vec![2 << 3 | 2];
                let mut length = message.len();
                while length >= 1 << 7 {
                    body.push(0x80 | length.to_le_bytes()[0]);
                    length >>= 7;
                }
                body.push(length.to_le_bytes()[0]);
                body.extend_from_slice(message.as_bytes());
                body.into()
            }
            (Self::Json, message) => {
                let mut status = tremor_pdk::Object::new();
                status.insert("message", Value::from(message.to_owned()));
                Value::Object(status).to_string().into()
            }
        }
    }
}

/// What the protocol has for a status: success is 200 and no other, and what failed here may be sent again.
pub(crate) fn status(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::ACCEPTED => StatusCode::OK,
        StatusCode::INTERNAL_SERVER_ERROR => StatusCode::SERVICE_UNAVAILABLE,
        status => status,
    }
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, header::CONTENT_TYPE};

    use super::Encoding;

    #[test]
    fn the_content_type_says_how_a_request_is_encoded() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            Encoding::of(&headers)
        };
        assert_eq!(of("application/x-protobuf"), Some(Encoding::Protobuf));
        assert_eq!(of("Application/JSON; charset=utf-8"), Some(Encoding::Json));
        assert_eq!(of("application/jsonl"), None);
        assert_eq!(Encoding::of(&HeaderMap::new()), None);
    }

    #[test]
    fn a_status_has_its_message_in_either_encoding() {
        assert_eq!(Encoding::Protobuf.body("no\n"), &b"\x12\x02no"[..]);
        let long = Encoding::Protobuf.body(&"x".repeat(300));
        assert_eq!((&long[..3], long.len()), (&b"\x12\xac\x02"[..], 303));
        assert_eq!(Encoding::Json.body("no \"end\"\n"), &br#"{"message":"no \"end\""}"#[..]);
        assert_eq!(
            (Encoding::Protobuf.body(""), Encoding::Json.body("")),
            ("".into(), "{}".into())
        );
    }
}
