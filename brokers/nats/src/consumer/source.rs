//! The source: the messages that come.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tremor_pdk::{
    prelude::*,
    tokio::{Running, Tokio},
};

use super::{
    acks::{Answers, Told},
    config::{Acknowledge, Durable, From, Settings},
    durable, read,
    shared::Shared,
};
use crate::client::Client;

/// The source of one connection of the runtime's.
pub struct Messages {
    shared: Arc<Shared>,
    /// Brings messages; none after the end.
    reading: Option<Running<()>>,
    /// Answers for them; none for core NATS.
    answering: Option<Running<()>>,
    _client: Client,
}

impl Messages {
    pub(super) async fn start(
        host: &Host,
        tokio: Tokio,
        client: Client,
        settings: &Arc<Settings>,
    ) -> Result<Self> {
        let (say, answers) = mpsc::unbounded_channel();
        let retry_delay = match &settings.from {
            From::Stream(durable) => durable.retry_delay,
            From::Core { .. } => Duration::ZERO,
        };
        let shared = Arc::new(Shared::new(host, settings.prefetch, retry_delay, say));
        let nats = client.nats.clone();
        let (reading, answering) = match &settings.from {
            From::Core { .. } => {
                let (settings, shared) = (settings.clone(), shared.clone());
                let subscribed = tokio.run(async move { subscribe(&nats, &settings).await });
                let subscribers = subscribed.await??;
                (tokio.run(read::core(subscribers, shared)), None)
            }
            From::Stream(Durable { ack, .. }) => {
                let ack: Acknowledge = *ack;
                let own = settings.clone();
                let client = nats.clone();
                let found = tokio.run(async move {
                    match &own.from {
                        From::Stream(durable) => durable::find(client, durable).await,
                        From::Core { .. } => Err(Error::internal("there is no stream")),
                    }
                });
                let consumer = found.await??;
                let ack_wait = consumer.cached_info().config.ack_wait;
                let answers = Answers {
                    client: nats,
                    host: host.clone(),
                    said: answers,
                    shared: shared.clone(),
                    ack,
                    ack_wait,
                    acknowledged: host.counter("acknowledged", "Messages that were acknowledged."),
                    unconfirmed: host.counter(
                        "unconfirmed",
                        "Acknowledgements that the server has not confirmed (`ack: double`).",
                    ),
                };
                let reading = tokio.run(read::stream(consumer, settings.prefetch, shared.clone()));
                (reading, Some(tokio.run(answers.run())))
            }
        };
        Ok(Self { shared, reading: Some(reading), answering, _client: client })
    }
}

/// Subscribes to subjects of core NATS.
async fn subscribe(
    client: &async_nats::Client,
    settings: &Settings,
) -> Result<Vec<async_nats::Subscriber>> {
    let From::Core { subjects, queue } = &settings.from else { return Ok(Vec::new()) };
    let mut subscribers = Vec::new();
    for subject in subjects {
        let subscribed = match queue {
            Some(queue) => client.queue_subscribe(subject.clone(), queue.clone()).await,
            None => client.subscribe(subject.clone()).await,
        };
        subscribers.push(subscribed.map_err(|error| {
            Error::connection_lost(format_args!("cannot subscribe to `{subject}`: {error}"))
        })?);
    }
    let flushed = client.flush().await;
    flushed.map_err(|error| Error::connection_lost(format_args!("cannot subscribe: {error}")))?;
    Ok(subscribers)
}

impl Source for Messages {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        poll_fn(|context| self.shared.poll_pull(context, batch)).await?;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.answering.as_ref()?;
        Some(Box::new(Told(self.shared.clone())))
    }

    /// Sends the last answers, and gives back what the flow has not taken.
    async fn close(&mut self) -> Result<()> {
        self.reading = None;
        if self.answering.is_some() {
            self.shared.close().await;
        }
        self.answering = None;
        Ok(())
    }
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Messages")
    }
}
