//! Encodings and responses of the OpenTelemetry protocol.

use hyper::{
    HeaderMap, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use tremor_pdk::Value;

/// Encoding of a request, and of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// Returns the encoding that `Content-Type` names, or `None` if that is not an encoding of
    /// OTLP. Parameters of the type are ignored.
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

    /// Returns the body of a response. An empty `message` means success: the body is then a
    /// response that reports no rejected items. Otherwise the body is a `Status` with the message.
    pub(crate) fn body(self, message: &str) -> Bytes {
        let message = message.trim_end();
        match (self, message) {
            (Self::Protobuf, "") => Bytes::new(),
            (Self::Json, "") => Bytes::from_static(b"{}"),
            (Self::Protobuf, message) => {
                // Field 2 (`message`) of `google.rpc.Status`.
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

/// Converts a status to the status that OTLP defines for the case: 200 for every success, and 503
/// instead of 500, because exporters send a request again after 503, but not after 500.
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
    fn content_type_determines_encoding() {
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
    fn status_contains_its_message_in_either_encoding() {
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
