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
        // Otherwise the connection broke.
        Code::SSL if ["certificate", "alert", "verif"].iter().any(|it| said.contains(it)) => {
            Error::authentication(format_args!("TLS with the broker fails: {said}; see `tls`"))
        }
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed => Error::authentication(
            format_args!("the broker does not allow that to this user: {said}; see its ACLs"),
        ),
        Code::InvalidTopic | Code::InvalidGroupId | Code::InvalidArgument => {
            Error::configuration(format_args!("the broker refuses that: {said}"))
        }
        Code::BrokerTransportFailure
        | Code::SSL
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::NetworkException
        | Code::BrokerNotAvailable => {
            Error::connection_refused(format_args!("a broker does not answer: {said}"))
        }
        _ => Error::internal(format_args!("{said} ({code:?})")),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::types::RDKafkaRespErr;

    use super::*;

    #[test]
    fn a_value_that_is_refused_is_not_shown() {
        let key = "sasl.password".to_owned();
        let error = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "hunter2 is no password".to_owned(),
            key,
            "hunter2".to_owned(),
        );
        let error = explain(&error, "").to_string();
        assert!(error.contains("sasl.password") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn what_time_mends_is_tried_again_and_what_it_does_not_is_not() {
        let error = |code: RDKafkaRespErr, reason| {
            explain(&KafkaError::Global(code.into()), reason).is_final()
        };
        assert!(error(RDKafkaRespErr::RD_KAFKA_RESP_ERR__AUTHENTICATION, "no such user"));
        assert!(error(RDKafkaRespErr::RD_KAFKA_RESP_ERR__SSL, "certificate verify failed"));
        assert!(error(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ""));
        assert!(!error(RDKafkaRespErr::RD_KAFKA_RESP_ERR__SSL, "Disconnected"));
        assert!(!error(RDKafkaRespErr::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "1/1 are down"));
        assert!(!error(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, ""));
    }
}
