//! Brings messages, on tokio.

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
use crate::client::{Client, WAITING, lost};

/// How long the server keeps a request for messages, unless the consumer allows less.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often it gives a sign of life while it keeps one and has no messages.
const SIGN: Duration = Duration::from_secs(5);
/// After how many times without two of these signs the connection is of no use.
const SILENCES: u32 = 3;
/// How long nothing is asked for, after the server could not keep a request,
const PAUSE: Duration = Duration::from_millis(250);
/// and how often that may be in a row.
const REFUSALS: u32 = 20;
/// How many messages are taken over at a time.
const AT_ONCE: usize = 256;
/// At the end: how long what was asked for may be on its way, and all of it together.
const QUIET: Duration = Duration::from_millis(100);
const END: Duration = Duration::from_secs(1);

/// Reads a stream.
pub(super) struct Reader {
    pub(super) client: Client,
    pub(super) consumer: PullConsumer,
    pub(super) prefetch: u32,
    pub(super) shared: Arc<Shared>,
    pub(super) host: Host,
}

/// Messages that come, those that are there together.
type Chunks = ReadyChunks<Subscriber>;

/// What was asked for.
struct Asked {
    /// How many messages may still come.
    count: usize,
    /// How many requests there were.
    requests: u64,
    /// Until when there has to be a sign of life, if something may come.
    deadline: Instant,
    /// Before that nothing is asked for.
    not_before: Option<Instant>,
    silences: u32,
    refusals: u32,
}

impl Reader {
    /// Runs until it is told to end, or there is an error.
    pub(super) async fn run(self) {
        let read = self.client.allowed(self.read()).await;
        if let Err(error) = read {
            self.shared.fail(error);
        }
    }

    async fn read(&self) -> Result<()> {
        let inbox = self.client.nats.new_inbox();
        let subscribed = self.client.nats.subscribe(format!("{inbox}.*")).await;
        let mut messages = subscribed.map_err(|error| gone(&error))?.ready_chunks(AT_ONCE);
        let limits = &self.consumer.cached_info().config;
        let most = u32::try_from(limits.max_batch).ok().filter(|it| *it > 0);
        let most = most.unwrap_or(u32::MAX).min(self.prefetch);
        let expires = Some(limits.max_expires).filter(|it| !it.is_zero());
        let expires = expires.unwrap_or(EXPIRES).min(EXPIRES);
        let sign = SIGN.min(expires / 2);
        let mut asked = Asked {
            count: 0,
            requests: 0,
            deadline: Instant::now(),
            not_before: None,
            silences: 0,
            refusals: 0,
        };
        // Half of it, at least: not a request for each message that the flow takes.
        let half = most.div_ceil(2);
        loop {
            let pause = asked.not_before.unwrap_or(asked.deadline);
            let may_request = self.shared.may_request();
            tokio::select! {
                biased;
                () = self.shared.is_to_end() => {
                    self.finish(&mut messages, &mut asked).await;
                    return Ok(());
                }
                came = messages.next() => {
                    self.take(came.ok_or_else(lost)?, &mut asked)?;
                    asked.deadline = Instant::now() + 2 * sign;
                }
                () = sleep_until(pause), if asked.not_before.is_some() => asked.not_before = None,
                () = self.shared.pulled(), if !may_request => {}
                room = self.shared.room.acquire_many(half), if asked.not_before.is_none() && may_request => {
                    room.map_err(Error::internal)?.forget();
                    let count = (half + self.shared.more_room(most - half)) as usize;
                    asked.requests += 1;
                    let request = BatchConfig {
                        batch: count,
                        expires: Some(expires),
                        idle_heartbeat: sign,
                        ..BatchConfig::default()
                    };
                    let to = Subject::from(format!("{inbox}.{count}-{}", asked.requests));
                    let sent = self.consumer.request_batch(request, to).await;
                    sent.map_err(|error| gone(&error))?;
                    asked.count += count;
                    asked.deadline = Instant::now() + 2 * sign;
                }
                () = sleep_until(asked.deadline), if asked.count > 0 => self.silent(&mut asked)?,
            }
        }
    }

    /// Nothing has come for too long, not even a sign of life: the server has forgotten what was asked for.
    fn silent(&self, asked: &mut Asked) -> Result<()> {
        asked.silences += 1;
        if asked.silences >= SILENCES {
            return Err(Error::connection_lost("the consumer gives no sign of life"));
        }
        tremor_pdk::info!(self.host, "the consumer gives no sign of life, and is asked again");
        self.over(asked, usize::MAX);
        Ok(())
    }

    /// So many of the messages that were asked for will not come.
    fn over(&self, asked: &mut Asked, count: usize) {
        let count = count.min(asked.count);
        asked.count -= count;
        self.shared.room.add_permits(count);
    }

    fn take(&self, came: Vec<Message>, asked: &mut Asked) -> Result<()> {
        asked.silences = 0;
        let mut messages = Vec::with_capacity(came.len());
        for message in came {
            // By its answer, and not by its status: the publisher of a message may have given it one.
            if !is_of_stream(message.reply.as_deref()) {
                self.status(&message, asked)?;
                continue;
            }
            asked.refusals = 0;
            if asked.count > 0 {
                asked.count -= 1;
            } else if self.shared.more_room(1) == 0 {
                tremor_pdk::warn!(
                    self.host,
                    "a message that nobody has asked for is not taken; it comes again after `ack_wait`"
                );
                continue;
            }
            messages.push(message);
        }
        self.shared.arrived(messages);
        Ok(())
    }

    /// What the server says of a request: its subject is the one that the answer was to go to.
    fn status(&self, message: &Message, asked: &mut Asked) -> Result<()> {
        let code = message.status.map_or(0, |it| it.as_u16());
        let said = message.description.as_deref().unwrap_or_default();
        let size = || {
            let number = message.subject.rsplit_once('.')?.1.split_once('-')?.0;
            number.parse().ok()
        };
        let left = || {
            let left = message.headers.as_ref()?.get("Nats-Pending-Messages")?;
            left.as_str().parse().ok()
        };
        match code {
            // A sign of life.
            100 => {}
            // Its time is over, or there is nothing.
            404 | 408 => self.over(asked, left().or_else(size).unwrap_or_default()),
            409 if said.starts_with("Consumer ") || said.starts_with("Exceeded MaxRequest") => {
                return Err(gone(&said));
            }
            // Those of all requests, with which another leader has nothing to do.
            409 if said == "Leadership Change" => self.over(asked, usize::MAX),
            409 => {
                self.over(asked, left().or_else(size).unwrap_or_default());
                asked.not_before = Some(Instant::now() + PAUSE);
            }
            _ if message.status.is_some() => {
                self.over(asked, size().unwrap_or_default());
                asked.refusals += 1;
                asked.not_before = Some(Instant::now() + PAUSE);
                tremor_pdk::debug!(self.host, "a request for messages is refused: {code} {said}");
                if asked.refusals > REFUSALS {
                    return Err(gone(&format_args!("{code} {said}")));
                }
            }
            _ => tremor_pdk::warn!(
                self.host,
                "a message without the metadata of the stream was ignored"
            ),
        }
        Ok(())
    }

    /// What was asked for may be on its way.
    async fn finish(&self, messages: &mut Chunks, asked: &mut Asked) {
        let finish = async {
            while asked.count > 0 {
                let Ok(Some(came)) = timeout(QUIET, messages.next()).await else { break };
                if self.take(came, asked).is_err() {
                    break;
                }
            }
        };
        // After that it comes again after `ack_wait`.
        let _ = timeout(END, finish).await;
    }
}

fn gone(error: &dyn std::fmt::Display) -> Error {
    Error::connection_lost(format_args!("the consumer brings no messages: {error}"))
}

/// Takes messages of core NATS as there is room for them, and counts those that did not wait.
pub(super) async fn core(
    client: Client,
    subscribers: Vec<Subscriber>,
    trips: u64,
    dropped: Counter,
    shared: Arc<Shared>,
    host: &Host,
) {
    // Those after them are dropped.
    let waiting = (subscribers.len() * WAITING) as u64;
    let mut messages = select_all(subscribers).ready_chunks(AT_ONCE);
    let statistics = client.nats.statistics();
    let (mut taken, mut missed) = (trips, 0);
    let mut miss = |taken: u64, waiting: u64| {
        let all = statistics.in_messages.load(Relaxed).saturating_sub(taken + waiting);
        if all > missed {
            dropped.add(all - missed);
            missed = all;
        }
    };
    let mut backlog = Backlog::new(host);
    loop {
        backlog.hand_over(&shared);
        // Unconstrained, both: a task that has done much in its turn would find nothing, and count what waits as dropped.
        // What was left of its turn by then would be hidden from the next look as well, until the task has had a pause, which
        // it has for the room of a message.
        let came = if let Some(came) = unconstrained(messages.next()).now_or_never() {
            came
        } else {
            miss(taken, 0);
            tokio::select! {
                came = unconstrained(messages.next()) => came,
                room = shared.room.acquire(), if !backlog.is_empty() => {
                    // The permit goes back, and the next round takes it.
                    drop(room);
                    continue;
                }
            }
        };
        let Some(came) = came else { break };
        taken += came.len() as u64;
        miss(taken, waiting);
        let without_space =
            came.into_iter().map(|message| backlog.add(message)).filter(|added| !added);
        let without_space = without_space.count() as u64;
        if without_space > 0 {
            dropped.add(without_space);
        }
    }
    // Messages that were received before the connection ended still go to the flow.
    backlog.hand_over_all(&shared).await;
    shared.fail(lost());
}

/// How often is looked how far the consumer is.
const LOOK: Duration = Duration::from_secs(5);

/// Says how far the consumer is, of all its readers together.
pub(super) async fn watch(consumer: PullConsumer, shared: Arc<Shared>, host: Host) {
    let pending = host.gauge("pending", "Messages that the consumer has not delivered yet.");
    let unanswered = host.gauge(
        "unanswered",
        "Messages that the consumer has delivered, to all its readers, and that nobody has answered for.",
    );
    loop {
        match consumer.get_info().await {
            Ok(info) => {
                pending.set_integer(info.num_pending);
                unanswered.set_integer(info.num_ack_pending);
                shared.resume.note(info.ack_floor.stream_sequence);
            }
            // The task that brings messages hears of what is wrong.
            Err(error) => {
                tremor_pdk::debug!(host, "the state of the consumer is not known: {error}");
            }
        }
        sleep(LOOK).await;
    }
}
