//! Messages of core NATS between the client, which nobody can stop, and the flow.

use std::collections::VecDeque;

use async_nats::Message;

use super::shared::Shared;
use crate::client::WAITING;

/// Memory that messages of core NATS may take while they wait for the flow, in bytes. The client bounds their number
/// only, and a message may have megabytes.
const WAITING_BYTES: usize = 64 << 20;

/// Messages of core NATS that wait for the flow.
#[derive(Default)]
pub(super) struct Backlog {
    messages: VecDeque<Message>,
    /// Memory of the messages, in bytes.
    bytes: usize,
}

impl Backlog {
    /// Adds a message. Returns `false`, and drops the message, if too many or too large ones wait.
    pub(super) fn add(&mut self, message: Message) -> bool {
        let bytes = cost(&message);
        let has_space = self.messages.len() < WAITING
            && (self.messages.is_empty() || self.bytes + bytes <= WAITING_BYTES);
        if has_space {
            self.bytes += bytes;
            self.messages.push_back(message);
        }
        has_space
    }

    /// Returns `true` if no message waits.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Hands over as many messages as the flow can take.
    pub(super) fn hand_over(&mut self, shared: &Shared) {
        while !self.messages.is_empty()
            && let Ok(room) = shared.room.try_acquire()
            && let Some(message) = self.messages.pop_front()
        {
            room.forget();
            self.bytes -= cost(&message);
            shared.arrived([message]);
        }
    }

    /// Hands over all messages, each as soon as the flow can take it.
    pub(super) async fn hand_over_all(&mut self, shared: &Shared) {
        while !self.is_empty() {
            let Ok(permit) = shared.room.acquire().await else { return };
            // The permit goes back, and the next line takes it.
            drop(permit);
            self.hand_over(shared);
        }
    }
}

/// Returns the memory that a message takes, in bytes.
fn cost(message: &Message) -> usize {
    size_of::<Message>() + message.length
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::Arc,
        task::{Context, Waker},
    };

    use async_nats::Message;
    use tokio::sync::mpsc;
    use tremor_pdk::{Batch, testing::TestHost};

    use super::{Backlog, Shared, WAITING, WAITING_BYTES, cost};

    fn message(length: usize) -> Message {
        let payload = vec![b'x'; length].into();
        let (status, description, reply, headers) = (None, None, None, None);
        Message { subject: "s".into(), reply, payload, headers, status, description, length }
    }

    #[test]
    fn backlog_is_bounded_by_bytes_and_by_number() {
        let mut backlog = Backlog::default();
        assert!(backlog.add(message(2 * WAITING_BYTES)), "one is never too large");
        assert!(!backlog.add(message(0)));
        let mut backlog = Backlog::default();
        while backlog.add(message(1 << 20)) {}
        assert_eq!(backlog.messages.len(), 63, "each has a header besides");
        assert_eq!(backlog.bytes, 63 * cost(&message(1 << 20)));
        let mut backlog = Backlog::default();
        while backlog.add(message(0)) {}
        assert_eq!(backlog.messages.len(), WAITING.min(WAITING_BYTES / cost(&message(0))));
    }
    #[test]
    fn waiting_messages_are_all_handed_over_as_capacity_is_freed() {
        let (closes, _) = mpsc::unbounded_channel();
        let shared = Shared::new(&TestHost::new().host(), 1, false, Arc::default(), closes);
        let mut backlog = Backlog::default();
        (0..3).for_each(|_| assert!(backlog.add(message(1))));
        let mut context = Context::from_waker(Waker::noop());
        let mut rest = pin!(backlog.hand_over_all(&shared));
        for number in 1..=3 {
            let is_over = rest.as_mut().poll(&mut context).is_ready();
            assert_eq!(is_over, number == 3);
            let mut batch = Batch::new();
            assert!(shared.poll_pull(&context, &mut batch).is_ready());
            assert_eq!(batch.len(), 1);
        }
    }
}
