//! Errors of librdkafka, as those of the plugin.

use rdkafka::{error::KafkaError, types::RDKafkaErrorCode as Code};
use tremor_pdk::prelude::*;

/// What an error of librdkafka asks of the runtime. `reason` is librdkafka's own text, where it has more to
/// say than the name of the error.
pub(crate) fn explain(error: &KafkaError, reason: &str) -> Error {
    // Its text would have the value, which may be a secret.
    if let KafkaError::ClientConfig(_, _, key, _) = error {
        return Error::configuration(format_args!("librdkafka refuses the value of `{key}`"));
    }
    let Some(code) = error.rdkafka_error_code() else {
        return Error::internal(format_args!("librdkafka: {error}"));
    };
    let said = if reason.is_empty() { code.to_string() } else { reason.to_owned() };
    match code {
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::ClusterAuthorizationFailed => Error::authentication(format_args!(
            "the broker does not accept this client: {said}; see `sasl` and `tls`"
        )),
        Code::SSL => {
            Error::authentication(format_args!("TLS with the broker fails: {said}; see `tls`"))
        }
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed => Error::authentication(
            format_args!("the broker does not allow that to this user: {said}; see its ACLs"),
        ),
        Code::InvalidTopic | Code::InvalidGroupId | Code::InvalidArgument => {
            Error::configuration(format_args!("the broker refuses that: {said}"))
        }
        Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::NetworkException
        | Code::BrokerNotAvailable => {
            Error::connection_refused(format_args!("no broker answers: {said}"))
        }
        _ => Error::internal(format_args!("{said} ({code:?})")),
    }
}
