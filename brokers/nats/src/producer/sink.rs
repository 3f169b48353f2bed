//! The sink: deliveries as messages.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_nats::{
    Subject,
    jetstream::{
        Context as JetStream,
        context::{ContextBuilder, PublishAckFuture, PublishError, PublishErrorKind},
        message::PublishMessage,
        publish::PublishAck as Ack,
    },
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::broadcast;
use tremor_pdk::{Counter, Exceptions, prelude::*, tokio::Tokio};

use super::{
    config::Settings,
    message::{self, Message},
    outcome,
};
use crate::client::Client;

/// How many messages of a delivery wait for their confirmation at a time.
const WINDOW: usize = 4_096;
/// How many of all deliveries do.
const WINDOWS: usize = WINDOW << 10;
/// How often a message is published again that no stream has taken, and after which pause.
const AGAIN: usize = 2;
const PAUSE: Duration = Duration::from_millis(250);

/// The sink of one connection of the runtime's.
pub struct Publishes {
    tokio: Tokio,
    client: Client,
    jetstream: Option<JetStream>,
    settings: Arc<Settings>,
    refused: Counter,
    duplicates: Counter,
}

impl Publishes {
    pub(super) fn new(host: &Host, tokio: Tokio, client: Client, settings: Arc<Settings>) -> Self {
        let jetstream = settings.jetstream.then(|| {
            let builder = ContextBuilder::new()
                .timeout(settings.timeout)
                .max_ack_inflight(WINDOWS)
                .backpressure_on_inflight(true);
            // It starts a task.
            tokio.enter(|| builder.build(client.nats.clone()))
        });
        Self {
            tokio,
            client,
            jetstream,
            settings,
            refused: host.counter("refused", "Messages that the servers do not take."),
            duplicates: host.counter(
                "duplicates",
                "Messages that their stream had already, by their `message_id`.",
            ),
        }
    }

    /// Events that were not delivered, those with the same error together.
    fn answer(&self, mut refused: Vec<(usize, Error)>) -> Delivery {
        refused.sort_by_key(|(position, _)| *position);
        let mut exceptions = Exceptions::none();
        let mut refused = refused.into_iter().peekable();
        while let Some((start, error)) = refused.next() {
            let mut end = start + 1;
            while refused.next_if(|(position, it)| *position == end && *it == error).is_some() {
                end += 1;
            }
            if error.policy() == ErrorPolicy::DEAD_LETTER {
                self.refused.add((end - start) as u64);
            }
            exceptions.push(start..end, error);
        }
        exceptions.into()
    }
}

impl ParallelSink for Publishes {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn deliver(&self, batch: &Batch) -> Delivery {
        let mut refused = Vec::new();
        let messages = message::all(batch, &self.settings, &mut refused);
        if messages.is_empty() {
            return self.answer(refused);
        }
        if let Some(jetstream) = &self.jetstream {
            let confirming = Confirming {
                // Before the first is sent.
                denied: self.client.denied.subscribe(),
                open: BTreeMap::new(),
                refused,
                duplicates: 0,
            };
            let answers = self.tokio.run(confirming.publish(jetstream.clone(), messages)).await?;
            self.duplicates.add(answers.duplicates);
            refused = answers.refused;
        } else {
            let written = self.tokio.run(write(self.client.nats.clone(), messages)).await?;
            refused.extend(written?);
        }
        self.answer(refused)
    }
}

/// Messages of core NATS: written, and confirmed by nobody.
async fn write(client: async_nats::Client, messages: Vec<Message>) -> Result<Vec<(usize, Error)>> {
    let mut refused = Vec::new();
    for Message { position, subject, headers, payload } in messages {
        let sent = match headers {
            Some(headers) => client.publish_with_headers(subject.clone(), headers, payload).await,
            None => client.publish(subject.clone(), payload).await,
        };
        if let Err(error) = sent {
            refused.push((position, outcome::of_core(&error, &subject)));
        }
    }
    client.flush().await.map_err(|error| outcome::lost().caused_by(&error))?;
    Ok(refused)
}

/// Waits for the answer of a stream. That no stream takes the message may pass: the stream may be about to have
/// another leader.
async fn confirmed(
    jetstream: JetStream,
    answer: PublishAckFuture,
    subject: Subject,
    message: PublishMessage,
) -> Result<Ack, PublishError> {
    let mut answer = answer.await;
    for _ in 0..AGAIN {
        match &answer {
            Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {}
            _ => break,
        }
        tokio::time::sleep(PAUSE).await;
        answer = match jetstream.send_publish(subject.clone(), message.clone()).await {
            Ok(again) => again.await,
            Err(error) => Err(error),
        };
    }
    answer
}

/// A delivery whose messages wait for their confirmations.
struct Confirming {
    denied: broadcast::Receiver<String>,
    /// Those that wait, by their positions.
    open: BTreeMap<usize, Subject>,
    refused: Vec<(usize, Error)>,
    duplicates: u64,
}

impl Confirming {
    /// Publishes all, and waits for the answers.
    async fn publish(mut self, jetstream: JetStream, messages: Vec<Message>) -> Self {
        let mut answers = FuturesUnordered::new();
        for Message { position, subject, headers, payload } in messages {
            while self.open.len() >= WINDOW {
                self.hear(&mut answers).await;
            }
            let mut message = PublishMessage::build().payload(payload);
            if let Some(headers) = headers {
                message = message.headers(headers);
            }
            match jetstream.send_publish(subject.clone(), message.clone()).await {
                Ok(answer) => {
                    let confirmed = confirmed(jetstream.clone(), answer, subject.clone(), message);
                    self.open.insert(position, subject);
                    answers.push(async move { (position, confirmed.await) });
                }
                Err(error) => self.refused.push((position, outcome::of(&error, &subject))),
            }
        }
        while !self.open.is_empty() {
            self.hear(&mut answers).await;
        }
        self
    }

    /// Hears the next answer.
    async fn hear<F>(&mut self, answers: &mut FuturesUnordered<F>)
    where
        F: Future<Output = (usize, Result<Ack, PublishError>)>,
    {
        tokio::select! {
            biased;
            Some((position, answer)) = answers.next() => {
                // One that was denied is answered already.
                let Some(subject) = self.open.remove(&position) else { return };
                match answer {
                    Ok(ack) => self.duplicates += u64::from(ack.duplicate),
                    Err(error) => self.refused.push((position, outcome::of(&error, &subject))),
                }
            }
            // If some were missed, their messages time out. The other end is the connection's, which outlives this.
            Ok(denied) = self.denied.recv() => {
                let refused = &mut self.refused;
                self.open.retain(|position, subject| {
                    let is_denied = **subject == *denied;
                    if is_denied {
                        refused.push((*position, outcome::denied(&denied)));
                    }
                    !is_denied
                });
            }
            else => tokio::task::yield_now().await,
        }
    }
}

impl std::fmt::Debug for Publishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Publishes({})", self.settings.subject)
    }
}
