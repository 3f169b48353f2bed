//! Tasks on tokio that receive messages.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use async_nats::{
    Message, Subject, Subscriber,
    jetstream::consumer::{PullConsumer, pull::BatchConfig},
};
use futures_util::{FutureExt, StreamExt, stream::ReadyChunks, stream::select_all};
use tokio::{
    task::unconstrained,
    time::{Instant, sleep, sleep_until, timeout},
};
use tremor_pdk::{Counter, prelude::*};

use super::{backlog::Backlog, info::is_of_stream, shared::Shared};
use crate::client::{Client, SUBSCRIPTION_CAPACITY, lost};

/// Maximum time that the server keeps a request for messages. If the consumer's `max_expires` is less, that time is
/// used.
const EXPIRES: Duration = Duration::from_secs(30);
/// Maximum time between two heartbeats of the server while it keeps a request and has no messages.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Number of consecutive silences after which the connection counts as lost. A silence is a time of two heartbeat
/// intervals without a message or a heartbeat.
const MAX_SILENCES: u32 = 3;
/// Pause before the next request after the server has rejected a request.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of rejected requests in a row.
const MAX_REJECTIONS: u32 = 20;
/// Maximum number of messages that are taken from the client at once.
const CHUNK: usize = 256;
/// Interval in which at most one line about dropped messages is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);
/// Maximum wait for each chunk of requested messages while the reader ends.
const CHUNK_WAIT: Duration = Duration::from_millis(100);
/// Maximum wait for all requested messages together while the reader ends.
const FINISH_WAIT: Duration = Duration::from_secs(1);

/// Reader of a stream.
pub(super) struct Reader {
    pub(super) client: Client,
    pub(super) consumer: PullConsumer,
    pub(super) prefetch: u32,
    pub(super) shared: Arc<Shared>,
    pub(super) host: Host,
}

/// Received messages. Each chunk has the messages that are available together.
type Chunks = ReadyChunks<Subscriber>;

/// State of the requests for messages.
struct Requests {
    /// Number of requested messages that may still arrive.
    count: usize,
    /// Number of requests that were sent.
    sent: u64,
    /// Time at which a silence begins to count, unless a message or a heartbeat arrives before.
    deadline: Instant,
    /// Time before which no request is sent.
    not_before: Option<Instant>,
    silences: u32,
    rejections: u32,
}

impl Reader {
    /// Runs until [`Shared::stop_reading`] is called or an error occurs.
    pub(super) async fn run(self) {
        let read = self.client.unless_denied(self.read()).await;
        if let Err(error) = read {
            self.shared.fail(error);
        }
    }

    async fn read(&self) -> Result<()> {
        let inbox = self.client.nats.new_inbox();
        let subscribed = self.client.nats.subscribe(format!("{inbox}.*")).await;
        let mut messages = subscribed.map_err(|error| cannot_read(&error))?.ready_chunks(CHUNK);
        let limits = &self.consumer.cached_info().config;
        let most = u32::try_from(limits.max_batch).ok().filter(|it| *it > 0);
        let most = most.unwrap_or(u32::MAX).min(self.prefetch);
        let expires = Some(limits.max_expires).filter(|it| !it.is_zero());
        let expires = expires.unwrap_or(EXPIRES).min(EXPIRES);
        let heartbeat = HEARTBEAT.min(expires / 2);
        let mut asked = Requests {
            count: 0,
            sent: 0,
            deadline: Instant::now(),
            not_before: None,
            silences: 0,
            rejections: 0,
        };
        // Request at least half of `most` messages at a time, so that not every message that the flow takes causes a
        // request.
        let half = most.div_ceil(2);
        loop {
            let pause = asked.not_before.unwrap_or(asked.deadline);
            let may_request = self.shared.may_request();
            tokio::select! {
                biased;
                () = self.shared.reading_stopped() => {
                    self.finish(&mut messages, &mut asked).await;
                    return Ok(());
                }
                chunk = messages.next() => {
                    self.take(chunk.ok_or_else(lost)?, &mut asked)?;
                    asked.deadline = Instant::now() + 2 * heartbeat;
                }
                () = sleep_until(pause), if asked.not_before.is_some() => asked.not_before = None,
                () = self.shared.pulled(), if !may_request => {}
                permits = self.shared.capacity.acquire_many(half), if asked.not_before.is_none() && may_request => {
                    permits.map_err(Error::internal)?.forget();
                    let count = (half + self.shared.try_reserve(most - half)) as usize;
                    asked.sent += 1;
                    let request = BatchConfig {
                        batch: count,
                        expires: Some(expires),
                        idle_heartbeat: heartbeat,
                        ..BatchConfig::default()
                    };
                    let to = Subject::from(format!("{inbox}.{count}-{}", asked.sent));
                    let sent = self.consumer.request_batch(request, to).await;
                    sent.map_err(|error| cannot_read(&error))?;
                    asked.count += count;
                    asked.deadline = Instant::now() + 2 * heartbeat;
                }
                () = sleep_until(asked.deadline), if asked.count > 0 => self.handle_silence(&mut asked)?,
            }
        }
    }

    /// Handles a silence of the server: cancels all requests, so that new ones are sent, because the server has
    /// probably lost them.
    fn handle_silence(&self, asked: &mut Requests) -> Result<()> {
        asked.silences += 1;
        if asked.silences >= MAX_SILENCES {
            return Err(Error::connection_lost("the server sent no heartbeat for the consumer"));
        }
        tremor_pdk::info!(
            self.host,
            "the server sent no heartbeat for the consumer; requesting messages again"
        );
        self.cancel(asked, usize::MAX);
        Ok(())
    }

    /// Stops expecting `count` requested messages, and frees the capacity that was reserved for them.
    fn cancel(&self, asked: &mut Requests, count: usize) {
        let count = count.min(asked.count);
        asked.count -= count;
        self.shared.capacity.add_permits(count);
    }

    fn take(&self, chunk: Vec<Message>, asked: &mut Requests) -> Result<()> {
        asked.silences = 0;
        let mut messages = Vec::with_capacity(chunk.len());
        for message in chunk {
            // Distinguish status messages by their reply subject and not by their status, because a publisher may have
            // set a status.
            if !is_of_stream(message.reply.as_deref()) {
                self.handle_status(&message, asked)?;
                continue;
            }
            asked.rejections = 0;
            if asked.count > 0 {
                asked.count -= 1;
            } else if self.shared.try_reserve(1) == 0 {
                tremor_pdk::warn!(
                    self.host,
                    "dropped a message that was not requested; it is redelivered after `ack_wait`"
                );
                continue;
            }
            messages.push(message);
        }
        self.shared.arrived(messages);
        Ok(())
    }

    /// Handles a status message about a request. The subject of the message is the reply subject of the request.
    fn handle_status(&self, message: &Message, asked: &mut Requests) -> Result<()> {
        let code = message.status.map_or(0, |it| it.as_u16());
        let text = message.description.as_deref().unwrap_or_default();
        let size = || {
            let number = message.subject.rsplit_once('.')?.1.split_once('-')?.0;
            number.parse().ok()
        };
        let left = || {
            let left = message.headers.as_ref()?.get("Nats-Pending-Messages")?;
            left.as_str().parse().ok()
        };
        match code {
            // Heartbeat.
            100 => {}
            // The request has expired, or no messages are available.
            404 | 408 => self.cancel(asked, left().or_else(size).unwrap_or_default()),
            409 if text.starts_with("Consumer ") || text.starts_with("Exceeded MaxRequest") => {
                return Err(cannot_read(&text));
            }
            // Every request is lost, because the new leader does not know them.
            409 if text == "Leadership Change" => self.cancel(asked, usize::MAX),
            409 => {
                self.cancel(asked, left().or_else(size).unwrap_or_default());
                asked.not_before = Some(Instant::now() + PAUSE);
            }
            _ if message.status.is_some() => {
                self.cancel(asked, size().unwrap_or_default());
                asked.rejections += 1;
                asked.not_before = Some(Instant::now() + PAUSE);
                tremor_pdk::debug!(self.host, "a request for messages was rejected: {code} {text}");
                if asked.rejections > MAX_REJECTIONS {
                    return Err(cannot_read(&format_args!("{code} {text}")));
                }
            }
            _ => {
                tremor_pdk::warn!(
                    self.host,
                    "ignored a message without the metadata of the stream"
                );
            }
        }
        Ok(())
    }

    /// Receives the requested messages that have been sent already, for at most [`FINISH_WAIT`].
    async fn finish(&self, messages: &mut Chunks, asked: &mut Requests) {
        let finish = async {
            while asked.count > 0 {
                let Ok(Some(chunk)) = timeout(CHUNK_WAIT, messages.next()).await else { break };
                if self.take(chunk, asked).is_err() {
                    break;
                }
            }
        };
        // Messages that arrive later are redelivered after `ack_wait`.
        let _ = timeout(FINISH_WAIT, finish).await;
    }
}

fn cannot_read(error: &dyn std::fmt::Display) -> Error {
    Error::connection_lost(format_args!("cannot read messages of the consumer: {error}"))
}

/// Receives messages of core NATS and passes them to the flow as fast as it has capacity. Counts dropped messages from
/// the statistics of the client. `trips` is the number of messages that the client sent to itself, because the
/// statistics include them.
pub(super) async fn core(
    client: Client,
    subscribers: Vec<Subscriber>,
    trips: u64,
    dropped: Counter,
    shared: Arc<Shared>,
    host: &Host,
) {
    // Maximum number of messages that wait in the client, which drops further ones.
    let waiting = (subscribers.len() * SUBSCRIPTION_CAPACITY) as u64;
    let mut messages = select_all(subscribers).ready_chunks(CHUNK);
    let statistics = client.nats.statistics();
    let log = host.limited_log(1, LOGGED_EVERY);
    let count_dropped = |count: u64| {
        dropped.add(count);
        tremor_pdk::warn!(
            log,
            "dropped messages, because they arrive faster than the flow reads them; the metric `dropped` counts them"
        );
    };
    let (mut taken, mut missed) = (trips, 0);
    let mut miss = |taken: u64, waiting: u64| {
        let all = statistics.in_messages.load(Relaxed).saturating_sub(taken + waiting);
        if all > missed {
            count_dropped(all - missed);
            missed = all;
        }
    };
    let mut backlog = Backlog::new(host);
    loop {
        backlog.hand_over(&shared);
        // Poll without tokio's budget for a task: once the budget is used up, polls return nothing until the task
        // yields, and this task would count waiting messages as dropped. The same applies to the second poll below.
        let chunk = if let Some(chunk) = unconstrained(messages.next()).now_or_never() {
            chunk
        } else {
            miss(taken, 0);
            tokio::select! {
                chunk = unconstrained(messages.next()) => chunk,
                permit = shared.capacity.acquire(), if !backlog.is_empty() => {
                    // Dropping the permit returns the capacity, which `hand_over` takes in the next iteration.
                    drop(permit);
                    continue;
                }
            }
        };
        let Some(chunk) = chunk else { break };
        taken += chunk.len() as u64;
        miss(taken, waiting);
        let rejected = chunk.into_iter().map(|message| backlog.add(message)).filter(|added| !added);
        let rejected = rejected.count() as u64;
        if rejected > 0 {
            count_dropped(rejected);
        }
    }
    // Pass the messages that were received before the connection ended to the flow.
    backlog.hand_over_all(&shared).await;
    shared.fail(lost());
}

/// Interval at which the state of the consumer is requested.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Regularly requests the state of the consumer, updates the metrics about it, and stores its acknowledged position.
/// The state covers all readers of the consumer.
pub(super) async fn watch(consumer: PullConsumer, shared: Arc<Shared>, host: Host) {
    let pending = host.gauge("pending", "Messages that the consumer has not delivered yet.");
    let unanswered = host.gauge(
        "unanswered",
        "Messages that the consumer has delivered to any of its readers, and that were not answered yet.",
    );
    loop {
        match consumer.get_info().await {
            Ok(info) => {
                pending.set_integer(info.num_pending);
                unanswered.set_integer(info.num_ack_pending);
                shared.resume.update(info.ack_floor.stream_sequence);
            }
            // Only log the error, because the reading task notices if the consumer is lost.
            Err(error) => {
                tremor_pdk::debug!(host, "cannot get the state of the consumer: {error}");
            }
        }
        sleep(WATCH_INTERVAL).await;
    }
}
