//! A connection as others see it: what is to be sent, and how it has ended.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::{
    budget::{Budget, Share},
    end::End,
};

/// Longest header of a frame, in bytes: two bytes, a length of eight and a mask of four.
const FRAME_HEADER: usize = 14;

/// Returns the memory that a message takes until it is written, in bytes: its payload, its entry in the queue and
/// the header of its frame. An empty message therefore counts, too.
pub(crate) fn cost(payload: usize) -> usize {
    payload + size_of::<Message>() + FRAME_HEADER
}

/// One connection.
pub(crate) struct Link {
    /// Of its source.
    pub(crate) stream: u64,
    pub(crate) peer: Arc<str>,
    budget: Arc<Budget>,
    /// `true` if others keep the payloads of the same messages: until the session takes a message, only its entry
    /// counts for this connection.
    shares_payloads: bool,
    state: Mutex<State>,
}

struct State {
    outgoing: VecDeque<Message>,
    /// [`cost`] of the messages that are not written yet, in bytes. Zero if, and only if, no message is outstanding.
    unwritten: usize,
    /// Share of `unwritten` that the session has taken, in bytes.
    taken: usize,
    /// Memory of the messages that are not written yet, in the budget of all connections.
    kept: Share,
    /// With what it is to be closed, and whether without waiting for anything.
    close: Option<(CloseFrame, &'static str)>,
    is_cut_off: bool,
    end: Option<End>,
    session: Option<Waker>,
    sink: Option<Waker>,
    owner: Option<Waker>,
}

impl Link {
    pub(crate) fn new(
        stream: u64,
        peer: Arc<str>,
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

    /// Returns a share of the budget of all connections, for a buffer of this one.
    pub(super) fn share(&self) -> Share {
        Share::of(&self.budget)
    }

    /// Returns whether all connections together may keep `bytes` more.
    pub(crate) fn may_keep(&self, bytes: usize) -> bool {
        self.budget.has(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the [`cost`] of the messages that are not written yet, in bytes, or `None` after the end.
    pub(crate) fn unwritten(&self) -> Option<usize> {
        let state = self.lock();
        state.end.is_none().then_some(state.unwritten)
    }

    /// Sends a message after all others.
    pub(crate) fn send(&self, message: Message) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.unwritten += cost(message.len());
            // An accepted event is kept even where that exceeds the budget.
            state.kept.add(cost(if self.shares_payloads { 0 } else { message.len() }));
            state.outgoing.push_back(message);
        }
    }

    /// Lets the session see to what was sent.
    pub(crate) fn wake(&self) {
        let session = self.lock().session.take();
        session.into_iter().for_each(Waker::wake);
    }

    /// Ready once everything is written, or it has ended.
    pub(crate) fn poll_written(&self, context: &Context<'_>) -> Poll<Result<(), End>> {
        let mut state = self.lock();
        match &state.end {
            Some(end) => Poll::Ready(Err(end.clone())),
            None if state.unwritten == 0 => Poll::Ready(Ok(())),
            None => {
                state.sink = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Closes it after everything that was sent before, unless it is being closed.
    pub(crate) fn close(&self, code: CloseCode, reason: &'static str) {
        let frame = CloseFrame { code, reason: reason.into() };
        self.lock().close.get_or_insert((frame, reason));
        self.wake();
    }

    /// Closes it at once, and drops what was not written.
    pub(crate) fn cut_off(&self, code: CloseCode, reason: &'static str) {
        let sink = {
            let mut state = self.lock();
            state.outgoing.clear();
            let taken = state.taken;
            state.kept.set(taken);
            state.is_cut_off = true;
            state.sink.take()
        };
        sink.into_iter().for_each(Waker::wake);
        self.close(code, reason);
    }

    /// Ready once it has ended.
    pub(crate) fn poll_end(&self, context: &Context<'_>) -> Poll<End> {
        let mut state = self.lock();
        if let Some(end) = &state.end {
            return Poll::Ready(end.clone());
        }
        state.owner = Some(context.waker().clone());
        Poll::Pending
    }

    /// It has ended.
    pub(crate) fn end(&self, end: End) {
        let waiting = {
            let mut state = self.lock();
            state.end.get_or_insert(end);
            state.outgoing.clear();
            state.kept.set(0);
            [state.sink.take(), state.owner.take()]
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Moves the next messages to `messages` until their [`cost`] reaches `bytes`.
    pub(super) fn take(&self, bytes: usize, messages: &mut Vec<Message>) {
        let mut state = self.lock();
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

    /// Everything that the session has taken is written.
    pub(super) fn written(&self) {
        let sink = {
            let mut state = self.lock();
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

    /// Says who is woken when there is something to send. What is to be closed, and whether at once.
    pub(super) fn attend(&self, context: &Context<'_>) -> Option<(CloseFrame, &'static str, bool)> {
        let mut state = self.lock();
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
        let link = Link::new(1, "peer".into(), &Budget::new(usize::MAX, None), false);
        let context = Context::from_waker(Waker::noop());
        assert!(link.poll_written(&context).is_ready(), "no message was sent");
        for _ in 0..1_000 {
            link.send(Message::text(""));
        }
        assert_eq!(link.unwritten(), Some(1_000 * cost(0)));
        let mut messages = Vec::new();
        link.take(10 * cost(0), &mut messages);
        assert_eq!(messages.len(), 10, "the session takes a bounded number");
        link.written();
        assert!(link.poll_written(&context).is_pending(), "990 are outstanding");
        link.take(usize::MAX, &mut messages);
        assert!(link.poll_written(&context).is_pending(), "taken is not written");
        link.written();
        assert!(link.poll_written(&context).is_ready());
        assert_eq!(link.unwritten(), Some(0));
    }

    #[test]
    fn outgoing_messages_of_all_links_share_a_budget() {
        let budget = Budget::new(2 * cost(100), None);
        let link = |shares| Link::new(1, "peer".into(), &budget, shares);
        let (one, two) = (link(false), link(true));
        one.send(Message::text("x".repeat(100)));
        two.send(Message::text("x".repeat(100)));
        assert!(two.may_keep(100), "the payload of the second is kept elsewhere");
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
