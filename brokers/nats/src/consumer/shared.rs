//! State that the tasks on tokio, the source and its acknowledgements share.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use async_nats::{Message, Subject};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tremor_pdk::{Counter, Memory, Tickets, lock, prelude::*};

use super::{
    info::Info,
    record::{self, Ticket},
    resume::Resume,
};

/// Memory of prefetched messages, in bytes, above which no more messages are requested.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// Returns the memory that a message takes, in bytes.
pub(super) fn cost(message: &Message) -> usize {
    size_of::<Message>() + message.length
}

/// Request to close: asks the server to redeliver the messages that the flow has not read, and notifies `sent`
/// once all answers are sent.
pub(super) struct Close {
    pub(super) unread: Vec<Subject>,
    pub(super) sent: oneshot::Sender<()>,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// Number of further messages that may be requested or queued.
    pub(super) capacity: Semaphore,
    /// Start position of a consumer that has to be recreated.
    pub(super) resume: Arc<Resume>,
    /// Notifies the reading task that it has to stop.
    stop: Notify,
    /// Notifies the reading task that messages were pulled while [`may_request`](Self::may_request) was `false`.
    pulled: Notify,
    closes: mpsc::UnboundedSender<Close>,
    /// Messages of a stream in flight.
    pub(super) tickets: Tickets<Ticket>,
    /// `false` for core NATS, whose messages are not answered.
    is_of_stream: bool,
    host: Host,
    redelivered: Counter,
}

struct State {
    /// Messages that the flow has not read yet.
    queue: VecDeque<(Instant, Message)>,
    /// Memory of the messages in `queue`, in bytes.
    bytes: usize,
    /// Adds `bytes` to the memory of the flow.
    memory: Memory,
    /// `true` while the memory limit of the flow does not allow `bytes`.
    is_short: bool,
    /// Waker of the pull that waits for messages.
    waiting: Option<Waker>,
    /// Error that the next pull without messages returns.
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

    /// Updates the memory of the flow to `bytes`. If the memory limit does not allow that, the messages stay in memory
    /// without being counted, because they were already received.
    fn count(&mut self) {
        self.is_short = !self.memory.try_resize(self.bytes);
    }
}

impl Shared {
    pub(super) fn new(
        host: &Host,
        capacity: u32,
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
            capacity: Semaphore::new(capacity as usize),
            resume,
            stop: Notify::new(),
            pulled: Notify::new(),
            closes,
            tickets: Tickets::new(),
            is_of_stream,
            host: host.clone(),
            redelivered: host.counter("redelivered", "Messages that were delivered again."),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reserves the free capacity, at most for `most` messages, and returns the number of messages.
    pub(super) fn try_reserve(&self, most: u32) -> u32 {
        let free = self.capacity.available_permits().min(most as usize);
        let free = u32::try_from(free).unwrap_or_default();
        self.capacity.try_acquire_many(free).map_or(0, |taken| {
            taken.forget();
            free
        })
    }

    /// Adds received messages to the queue and wakes the pull.
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

    /// Returns whether more messages may be requested: the queued messages take less than [`MAX_BYTES`], and
    /// the flow has the memory for them.
    pub(super) fn may_request(&self) -> bool {
        self.state().may_request()
    }

    /// Waits until messages were pulled after [`may_request`](Self::may_request) returned `false`.
    pub(super) async fn pulled(&self) {
        self.pulled.notified().await;
    }

    /// Makes the pull return `error` once the queue is empty. No further messages will arrive.
    pub(super) fn fail(&self, error: Error) {
        let mut state = self.state();
        state.error = Some(error);
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Moves queued messages to the batch. Completes once there is at least one message or an error.
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
        self.capacity.add_permits(count);
        Poll::Ready(result)
    }

    /// Moves messages from the queue to a batch until it is full. Returns the number of messages, and an error
    /// if one of them could not be written.
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
                    "ignored a message without the metadata of the stream"
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

    /// Makes the reading task receive the messages that were already sent, and end.
    pub(super) fn stop_reading(&self) {
        self.stop.notify_one();
    }

    /// Waits for [`stop_reading`](Self::stop_reading).
    pub(super) async fn reading_stopped(&self) {
        self.stop.notified().await;
    }

    /// Requests the redelivery of the messages that the flow has not read, and waits until all answers are sent.
    pub(super) async fn close(&self) {
        let queue = {
            let mut state = self.state();
            state.bytes = 0;
            state.count();
            std::mem::take(&mut state.queue)
        };
        let unread = queue.into_iter().filter_map(|(_, message)| message.reply).collect();
        let (sent, is_sent) = oneshot::channel();
        // Ignore the errors: they mean that the connection is lost, and then the server redelivers the messages anyway.
        let _ = self.closes.send(Close { unread, sent });
        let _ = is_sent.await;
    }

    /// Returns the reply subjects of the messages that have waited for at least `min_age`, in the queue or in
    /// the flow.
    pub(super) fn waiting_for(&self, min_age: Duration) -> Vec<Subject> {
        let state = self.state();
        let is_old = |since: &Instant| since.elapsed() >= min_age;
        // The messages in the queue are ordered by their time of arrival.
        let queue = state.queue.iter().take_while(|(since, _)| is_old(since));
        let queue = queue.filter_map(|(_, message)| message.reply.clone());
        let in_flight = self.tickets.in_flight().into_iter().filter(|(since, _)| is_old(since));
        queue.chain(in_flight.map(|(_, reply)| reply)).collect()
    }
}
