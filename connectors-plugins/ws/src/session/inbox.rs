//! Received messages of all connections, until they are pulled.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Origin, lock, prelude::*};

/// A batch that connections fill and that a pull takes. While the batch is full, no connection is
/// read.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// `true` if a source exists. While no source exists, received messages are discarded.
    has_source: AtomicBool,
}

#[derive(Default)]
struct State {
    batch: RawBatch,
    /// Events at the end of the batch whose origin is not set yet: their stream, the index of the
    /// first of these events, and the origin.
    open: Option<(u64, usize, Arc<Origin>)>,
    puller: Option<Waker>,
    /// Wakers of the connections that wait until the batch is pulled, by stream.
    waiting: HashMap<u64, Waker>,
    failed: Option<Error>,
    /// `true` once no source will pull any more.
    is_abandoned: bool,
}

impl State {
    /// Sets the origin of the events in `open`.
    fn apply_origin(&mut self) {
        if let Some((_, start, peer)) = self.open.take() {
            self.batch.apply_origin(start, &peer);
        }
    }

    fn add(&mut self, stream: u64, peer: &Arc<Origin>, add: impl FnOnce(&mut RawBatch)) {
        if self.open.as_ref().is_none_or(|(open, ..)| *open != stream) {
            self.apply_origin();
            self.open = Some((stream, self.batch.len(), peer.clone()));
        }
        add(&mut self.batch);
    }
}

impl Inbox {
    /// Records that a source exists from now on.
    pub(crate) fn add_source(&self) {
        self.has_source.store(true, Ordering::Release);
    }

    /// Returns whether a source exists. The pulls of a source also report errors.
    pub(crate) fn has_source(&self) -> bool {
        self.has_source.load(Ordering::Acquire)
    }

    /// Stops reading, because no source will pull messages any more. Unread messages stay in the
    /// buffers of the system and of the peers.
    pub(crate) fn abandon(&self) {
        lock(&self.state).is_abandoned = true;
    }

    /// Completes when the connection may be read: when the batch has capacity and a source may
    /// still pull. A connection that is being closed is also read after [`abandon`](Self::abandon),
    /// because the answer to the close frame has to be received.
    pub(super) fn poll_capacity(
        &self,
        stream: u64,
        is_closing: bool,
        context: &Context<'_>,
    ) -> Poll<()> {
        let mut state = lock(&self.state);
        let is_open = if state.is_abandoned { is_closing } else { !state.batch.is_full() };
        if is_open {
            return Poll::Ready(());
        }
        state.waiting.insert(stream, context.waker().clone());
        Poll::Pending
    }

    /// Adds a message.
    pub(super) fn push(&self, stream: u64, peer: &Arc<Origin>, message: &[u8]) {
        if !self.has_source() {
            return;
        }
        let puller = {
            let mut state = lock(&self.state);
            if state.is_abandoned {
                return;
            }
            state.add(stream, peer, |batch| batch.stream(stream).push_message(message));
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
    }

    /// Ends a stream, or aborts it if it is not complete.
    pub(crate) fn end(&self, stream: u64, peer: &Arc<Origin>, is_complete: bool) {
        let puller = {
            let mut state = lock(&self.state);
            state.waiting.remove(&stream);
            if !self.has_source() {
                return;
            }
            state.add(stream, peer, |batch| {
                let mut stream = batch.stream(stream);
                if is_complete { stream.end() } else { stream.abort() }
            });
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
    }

    /// Makes pulls fail with `error` after all messages were pulled.
    pub(crate) fn fail(&self, error: Error) {
        let puller = {
            let mut state = lock(&self.state);
            state.failed.get_or_insert(error);
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
    }

    fn poll_pull(&self, batch: &mut RawBatch, context: &Context<'_>) -> Poll<Result<Pull>> {
        let waiting = {
            let mut state = lock(&self.state);
            state.batch.set_limit(batch.limit());
            if state.batch.is_empty() {
                if let Some(error) = &state.failed {
                    return Poll::Ready(Err(error.clone()));
                }
                state.puller = Some(context.waker().clone());
                return Poll::Pending;
            }
            state.apply_origin();
            batch.exchange(&mut state.batch);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
        Poll::Ready(Ok(Pull::Events))
    }
}

/// The source: messages of all connections.
pub struct Messages(Arc<Inbox>);

impl Messages {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        inbox.add_source();
        Self(inbox)
    }
}

impl Source for Messages {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        poll_fn(|context| self.0.poll_pull(batch, context)).await
    }
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Messages")
    }
}
