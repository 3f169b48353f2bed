//! Metadata of a message of a stream, which the server encodes in the reply subject.

/// Prefix of the reply subjects of messages of a stream.
const PREFIX: &str = "$JS.ACK.";

/// Metadata of a message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Info<'s> {
    pub(super) stream: &'s str,
    pub(super) consumer: &'s str,
    /// Number of deliveries of this message, including this one.
    pub(super) deliveries: u64,
    pub(super) stream_sequence: u64,
    pub(super) consumer_sequence: u64,
    /// Time at which the server received the message, in ns since 1970.
    pub(super) timestamp: u64,
    /// Number of messages after this one that match the consumer.
    pub(super) pending: u64,
}

/// Returns whether a message with this reply subject is a message of a stream. Status messages of the server do not
/// have such a reply subject.
pub(super) fn is_of_stream(reply: Option<&str>) -> bool {
    reply.is_some_and(|it| it.starts_with(PREFIX))
}

impl<'s> Info<'s> {
    /// Parses `$JS.ACK.STREAM.CONSUMER.DELIVERIES.STREAM_SEQUENCE.CONSUMER_SEQUENCE.TIMESTAMP.PENDING`, or the
    /// form of NATS ADR-15, which has a domain and an account after `ACK` and may have more tokens at the end.
    /// Returns `None` for other subjects.
    pub(super) fn of(reply: &'s str) -> Option<Self> {
        let tokens = reply.strip_prefix(PREFIX)?;
        let mut words = tokens.split('.');
        if tokens.bytes().filter(|it| *it == b'.').count() >= 8 {
            words.nth(1)?;
        }
        let (stream, consumer) = (words.next()?, words.next()?);
        let mut number = || words.next()?.parse().ok();
        Some(Self {
            stream,
            consumer,
            deliveries: number()?,
            stream_sequence: number()?,
            consumer_sequence: number()?,
            timestamp: number()?,
            pending: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_parsed() {
        let info = Info {
            stream: "ORDERS",
            consumer: "billing",
            deliveries: 2,
            stream_sequence: 17,
            consumer_sequence: 18,
            timestamp: 1_700_000_000_000_000_000,
            pending: 3,
        };
        for reply in [
            "$JS.ACK.ORDERS.billing.2.17.18.1700000000000000000.3",
            "$JS.ACK._.HASH.ORDERS.billing.2.17.18.1700000000000000000.3",
            "$JS.ACK.domain.HASH.ORDERS.billing.2.17.18.1700000000000000000.3.more.yet",
        ] {
            assert_eq!(Info::of(reply), Some(info), "{reply}");
        }
    }

    #[test]
    fn other_reply_subjects_are_not_of_a_stream() {
        for reply in ["", "_INBOX.a", "$JS.ACK.", "$JS.ACK.S.c.1.2.3.4", "$JS.ACK.S.c.1.2.x.4.5"] {
            assert_eq!(Info::of(reply), None, "{reply}");
        }
        assert!(!is_of_stream(None) && !is_of_stream(Some("_INBOX.$JS.ACK.")));
        assert!(is_of_stream(Some("$JS.ACK.S.c.1.2.3.4.5")));
    }
}
