//! What the server says of a message of a stream, in the subject for its answer.

/// Where answers about messages go.
const PREFIX: &str = "$JS.ACK.";

/// Which message that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Info<'s> {
    pub(super) stream: &'s str,
    pub(super) consumer: &'s str,
    /// How often it has come, this time included.
    pub(super) deliveries: u64,
    pub(super) stream_sequence: u64,
    pub(super) consumer_sequence: u64,
    /// When the server got it, in ns since 1970.
    pub(super) timestamp: u64,
    /// How many come after it.
    pub(super) pending: u64,
}

/// Whether a message with this subject for its answer comes from a stream. A status of the server has none.
pub(super) fn is_of_stream(reply: Option<&str>) -> bool {
    reply.is_some_and(|it| it.starts_with(PREFIX))
}

impl<'s> Info<'s> {
    /// Of `$JS.ACK.STREAM.CONSUMER.DELIVERIES.STREAM_SEQUENCE.CONSUMER_SEQUENCE.TIMESTAMP.PENDING`, or of the same
    /// with a domain and an account after `ACK` and more at the end, as ADR-15 of NATS has it. None: it is
    /// something else.
    pub(super) fn of(reply: &'s str) -> Option<Self> {
        let rest = reply.strip_prefix(PREFIX)?;
        let mut words = rest.split('.');
        if rest.bytes().filter(|it| *it == b'.').count() >= 8 {
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
    fn both_forms_are_understood() {
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
    fn anything_else_is_no_message_of_a_stream() {
        for reply in ["", "_INBOX.a", "$JS.ACK.", "$JS.ACK.S.c.1.2.3.4", "$JS.ACK.S.c.1.2.x.4.5"] {
            assert_eq!(Info::of(reply), None, "{reply}");
        }
        assert!(!is_of_stream(None) && !is_of_stream(Some("_INBOX.$JS.ACK.")));
        assert!(is_of_stream(Some("$JS.ACK.S.c.1.2.3.4.5")));
    }
}
