//! The backlog of core NATS. It buffers messages between the client, which cannot be paused, and the flow.

use std::collections::VecDeque;

use async_nats::Message;
use tremor_pdk::{Host, Memory};

use super::shared::{Shared, cost};
use crate::client::SUBSCRIPTION_CAPACITY;

/// Maximum memory of messages of core NATS that wait for the flow, in bytes. The client limits only the number of
/// messages, and a message may have several megabytes.
const MAX_BYTES: usize = 64 << 20;

/// Messages of core NATS that wait for the flow.
pub(super) struct Backlog {
    messages: VecDeque<Message>,
    /// Memory of the messages, in bytes.
    bytes: usize,
    /// Adds `bytes` to the memory of the flow.
    memory: Memory,
}

impl Backlog {
    pub(super) fn new(host: &Host) -> Self {
        Self { messages: VecDeque::new(), bytes: 0, memory: host.memory() }
    }

    /// Adds a message. Returns `false` and drops the message if the number of waiting messages has reached its limit.
    /// If other messages wait, also drops it if their memory would exceed [`MAX_BYTES`] or the flow has no memory for
    /// it.
    pub(super) fn add(&mut self, message: Message) -> bool {
        let bytes = self.bytes + cost(&message);
        let has_space = self.messages.is_empty()
            || (self.messages.len() < SUBSCRIPTION_CAPACITY && bytes <= MAX_BYTES);
        let has_space = has_space && (self.memory.try_resize(bytes) || self.messages.is_empty());
        if has_space {
            self.bytes = bytes;
            self.messages.push_back(message);
        }
        has_space
    }

    /// Returns `true` if no message waits.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Moves messages to the queue until the queue is full.
    pub(super) fn hand_over(&mut self, shared: &Shared) {
        while !self.messages.is_empty()
            && let Ok(permit) = shared.capacity.try_acquire()
            && let Some(message) = self.messages.pop_front()
        {
            permit.forget();
            self.bytes -= cost(&message);
            self.memory.shrink(self.memory.used().saturating_sub(self.bytes));
            shared.arrived([message]);
        }
    }

    /// Moves all messages to the queue, and waits for capacity for each of them.
    pub(super) async fn hand_over_all(&mut self, shared: &Shared) {
        while !self.is_empty() {
            let Ok(permit) = shared.capacity.acquire().await else { return };
            // Dropping the permit returns the capacity, which `hand_over` then takes.
            drop(permit);
            self.hand_over(shared);
        }
    }
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
    use tremor_pdk::{RawBatch, testing::TestHost};

    use super::{Backlog, MAX_BYTES, SUBSCRIPTION_CAPACITY, Shared, cost};
    use crate::consumer::shared;

    fn message(length: usize) -> Message {
        let payload = vec![b'x'; length].into();
        let (status, description, reply, headers) = (None, None, None, None);
        Message { subject: "s".into(), reply, payload, headers, status, description, length }
    }

    #[test]
    fn backlog_is_limited_by_bytes_and_number() {
        let host = TestHost::new();
        let backlog = || Backlog::new(&host.host());
        let mut backlog_of_one = backlog();
        assert!(backlog_of_one.add(message(2 * MAX_BYTES)), "the only message is never too large");
        assert!(!backlog_of_one.add(message(0)));
        let mut large = backlog();
        while large.add(message(1 << 20)) {}
        assert_eq!(large.messages.len(), 63, "each message also has a header");
        assert_eq!(large.bytes, 63 * cost(&message(1 << 20)));
        let mut small = backlog();
        while small.add(message(0)) {}
        assert_eq!(small.messages.len(), SUBSCRIPTION_CAPACITY.min(MAX_BYTES / cost(&message(0))));
    }

    #[test]
    fn backlog_stays_within_memory_of_flow() {
        let host = TestHost::new();
        host.set_memory_limit(4 << 20);
        let mut backlog = Backlog::new(&host.host());
        while backlog.add(message(1 << 20)) {}
        assert_eq!(backlog.messages.len(), 3);
        drop(backlog);
        assert_eq!(host.memory(), 0);
        host.set_memory_limit(0);
        let mut backlog = Backlog::new(&host.host());
        assert!(backlog.add(message(1)), "the only message is never rejected");
        assert!(!backlog.add(message(1)));
    }

    #[test]
    fn requests_stop_at_prefetch_limit_and_memory_limit() {
        let (closes, _) = mpsc::unbounded_channel();
        let host = TestHost::new();
        let shared = Shared::new(&host.host(), 500, false, Arc::default(), closes);
        let pull = |shared: &Shared| {
            let context = Context::from_waker(Waker::noop());
            assert!(shared.poll_pull(&context, &mut RawBatch::new()).is_ready());
        };
        shared.arrived([message(1 << 20)]);
        assert!(shared.may_request() && host.memory() > 1 << 20);
        shared.arrived([message(shared::MAX_BYTES)]);
        assert!(!shared.may_request());
        while !shared.may_request() {
            pull(&shared);
        }
        host.set_memory_limit(1 << 20);
        shared.arrived([message(2 << 20)]);
        assert!(!shared.may_request(), "the flow has no memory");
        while !shared.may_request() {
            pull(&shared);
        }
        assert!(host.memory() <= 64 << 10, "one block stays reserved");
    }

    #[test]
    fn waiting_messages_are_all_handed_over_as_capacity_is_freed() {
        let (closes, _) = mpsc::unbounded_channel();
        let host = TestHost::new().host();
        let shared = Shared::new(&host, 1, false, Arc::default(), closes);
        let mut backlog = Backlog::new(&host);
        (0..3).for_each(|_| assert!(backlog.add(message(1))));
        let mut context = Context::from_waker(Waker::noop());
        let mut handed_over = pin!(backlog.hand_over_all(&shared));
        for number in 1..=3 {
            let is_over = handed_over.as_mut().poll(&mut context).is_ready();
            assert_eq!(is_over, number == 3);
            let mut batch = RawBatch::new();
            assert!(shared.poll_pull(&context, &mut batch).is_ready());
            assert_eq!(batch.len(), 1);
        }
    }
}
