//! What the tasks on tokio, the source and its acknowledgements share.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use async_nats::{Message, Subject};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tremor_pdk::{Counter, Memory, Tickets, prelude::*};

use super::{
    info::Info,
    record::{self, Ticket},
    resume::Resume,
};

/// Memory of messages that were fetched ahead of the flow, in bytes, from which on no more are requested.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// Returns the memory that a message takes, in bytes.
pub(super) fn cost(message: &Message) -> usize {
    size_of::<Message>() + message.length
}

/// The end: asks for redelivery of these messages, which the flow has not taken, and notifies `sent` once all answers are
/// sent.
pub(super) struct Close {
    pub(super) untaken: Vec<Subject>,
    pub(super) sent: oneshot::Sender<()>,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// How many messages fit the queue.
    pub(super) room: Semaphore,
    /// Where to go on with a consumer that was deleted.
    pub(super) resume: Arc<Resume>,
    /// Nothing more is to be brought.
    ends: Notify,
    /// Messages were pulled while [`may_request`](Self::may_request) was `false`.
    pulled: Notify,
    closes: mpsc::UnboundedSender<Close>,
    /// Messages of a stream in flight.
    pub(super) tickets: Tickets<Ticket>,
    /// `false` for core NATS, whose messages nobody answers.
    is_of_stream: bool,
    host: Host,
    redelivered: Counter,
}

struct State {
    /// Messages that the flow has not taken yet.
    queue: VecDeque<(Instant, Message)>,
    /// Memory of the messages in `queue`, in bytes.
    bytes: usize,
    /// Counts `bytes` in the memory of the flow.
    memory: Memory,
    /// `true` while the flow does not have the memory for `bytes`.
    is_short: bool,
    /// Who waits for messages.
    waiting: Option<Waker>,
    /// What the next pull is to answer.
    error: Option<Error>,
}

impl State {
    fn may_request(&self) -> bool {
        self.bytes == 0 || (self.bytes < MAX_BYTES && !self.is_short)
    }

    /// Takes the message that has waited the longest.
    fn take(&mut self) -> Option<Message> {
        let (_, message) = self.queue.pop_front()?;
        self.bytes -= cost(&message);
        Some(message)
    }

    /// Counts `bytes` in the memory of the flow. A part that the flow does not have stays uncounted, because the messages
    /// were received already.
    fn count(&mut self) {
        self.is_short = !self.memory.try_resize(self.bytes);
    }
}

impl Shared {
    pub(super) fn new(
        host: &Host,
        room: u32,
        is_of_stream: bool,
        resume: Arc<Resume>,
        closes: mpsc::UnboundedSender<Close>,
    ) -> Self {
        let state = State {
            queue: VecDeque::new(),
            bytes: 0,
            memory: host.memory(),
            is_short: false,
            waiting: None,
            error: None,
        };
        Self {
            state: Mutex::new(state),
            room: Semaphore::new(room as usize),
            resume,
            ends: Notify::new(),
            pulled: Notify::new(),
            closes,
            tickets: Tickets::new(),
            is_of_stream,
            host: host.clone(),
            redelivered: host.counter("redelivered", "Messages that came again."),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for so many messages at most, as far as there is some, and says for how many.
    pub(super) fn more_room(&self, most: u32) -> u32 {
        let room = self.room.available_permits().min(most as usize);
        let room = u32::try_from(room).unwrap_or_default();
        self.room.try_acquire_many(room).map_or(0, |taken| {
            taken.forget();
            room
        })
    }

    /// Messages have come.
    pub(super) fn arrived(&self, messages: impl IntoIterator<Item = Message>) {
        let now = Instant::now();
        let mut state = self.state();
        for message in messages {
            state.bytes += cost(&message);
            state.queue.push_back((now, message));
        }
        state.count();
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns whether more messages may be requested: those that wait take less than [`MAX_BYTES`], and the flow has the
    /// memory for them.
    pub(super) fn may_request(&self) -> bool {
        self.state().may_request()
    }

    /// Waits until messages were pulled after [`may_request`](Self::may_request) returned `false`.
    pub(super) async fn pulled(&self) {
        self.pulled.notified().await;
    }

    /// None will come any more.
    pub(super) fn fail(&self, error: Error) {
        let mut state = self.state();
        state.error = Some(error);
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Fills a batch with what there is, once there is something.
    pub(super) fn poll_pull(
        &self,
        context: &Context<'_>,
        batch: &mut RawBatch,
    ) -> Poll<Result<()>> {
        let mut state = self.state();
        let may_request = state.may_request();
        let (count, result) = self.fill(&mut state, batch);
        if count == 0 {
            if let Some(error) = state.error.take() {
                return Poll::Ready(Err(error));
            }
            state.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.count();
        drop(state);
        if !may_request {
            self.pulled.notify_one();
        }
        self.room.add_permits(count);
        Poll::Ready(result)
    }

    /// Moves messages from the queue to a batch until it is full. Returns the number of messages, and whether all of them
    /// could be written.
    fn fill(&self, state: &mut State, batch: &mut RawBatch) -> (usize, Result<()>) {
        let (mut count, mut result) = (0, Ok(()));
        if !self.is_of_stream {
            while result.is_ok() && !batch.is_full() {
                let Some(message) = state.take() else { break };
                count += 1;
                result = record::push_core(batch, &message);
            }
            return (count, result);
        }
        let (mut writer, mut redelivered) = (self.tickets.begin(batch), 0);
        while result.is_ok() && !writer.is_full() {
            let Some(message) = state.take() else { break };
            count += 1;
            let Some((reply, info)) =
                message.reply.as_ref().and_then(|it| Some((it, Info::of(it)?)))
            else {
                tremor_pdk::warn!(
                    self.host,
                    "a message without the metadata of the stream was ignored"
                );
                continue;
            };
            redelivered += u64::from(info.deliveries > 1);
            let ticket = (Instant::now(), reply.clone());
            result = record::push_stream(&mut writer, ticket, &message, &info);
        }
        self.redelivered.add(redelivered);
        (count, result)
    }

    /// The task that brings messages is to end, and to bring those that are on their way.
    pub(super) fn end(&self) {
        self.ends.notify_one();
    }

    /// Waits for [`Self::end`].
    pub(super) async fn is_to_end(&self) {
        self.ends.notified().await;
    }

    /// Gives back what the flow has not taken, and waits until every answer is sent.
    pub(super) async fn close(&self) {
        let queue = {
            let mut state = self.state();
            state.bytes = 0;
            state.count();
            std::mem::take(&mut state.queue)
        };
        let untaken = queue.into_iter().filter_map(|(_, message)| message.reply).collect();
        let (sent, is_sent) = oneshot::channel();
        // Without a connection nobody receives it, and the messages are redelivered.
        let _ = self.closes.send(Close { untaken, sent });
        let _ = is_sent.await;
    }

    /// Returns the subjects for answers of the messages that have waited this long, here or in the flow.
    pub(super) fn held(&self, for_at_least: Duration) -> Vec<Subject> {
        let state = self.state();
        let is_old = |since: &Instant| since.elapsed() >= for_at_least;
        // They came one after the other.
        let queue = state.queue.iter().take_while(|(since, _)| is_old(since));
        let queue = queue.filter_map(|(_, message)| message.reply.clone());
        let in_flight = self.tickets.in_flight().into_iter().filter(|(since, _)| is_old(since));
        queue.chain(in_flight.map(|(_, reply)| reply)).collect()
    }
}
