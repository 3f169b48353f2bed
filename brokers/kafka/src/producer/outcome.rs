//! What the answer of a broker means for an event.

use rdkafka::types::RDKafkaErrorCode as Code;
use tremor_pdk::prelude::*;

/// What becomes of an event whose record the brokers do not have. Its policy is to go to `err` where the same
/// record would be refused again, and otherwise to be tried again.
pub(super) fn of(code: Code, topic: &str) -> Error {
    let (permanent, help) = match code {
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
            (true, "; see `max_record_bytes` here and `max.message.bytes` of the topic")
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition => {
            (true, "; create the topic, or see `topic`")
        }
        // A topic that was deleted has none any more.
        Code::UnknownPartition => (true, "; see whether the topic is there, and `partition`"),
        Code::TopicAuthorizationFailed => (true, "; this user may not write to it, see its ACLs"),
        Code::InvalidTopic
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::PolicyViolation
        | Code::InvalidArgument
        | Code::UnsupportedForMessageFormat => (true, ""),
        _ => (false, ""),
    };
    let message = format_args!("topic `{topic}`: {code}{help}");
    if permanent { Error::bad_data(message) } else { Error::full(message) }
}

/// Whether the client has given the record up because the connection has ended.
pub(super) fn is_given_up(code: Code) -> bool {
    matches!(code, Code::PurgeQueue | Code::PurgeInflight | Code::Fatal | Code::MessageTimedOut)
}
