//! Errors of librdkafka, as those of the plugin.

use rdkafka::{ClientConfig, error::KafkaError, types::RDKafkaErrorCode as Code};
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
        // What a peer says of our certificate comes after the handshake, and looks like a cut connection.
        Code::BrokerTransportFailure if said.contains("alert") && said.contains("certificate") => {
            Error::authentication(format_args!(
                "the broker does not accept the certificate of this client, or wants one: {said}; see \
                 `tls.cert_file`"
            ))
        }
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
        Code::FencedInstanceId => Error::configuration(
            "another process is the member of the group with this `instance`: give each a name of its own",
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

/// Why a client with these properties cannot start. Files are named with what is wrong with them.
pub(crate) fn cannot_start(error: &KafkaError, properties: &ClientConfig) -> Error {
    let KafkaError::ClientCreation(said) = error else { return explain(error, "") };
    let files = [
        ("ca_file", "ssl.ca.location"),
        ("cert_file", "ssl.certificate.location"),
        ("key_file", "ssl.key.location"),
    ];
    for (key, property) in files {
        let Some(path) = properties.get(property).filter(|_| said.contains(property)) else {
            continue;
        };
        let why = match std::fs::File::open(path) {
            Err(error) => error.to_string(),
            Ok(_) => said.clone(),
        };
        return Error::configuration(format_args!(
            "cannot use `{path}`, which `tls.{key}` names: {why}"
        ));
    }
    // It has no password.
    Error::configuration(format_args!("the client of Kafka cannot start: {said}"))
}

#[cfg(test)]
mod tests {
    use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};

    use tremor_pdk::ErrorKind;

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

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_key() {
        let mut properties = ClientConfig::new();
        properties.set("ssl.ca.location", "no-such.pem").set("sasl.password", "secret");
        let error = KafkaError::ClientCreation("ssl.ca.location failed: BIO lib".to_owned());
        let error = cannot_start(&error, &properties).to_string();
        let expected = "cannot use `no-such.pem`, which `tls.ca_file` names: No such file";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn what_a_broker_says_of_a_certificate_is_no_cut_connection() {
        let error = KafkaError::Global(Code::BrokerTransportFailure);
        let kind = |reason| explain(&error, reason).kind();
        let alert =
            "error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42";
        assert_eq!(kind(alert), ErrorKind::AUTHENTICATION);
        assert_eq!(kind("Disconnected: connection closed by peer"), ErrorKind::CONNECTION_REFUSED);
    }
}
