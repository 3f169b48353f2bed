//! Conversion of broker answers to errors of events.

use rdkafka::types::RDKafkaErrorCode as Code;
use tremor_pdk::prelude::*;

/// Returns the error of an event whose record the brokers did not accept. The policy of the error sends the event to
/// `err` if the record would be rejected again, and otherwise retries the event.
pub(super) fn of(code: Code, topic: &str) -> Error {
    let (permanent, help) = match code {
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
            (true, "; check `max_record_bytes` here and `max.message.bytes` of the topic")
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition => {
            (true, "; create the topic, or check `topic`")
        }
        // A topic that does not exist has no partitions, so this error may mean that the topic was deleted.
        Code::UnknownPartition => (true, "; check whether the topic exists, and `partition`"),
        Code::TopicAuthorizationFailed => {
            (true, "; allow this user to write to the topic, in its ACLs")
        }
        Code::InvalidTopic
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::PolicyViolation
        | Code::InvalidArgument
        | Code::UnsupportedForMessageFormat => (true, ""),
        _ => (false, ""),
    };
    let message = format_args!("cannot write to topic `{topic}`: {code}{help}");
    if permanent { Error::bad_data(message) } else { Error::full(message) }
}

/// Returns whether the client dropped the record because its connection has ended.
pub(super) fn is_given_up(code: Code) -> bool {
    matches!(code, Code::PurgeQueue | Code::PurgeInflight | Code::Fatal | Code::MessageTimedOut)
}
