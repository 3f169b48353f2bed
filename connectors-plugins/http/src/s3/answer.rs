//! Interpretation of responses of S3: success, retry, a state that only a person can change, or dead letter.

use hyper::StatusCode;
use tremor_pdk::{Error, ErrorPolicy};

use super::xml;
use crate::exchange::{
    Answer, Secrets,
    answer::{SHOWN, printable},
};

/// Codes of errors because of the contents or the key of an object.
const BY_OBJECT: [&str; 6] = [
    "EntityTooLarge",
    "InvalidURI",
    "KeyTooLongError",
    "MaxMessageLengthExceeded",
    "XMinioInvalidObjectName",
    "XMinioInvalidResourceName",
];

/// Codes of errors after which the same request is likely to succeed soon.
const TRANSIENT: [&str; 7] = [
    "BadDigest",
    "IncompleteBody",
    "InternalError",
    "OperationAborted",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
];

/// Codes of errors after which the keys of the request may be replaced by newer ones.
const BY_KEYS: [&str; 4] =
    ["ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"];

/// Failure of a request.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// Code of S3, such as `NoSuchBucket`. Empty if the server sent none, and without a response.
    pub(super) code: String,
    /// Status of the response.
    pub(super) status: Option<StatusCode>,
    /// The policy is to retry, unless the object cannot be stored.
    pub(super) error: Error,
    /// `true` if the same request may succeed soon.
    pub(super) is_transient: bool,
}

impl Failure {
    /// Returns the failure of a request without a complete response, whose outcome is unknown.
    pub(super) fn of_connection(error: Error) -> Self {
        let is_transient = error.policy() == ErrorPolicy::RETRY;
        Self { code: String::new(), status: None, error: retried(error), is_transient }
    }

    /// Returns the failure of a request that was not sent, for example without keys for its signature.
    pub(super) fn of_preparation(error: Error) -> Self {
        Self { code: String::new(), status: None, error: retried(error), is_transient: false }
    }

    /// Returns whether the server does not accept the keys.
    pub(super) fn is_by_keys(&self) -> bool {
        BY_KEYS.contains(&&*self.code)
    }

    /// Returns whether the server has no such upload.
    pub(super) fn has_no_upload(&self) -> bool {
        self.code == "NoSuchUpload"
    }
}

/// Sets the policy to retry, unless the events go to the dead letters, so that the runtime neither ends the flow nor
/// reconnects the connector, which has no permanent connection.
fn retried(error: Error) -> Error {
    if error.policy() == ErrorPolicy::DEAD_LETTER {
        error
    } else {
        error.with_policy(ErrorPolicy::RETRY)
    }
}

/// Returns the body of a successful response.
///
/// # Errors
/// The status is not that of a success, or the body of a response with the status 200 describes an error. S3 sends such a
/// body if the error occurs after the status was sent.
pub(super) fn check<'a>(
    answer: &'a Answer,
    region: &str,
    secrets: &Secrets,
) -> Result<&'a str, Failure> {
    let body = str::from_utf8(&answer.body).unwrap_or_default();
    // A success has no body, or a body with another root element.
    let is_error = xml::elements(body, "Error").next().is_some();
    if answer.status.is_success() && !is_error {
        return Ok(body);
    }
    let code = xml::text(body, "Code").unwrap_or_default();
    let is_code = |it: &u8| it.is_ascii_alphanumeric() || b"._-".contains(it);
    let is_code = code.len() <= 64 && code.as_bytes().iter().all(is_code);
    let code = if is_code { code.into_owned() } else { String::new() };
    let status = answer.status;
    let mut text = format!("the server answered with {}", status.as_u16());
    if !code.is_empty() {
        text.extend([" ", &code]);
    } else if let Some(reason) = status.canonical_reason() {
        text.extend([" ", reason]);
    }
    let message = xml::text(body, "Message").unwrap_or_default();
    let message = printable(&secrets.redacted(message.as_bytes(), SHOWN));
    if !message.is_empty() {
        text.extend([": ", message.trim_end_matches('.')]);
    }
    let found = answer.headers.get("x-amz-bucket-region").and_then(|it| it.to_str().ok());
    let found = found.map(str::to_owned).or_else(|| xml::text(body, "Region").map(Into::into));
    let other =
        found.filter(|found| found != region && found.bytes().all(|it| it.is_ascii_graphic()));
    let error = match (&*code, status) {
        (code, _) if BY_OBJECT.contains(&code) => {
            Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER)
        }
        (
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "TemporaryRedirect"
            | "IllegalLocationConstraintException",
            _,
        )
        | (_, StatusCode::MOVED_PERMANENTLY | StatusCode::TEMPORARY_REDIRECT) => {
            let remedy = match other {
                Some(other) => format!("the bucket is in the region `{other}`, so set `region: {other}`"),
                None => "set `region` to the region of the bucket, and check `endpoint` and `path_style`".to_owned(),
            };
            Error::configuration(format_args!("{text}; {remedy}"))
        }
        ("RequestTimeTooSkewed", _) => Error::authentication(format_args!(
            "{text}; the clock of this machine differs from that of the server by more than 15 minutes: set the clock"
        )),
        ("InvalidAccessKeyId", _) => {
            Error::authentication(format_args!("{text}; check the access key ID of `credentials`"))
        }
        ("SignatureDoesNotMatch", _) => Error::authentication(format_args!(
            "{text}; check the secret access key of `credentials`"
        )),
        ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired", _) => {
            Error::authentication(format_args!("{text}; renew the session token of `credentials`"))
        }
        ("NoSuchBucket", _) => Error::configuration(format_args!(
            "{text}; create the bucket, or check `bucket` and `endpoint`"
        )),
        (_, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) => {
            Error::authentication(format_args!(
                "{text}; check `credentials`, and that they allow `s3:PutObject` and `s3:AbortMultipartUpload` for \
             `bucket`"
            ))
        }
        (_, StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT) => Error::timeout(text),
        (code, status)
            if status.is_server_error()
                || status == StatusCode::TOO_MANY_REQUESTS
                || TRANSIENT.contains(&code) =>
        {
            Error::full(text)
        }
        _ if answer.status.is_success() => Error::full(text),
        _ => Error::configuration(format_args!("{text}; check the configuration of the connector")),
    };
    let is_transient = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || answer.status.is_success()
        || TRANSIENT.contains(&&*code);
    let is_transient = is_transient && error.policy() != ErrorPolicy::DEAD_LETTER;
    Err(Failure { code, status: Some(status), error: retried(error), is_transient })
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;
    use tremor_pdk::{ErrorKind, ErrorPolicy};

    use super::{Failure, check};
    use crate::exchange::{Answer, Secrets};

    fn answer(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        Answer { status, body: body.as_bytes().to_vec(), ..Answer::default() }
    }

    fn failure(status: u16, code: &str) -> Failure {
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>It failed.</Message></Error>"
        );
        check(&answer(status, &body), "eu-west-1", &Secrets::default()).unwrap_err()
    }

    #[test]
    fn states_of_the_connector_name_their_remedy() {
        for (status, code, kind, remedy) in [
            (403, "InvalidAccessKeyId", ErrorKind::AUTHENTICATION, "the access key ID"),
            (403, "SignatureDoesNotMatch", ErrorKind::AUTHENTICATION, "the secret access key"),
            (403, "AccessDenied", ErrorKind::AUTHENTICATION, "`s3:PutObject`"),
            (403, "RequestTimeTooSkewed", ErrorKind::AUTHENTICATION, "set the clock"),
            (400, "ExpiredToken", ErrorKind::AUTHENTICATION, "renew the session token"),
            (404, "NoSuchBucket", ErrorKind::CONFIGURATION, "create the bucket"),
            (301, "PermanentRedirect", ErrorKind::CONFIGURATION, "set `region`"),
            (400, "InvalidStorageClass", ErrorKind::CONFIGURATION, "check the configuration"),
        ] {
            let found = failure(status, code);
            let text = found.error.to_string();
            assert!(
                text.starts_with(&format!("the server answered with {status} {code}: It failed")),
                "{text}"
            );
            assert!(text.contains(remedy), "{text}");
            assert_eq!(
                (found.error.kind(), found.error.policy()),
                (kind, ErrorPolicy::RETRY),
                "{code}"
            );
            assert!(!found.is_transient, "{code}");
        }
    }

    #[test]
    fn overload_is_transient_and_refused_object_is_a_dead_letter() {
        for (status, code) in [
            (503, "SlowDown"),
            (500, "InternalError"),
            (400, "RequestTimeout"),
            (409, "OperationAborted"),
            (507, "XMinioStorageFull"),
            (429, ""),
            (200, "InternalError"),
        ] {
            let found = failure(status, code);
            assert!(found.is_transient && found.error.policy() == ErrorPolicy::RETRY, "{code}");
        }
        for (status, code) in [(400, "EntityTooLarge"), (400, "KeyTooLongError")] {
            let found = failure(status, code);
            assert!(
                !found.is_transient && found.error.policy() == ErrorPolicy::DEAD_LETTER,
                "{code}"
            );
        }
    }

    #[test]
    fn region_of_the_bucket_is_shown() {
        let body =
            "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region></Error>";
        let found = check(&answer(400, body), "us-east-1", &Secrets::default()).unwrap_err();
        assert!(found.error.to_string().contains("set `region: eu-central-1`"), "{}", found.error);
    }

    #[test]
    fn response_without_xml_shows_its_status() {
        for body in ["", "<html>", "\u{0}"] {
            let found = check(&answer(502, body), "r", &Secrets::default()).unwrap_err();
            assert_eq!(found.error.to_string(), "the server answered with 502 Bad Gateway");
        }
        assert_eq!(check(&answer(204, ""), "r", &Secrets::default()).unwrap(), "");
    }
}
