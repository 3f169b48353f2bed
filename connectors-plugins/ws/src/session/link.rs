//! State of a connection that its task shares with the sink: the messages to be sent, and the
//! reason of the end.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Origin, lock};
use tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::{
    budget::{Budget, Share},
    end::End,
};

/// Length of the longest frame header in bytes: two bytes, eight bytes of length and four bytes of
/// mask.
const FRAME_HEADER: usize = 14;

/// Returns the memory of a message until it is written, in bytes: the payload, the entry in the
/// queue and the frame header. An empty message therefore has a cost as well.
pub(crate) fn cost(payload: usize) -> usize {
    payload + size_of::<Message>() + FRAME_HEADER
}

/// State of one connection.
pub(crate) struct Link {
    /// Number of the stream in the source.
    pub(crate) stream: u64,
    /// Origin of the messages, whose text is the name of the peer.
    pub(crate) peer: Arc<Origin>,
    budget: Arc<Budget>,
    /// `true` if several connections share the payload of a message. Then only the queue entry
    /// counts in the budget for this connection, until the session takes the message.
    shares_payloads: bool,
    state: Mutex<State>,
}

struct State {
    outgoing: VecDeque<Message>,
    /// [`cost`] of the messages that are not written yet, in bytes. Zero if and only if no message
    /// is outstanding.
    unwritten: usize,
    /// [`cost`] of the unwritten messages that the session has taken from the queue, in bytes.
    taken: usize,
    /// Share of the budget for the messages that are not written yet.
    kept: Share,
    /// Requested close: the frame and the reason.
    close: Option<(CloseFrame, &'static str)>,
    /// `true` if the connection has to be closed immediately, without waiting for the peer.
    is_cut_off: bool,
    end: Option<End>,
    session: Option<Waker>,
    sink: Option<Waker>,
    owner: Option<Waker>,
}

impl Link {
    pub(crate) fn new(
        stream: u64,
        peer: Arc<Origin>,
        budget: &Arc<Budget>,
        shares_payloads: bool,
    ) -> Self {
        let state = State {
            outgoing: VecDeque::new(),
            unwritten: 0,
            taken: 0,
            kept: Share::of(budget),
            close: None,
            is_cut_off: false,
            end: None,
            session: None,
            sink: None,
            owner: None,
        };
        Self { stream, peer, budget: budget.clone(), shares_payloads, state: Mutex::new(state) }
    }

    /// Returns an empty share of the budget of all connections, for a buffer of this connection.
    pub(super) fn share(&self) -> Share {
        Share::of(&self.budget)
    }

    /// Returns whether all connections together may buffer `bytes` more.
    pub(crate) fn may_keep(&self, bytes: usize) -> bool {
        self.budget.has(bytes)
    }

    /// Returns the [`cost`] of the messages that are not written yet, in bytes, or `None` after the
    /// end.
    pub(crate) fn unwritten(&self) -> Option<usize> {
        let state = lock(&self.state);
        state.end.is_none().then_some(state.unwritten)
    }

    /// Appends a message to the queue.
    pub(crate) fn send(&self, message: Message) {
        let mut state = lock(&self.state);
        if state.end.is_none() {
            state.unwritten += cost(message.len());
            // An accepted event is kept even if it exceeds the budget.
            state.kept.add(cost(if self.shares_payloads { 0 } else { message.len() }));
            state.outgoing.push_back(message);
        }
    }

    /// Wakes the session, so that it sends queued messages.
    pub(crate) fn wake(&self) {
        let session = lock(&self.state).session.take();
        session.into_iter().for_each(Waker::wake);
    }

    /// Completes when all messages are written, or with an error when the connection has ended.
    pub(crate) fn poll_written(&self, context: &Context<'_>) -> Poll<Result<(), End>> {
        let mut state = lock(&self.state);
        match &state.end {
            Some(end) => Poll::Ready(Err(end.clone())),
            None if state.unwritten == 0 => Poll::Ready(Ok(())),
            None => {
                state.sink = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Requests that the connection is closed after the queued messages were sent. Does nothing if
    /// a close was requested before.
    pub(crate) fn close(&self, code: CloseCode, reason: &'static str) {
        let frame = CloseFrame { code, reason: reason.into() };
        lock(&self.state).close.get_or_insert((frame, reason));
        self.wake();
    }

    /// Closes the connection immediately, and drops the messages that are not written.
    pub(crate) fn cut_off(&self, code: CloseCode, reason: &'static str) {
        let sink = {
            let mut state = lock(&self.state);
            state.outgoing.clear();
            let taken = state.taken;
            state.kept.set(taken);
            state.is_cut_off = true;
            state.sink.take()
        };
        sink.into_iter().for_each(Waker::wake);
        self.close(code, reason);
    }

    /// Completes when the connection has ended.
    pub(crate) fn poll_end(&self, context: &Context<'_>) -> Poll<End> {
        let mut state = lock(&self.state);
        if let Some(end) = &state.end {
            return Poll::Ready(end.clone());
        }
        state.owner = Some(context.waker().clone());
        Poll::Pending
    }

    /// Records the end of the connection.
    pub(crate) fn end(&self, end: End) {
        let waiting = {
            let mut state = lock(&self.state);
            state.end.get_or_insert(end);
            state.outgoing.clear();
            state.kept.set(0);
            [state.sink.take(), state.owner.take()]
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Moves messages from the queue to `messages` until their [`cost`] reaches `bytes`.
    pub(super) fn take(&self, bytes: usize, messages: &mut Vec<Message>) {
        let mut state = lock(&self.state);
        let mut taken = 0;
        while taken < bytes
            && let Some(message) = state.outgoing.pop_front()
        {
            taken += cost(message.len());
            if self.shares_payloads {
                state.kept.add(message.len());
            }
            messages.push(message);
        }
        state.taken += taken;
    }

    /// Records that all messages that the session has taken are written.
    pub(super) fn written(&self) {
        let sink = {
            let mut state = lock(&self.state);
            let taken = std::mem::take(&mut state.taken);
            if taken > 0 {
                state.unwritten = state.unwritten.saturating_sub(taken);
                state.kept.sub(taken);
            }
            if state.outgoing.is_empty() {
                state.unwritten = 0;
            }
            if state.unwritten == 0 { state.sink.take() } else { None }
        };
        sink.into_iter().for_each(Waker::wake);
    }

    /// Registers the session's waker. If a close frame has to be sent now, returns the frame, the
    /// reason, and whether to close without waiting for the peer.
    pub(super) fn poll_close_request(
        &self,
        context: &Context<'_>,
    ) -> Option<(CloseFrame, &'static str, bool)> {
        let mut state = lock(&self.state);
        state.session = Some(context.waker().clone());
        let is_cut_off = state.is_cut_off;
        let (frame, reason) = state.close.clone()?;
        (is_cut_off || state.outgoing.is_empty()).then_some((frame, reason, is_cut_off))
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use tungstenite::Message;

    use super::{Budget, Link, cost};

    #[test]
    fn empty_messages_count_until_they_are_written() {
        let link =
            Link::new(1, std::sync::Arc::new("peer".into()), &Budget::new(usize::MAX, None), false);
        let context = Context::from_waker(Waker::noop());
        assert!(link.poll_written(&context).is_ready(), "no message was sent");
        for _ in 0..1_000 {
            link.send(Message::text(""));
        }
        assert_eq!(link.unwritten(), Some(1_000 * cost(0)));
        let mut messages = Vec::new();
        link.take(10 * cost(0), &mut messages);
        assert_eq!(messages.len(), 10, "the session takes a limited number of messages");
        link.written();
        assert!(link.poll_written(&context).is_pending(), "990 messages are not written yet");
        link.take(usize::MAX, &mut messages);
        assert!(link.poll_written(&context).is_pending(), "the messages are taken and not written");
        link.written();
        assert!(link.poll_written(&context).is_ready());
        assert_eq!(link.unwritten(), Some(0));
    }

    #[test]
    fn outgoing_messages_of_all_links_share_a_budget() {
        let budget = Budget::new(2 * cost(100), None);
        let link = |shares| Link::new(1, std::sync::Arc::new("peer".into()), &budget, shares);
        let (one, two) = (link(false), link(true));
        one.send(Message::text("x".repeat(100)));
        two.send(Message::text("x".repeat(100)));
        assert!(two.may_keep(100), "the second link does not count its payload");
        assert!(!two.may_keep(101));
        let mut messages = Vec::new();
        two.take(1, &mut messages);
        assert!(!two.may_keep(1), "the session has a copy");
        two.written();
        assert!(two.may_keep(cost(100)));
        drop(one);
        assert!(two.may_keep(2 * cost(100)));
    }
}
