//! What the tasks on tokio, the source and its acknowledgements share.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use async_nats::{Message, Subject};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tremor_pdk::{Counter, Memory, prelude::*};

use super::{info::Info, record, resume::Resume};

/// Memory of messages that were fetched ahead of the flow, in bytes, from which on no more are requested.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// Returns the memory that a message takes, in bytes.
pub(super) fn cost(message: &Message) -> usize {
    size_of::<Message>() + message.length
}

/// What is to be said to the server.
pub(super) enum Answer {
    /// These are done with.
    Ack(Vec<Subject>),
    /// These are to come again, after a while or at once.
    Nak(Vec<Subject>, Option<Duration>),
    /// Tell when all before is sent.
    Flush(oneshot::Sender<()>),
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
    answers: mpsc::UnboundedSender<Answer>,
    /// None for core NATS, whose messages nobody answers.
    retry_delay: Option<Duration>,
    host: Host,
    redelivered: Counter,
    failed: Counter,
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
    /// The subjects for answers, of the messages of each pull that has not ended.
    under_way: HashMap<u64, (Instant, Vec<Subject>)>,
    /// Who waits for messages.
    waiting: Option<Waker>,
    /// What the next pull is to answer.
    error: Option<Error>,
}

impl State {
    fn may_request(&self) -> bool {
        self.bytes == 0 || (self.bytes < MAX_BYTES && !self.is_short)
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
        retry_delay: Option<Duration>,
        resume: Arc<Resume>,
        answers: mpsc::UnboundedSender<Answer>,
    ) -> Self {
        let state = State {
            queue: VecDeque::new(),
            bytes: 0,
            memory: host.memory(),
            is_short: false,
            under_way: HashMap::new(),
            waiting: None,
            error: None,
        };
        Self {
            state: Mutex::new(state),
            room: Semaphore::new(room as usize),
            resume,
            ends: Notify::new(),
            pulled: Notify::new(),
            answers,
            retry_delay,
            host: host.clone(),
            redelivered: host.counter("redelivered", "Messages that came again."),
            failed: host.counter(
                "failed",
                "Messages that failed, and that the server was asked to bring again.",
            ),
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
    pub(super) fn poll_pull(&self, context: &Context<'_>, batch: &mut Batch) -> Poll<Result<()>> {
        let mut state = self.state();
        let may_request = state.may_request();
        let (mut replies, mut count, mut result) = (Vec::new(), 0, Ok(()));
        let mut redelivered = 0;
        while result.is_ok() && !batch.is_full() {
            let Some((_, message)) = state.queue.pop_front() else { break };
            count += 1;
            state.bytes -= cost(&message);
            if self.retry_delay.is_none() {
                result = record::push_core(batch, &message);
                continue;
            }
            let Some((reply, info)) =
                message.reply.as_ref().and_then(|it| Some((it, Info::of(it)?)))
            else {
                tremor_pdk::warn!(self.host, "what is no message of the stream is not taken");
                continue;
            };
            redelivered += u64::from(info.deliveries > 1);
            result = record::push_stream(batch, &message, &info);
            // One for each message in the batch.
            replies.push(reply.clone());
        }
        if count == 0 {
            if let Some(error) = state.error.take() {
                return Poll::Ready(Err(error));
            }
            state.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        if !replies.is_empty() {
            state.under_way.insert(batch.pull(), (Instant::now(), replies));
        }
        state.count();
        drop(state);
        if !may_request {
            self.pulled.notify_one();
        }
        self.redelivered.add(redelivered);
        self.room.add_permits(count);
        Poll::Ready(result)
    }

    /// A pull has ended.
    pub(super) fn ack(&self, pull: u64) {
        let brought = self.state().under_way.remove(&pull);
        if let Some((_, replies)) = brought {
            self.say(Answer::Ack(replies));
        }
    }

    /// A pull has ended, and these of its messages have failed.
    pub(super) fn failed(&self, pull: u64, failed: &[Range<usize>]) {
        let Some((_, replies)) = self.state().under_way.remove(&pull) else { return };
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (position, reply) in replies.into_iter().enumerate() {
            let is_bad = failed.iter().any(|it| it.contains(&position));
            if is_bad { &mut bad } else { &mut good }.push(reply);
        }
        self.failed.add(bad.len() as u64);
        self.say(Answer::Ack(good));
        self.say(Answer::Nak(bad, self.retry_delay));
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
        let replies = queue.into_iter().filter_map(|(_, message)| message.reply);
        self.say(Answer::Nak(replies.collect(), None));
        let (tell, told) = oneshot::channel();
        self.say(Answer::Flush(tell));
        // Without a connection there is nobody to tell.
        let _ = told.await;
    }

    /// The messages that have waited this long, here or in the flow.
    pub(super) fn held(&self, for_at_least: Duration) -> Vec<Subject> {
        let state = self.state();
        let is_old = |since: &Instant| since.elapsed() >= for_at_least;
        // They came one after the other.
        let queue = state.queue.iter().take_while(|(since, _)| is_old(since));
        let queue = queue.filter_map(|(_, message)| message.reply.as_ref());
        let under_way = state.under_way.values().filter(|(since, _)| is_old(since));
        queue.chain(under_way.flat_map(|(_, replies)| replies)).cloned().collect()
    }

    fn say(&self, answer: Answer) {
        // After the end of the connection nobody hears it: the messages come again.
        let _ = self.answers.send(answer);
    }
}
