//! Conversion of librdkafka errors to errors of the plugin.

use rdkafka::{ClientConfig, error::KafkaError, types::RDKafkaErrorCode as Code};
use tremor_pdk::prelude::*;

/// Converts an error of librdkafka to an error whose kind tells the runtime how to react. `reason` is
/// librdkafka's own text, which replaces the name of the error unless it is empty.
pub(crate) fn explain(error: &KafkaError, reason: &str) -> Error {
    // Do not show the text of this error: it contains the value, which may be a secret.
    if let KafkaError::ClientConfig(_, _, key, _) = error {
        return Error::configuration(format_args!(
            "invalid librdkafka property `{key}`: librdkafka rejected its value"
        ));
    }
    let Some(code) = error.rdkafka_error_code() else {
        return Error::internal(format_args!("librdkafka: {error}"));
    };
    let detail = if reason.is_empty() { code.to_string() } else { reason.to_owned() };
    match code {
        // A broker may reject the client's certificate after the handshake. librdkafka then reports a lost connection.
        Code::BrokerTransportFailure
            if detail.contains("alert") && detail.contains("certificate") =>
        {
            Error::authentication(format_args!(
                "cannot authenticate to the broker: the certificate of this client was rejected or is missing: \
                 {detail}; check `tls.cert_file`"
            ))
        }
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::ClusterAuthorizationFailed => Error::authentication(format_args!(
            "cannot authenticate to the broker: {detail}; check `sasl` and `tls`"
        )),
        // An SSL error without one of these words means that the connection broke.
        Code::SSL if ["certificate", "alert", "verif"].iter().any(|it| detail.contains(it)) => {
            Error::authentication(format_args!(
                "cannot establish TLS with the broker: {detail}; check `tls`"
            ))
        }
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed => {
            Error::authentication(format_args!(
                "cannot access the topic or the group: {detail}; check the ACLs of this user"
            ))
        }
        Code::FencedInstanceId => Error::configuration(
            "cannot join the group: another process is the member with this `instance`; give each process its own name",
        ),
        Code::InvalidTopic | Code::InvalidGroupId | Code::InvalidArgument => Error::configuration(
            format_args!("the broker rejected a name or an argument: {detail}"),
        ),
        Code::BrokerTransportFailure
        | Code::SSL
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::NetworkException
        | Code::BrokerNotAvailable => {
            Error::connection_refused(format_args!("cannot reach a broker: {detail}"))
        }
        _ => Error::internal(format_args!("{detail} ({code:?})")),
    }
}

/// Converts the error of a client that could not be created with `properties`. If a file is the cause, the
/// error names the file, its key and the reason.
pub(crate) fn cannot_start(error: &KafkaError, properties: &ClientConfig) -> Error {
    let KafkaError::ClientCreation(text) = error else { return explain(error, "") };
    let files = [
        ("ca_file", "ssl.ca.location"),
        ("cert_file", "ssl.certificate.location"),
        ("key_file", "ssl.key.location"),
    ];
    for (key, property) in files {
        let Some(path) = properties.get(property).filter(|_| text.contains(property)) else {
            continue;
        };
        let why = match std::fs::File::open(path) {
            Err(error) => error.to_string(),
            Ok(_) => text.clone(),
        };
        return Error::configuration(format_args!(
            "cannot use `{path}`, which `tls.{key}` names: {why}"
        ));
    }
    // The text can be shown: librdkafka does not include the password.
    Error::configuration(format_args!("cannot start the Kafka client: {text}"))
}

#[cfg(test)]
mod tests {
    use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};

    use tremor_pdk::ErrorKind;

    use super::*;

    #[test]
    fn rejected_value_is_not_shown() {
        let key = "sasl.password".to_owned();
        let error = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "hunter2 is not a password".to_owned(),
            key,
            "hunter2".to_owned(),
        );
        let error = explain(&error, "").to_string();
        assert!(error.contains("sasl.password") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn only_permanent_errors_are_final() {
        let is_final = |code: RDKafkaRespErr, reason| {
            explain(&KafkaError::Global(code.into()), reason).is_final()
        };
        assert!(is_final(RDKafkaRespErr::RD_KAFKA_RESP_ERR__AUTHENTICATION, "no such user"));
        assert!(is_final(RDKafkaRespErr::RD_KAFKA_RESP_ERR__SSL, "certificate verify failed"));
        assert!(is_final(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ""));
        assert!(!is_final(RDKafkaRespErr::RD_KAFKA_RESP_ERR__SSL, "Disconnected"));
        assert!(!is_final(RDKafkaRespErr::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "1/1 are down"));
        assert!(!is_final(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, ""));
    }

    #[test]
    fn unusable_file_is_named_with_its_key() {
        let mut properties = ClientConfig::new();
        properties.set("ssl.ca.location", "no-such.pem").set("sasl.password", "secret");
        let error = KafkaError::ClientCreation("ssl.ca.location failed: BIO lib".to_owned());
        let error = cannot_start(&error, &properties).to_string();
        let expected = "cannot use `no-such.pem`, which `tls.ca_file` names: No such file";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn certificate_alert_is_an_authentication_error() {
        let error = KafkaError::Global(Code::BrokerTransportFailure);
        let kind = |reason| explain(&error, reason).kind();
        let alert =
            "error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42";
        assert_eq!(kind(alert), ErrorKind::AUTHENTICATION);
        assert_eq!(kind("Disconnected: connection closed by peer"), ErrorKind::CONNECTION_REFUSED);
    }
}
