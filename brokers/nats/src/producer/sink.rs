//! The sink of `nats_producer`: sends deliveries as messages.

use std::sync::Arc;

use tremor_pdk::{Counter, ErrorPolicy, ParallelSink, prelude::*, tokio::Tokio};

use super::{
    config::Settings,
    confirming::Confirming,
    message::{self, Message},
    outcome,
};
use crate::client::{Client, Denied};

/// Sink of one connection.
pub struct ProducerSink {
    tokio: Tokio,
    client: Client,
    settings: Arc<Settings>,
    refused: Counter,
    duplicates: Counter,
}

impl ProducerSink {
    pub(super) fn new(host: &Host, tokio: Tokio, client: Client, settings: Arc<Settings>) -> Self {
        Self {
            tokio,
            client,
            settings,
            refused: host.counter("refused", "Messages that the servers rejected permanently."),
            duplicates: host.counter(
                "duplicates",
                "Messages that their stream already had, recognized by their `message_id`.",
            ),
        }
    }

    /// Returns the result of a delivery without the events in `refused`.
    fn answer(&self, batch: &RawBatch, refused: Vec<(usize, Error)>) -> Delivery {
        let are_final = refused.iter().filter(|(_, it)| it.policy() == ErrorPolicy::DEAD_LETTER);
        self.refused.add(are_final.count() as u64);
        let event = |(position, error)| Some((batch.get(position)?, error));
        refused.into_iter().filter_map(event).collect::<Exceptions>().into()
    }
}

impl ParallelSink for ProducerSink {
    type Batch = RawBatch;

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let mut refused = Vec::new();
        let messages = message::all(batch, &self.settings, &mut refused);
        if messages.is_empty() {
            return self.answer(batch, refused);
        }
        let (client, settings) = (self.client.clone(), self.settings.clone());
        if self.settings.jetstream {
            let confirming = Confirming::new(client, settings, messages, refused);
            let answers = self.tokio.run(confirming.publish()).await??;
            self.duplicates.add(answers.duplicates);
            return self.answer(batch, answers.refused);
        }
        let written = self.tokio.run(write(client, settings, messages)).await?;
        refused.extend(written?);
        self.answer(batch, refused)
    }
}

/// Publishes messages of core NATS, and waits until the server has processed them, because servers do not confirm such
/// messages. Returns the messages that could not be published.
async fn write(
    client: Client,
    settings: Arc<Settings>,
    messages: Vec<Message>,
) -> Result<Vec<(usize, Error)>> {
    // Subscribe to denials before the first message is sent, so that no denial is missed.
    let mut denied = client.denied.subscribe();
    let (mut refused, mut positions) = (Vec::new(), Vec::with_capacity(messages.len()));
    for Message { position, subject, headers, payload } in messages {
        let sent = match headers {
            Some(headers) => {
                client.nats.publish_with_headers(subject.clone(), headers, payload).await
            }
            None => client.nats.publish(subject.clone(), payload).await,
        };
        match sent {
            Ok(()) => positions.push((position, subject)),
            Err(error) => {
                let error = outcome::unpublished(&error, &subject);
                if error.policy() == ErrorPolicy::RECONNECT {
                    return Err(error);
                }
                refused.push((position, error));
            }
        }
    }
    client.round_trip(settings.timeout).await?;
    while let Ok(denied) = denied.try_recv() {
        let Denied::Publish(subject) = denied else { continue };
        positions.retain(|(position, it)| {
            let is_denied = **it == *subject;
            if is_denied {
                refused.push((*position, outcome::denied(&subject)));
            }
            !is_denied
        });
    }
    Ok(refused)
}

impl std::fmt::Debug for ProducerSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProducerSink({})", self.settings.subject)
    }
}
