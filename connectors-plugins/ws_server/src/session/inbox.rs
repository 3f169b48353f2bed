//! What connections have received, until it is pulled.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_pdk::prelude::*;

/// A batch that connections fill and a pull takes. While it is full, none of them is read.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Whether there is a source. Otherwise what is received is dropped.
    is_wanted: AtomicBool,
}

#[derive(Default)]
struct State {
    batch: RawBatch,
    /// The events at the end of the batch that have no origin yet: their stream, the first of them, and
    /// where they are from.
    open: Option<(u64, usize, Arc<str>)>,
    puller: Option<Waker>,
    /// Connections that wait for room, each once.
    waiting: HashMap<u64, Waker>,
    failed: Option<Error>,
    /// `true` once no source will pull any more.
    is_abandoned: bool,
}

impl State {
    /// Says of the last events where they are from.
    fn settle(&mut self) {
        if let Some((_, start, peer)) = self.open.take() {
            self.batch.set_origin_from(start, &peer);
        }
    }

    fn add(&mut self, stream: u64, peer: &Arc<str>, add: impl FnOnce(&mut RawBatch)) {
        if self.open.as_ref().is_none_or(|(open, ..)| *open != stream) {
            self.settle();
            self.open = Some((stream, self.batch.len(), peer.clone()));
        }
        add(&mut self.batch);
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a source from here on.
    pub(crate) fn is_wanted(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Whether there is a source, which hears how things end.
    pub(crate) fn has_source(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Stops reading: no source will pull messages any more, so that peers should keep theirs.
    pub(crate) fn abandon(&self) {
        self.lock().is_abandoned = true;
    }

    /// Ready if a connection may be read. A connection that `leaves` is also read after [`abandon`](Self::abandon), up to
    /// the answer to its close.
    pub(super) fn poll_room(&self, stream: u64, leaves: bool, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let is_open = if state.is_abandoned { leaves } else { !state.batch.is_full() };
        if is_open {
            return Poll::Ready(());
        }
        state.waiting.insert(stream, context.waker().clone());
        Poll::Pending
    }

    /// A message has come.
    pub(super) fn push(&self, stream: u64, peer: &Arc<str>, message: &[u8]) {
        if !self.has_source() {
            return;
        }
        let puller = {
            let mut state = self.lock();
            if state.is_abandoned {
                return;
            }
            state.add(stream, peer, |batch| batch.stream(stream).push_message(message));
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
    }

    /// No message follows of this stream.
    pub(crate) fn end(&self, stream: u64, peer: &Arc<str>, is_complete: bool) {
        let puller = {
            let mut state = self.lock();
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

    /// After what there is, pulls fail with this.
    pub(crate) fn fail(&self, error: Error) {
        let puller = {
            let mut state = self.lock();
            state.failed.get_or_insert(error);
            state.puller.take()
        };
        puller.into_iter().for_each(Waker::wake);
    }

    fn poll_pull(&self, batch: &mut RawBatch, context: &Context<'_>) -> Poll<Result<Pull>> {
        let waiting = {
            let mut state = self.lock();
            state.batch.set_limit(batch.limit());
            if state.batch.is_empty() {
                if let Some(error) = &state.failed {
                    return Poll::Ready(Err(error.clone()));
                }
                state.puller = Some(context.waker().clone());
                return Poll::Pending;
            }
            state.settle();
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
        inbox.is_wanted();
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
