//! The source: the messages that come.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::timeout};
use tremor_pdk::{
    Acks, InFlight,
    prelude::*,
    tokio::{Running, Tokio},
};

use super::{
    acks::Answers,
    config::{Durable, From, Settings},
    durable,
    read::{self, Reader},
    resume::Resume,
    shared::Shared,
};
use crate::client::{Client, Denied, Trip};

/// How long the server may take to say what this user may not subscribe to,
const ANSWERS: Duration = Duration::from_secs(10);
/// and how long what is on its way may take at the end. The runtime waits five seconds for all of it.
const ENDS: Duration = Duration::from_secs(2);

/// The source of one connection of the runtime's.
pub struct Messages {
    tokio: Tokio,
    shared: Arc<Shared>,
    most_in_flight: InFlight,
    /// Brings messages; none after the end.
    reading: Option<Running<()>>,
    /// Answers for them; none for core NATS.
    answering: Option<Running<()>>,
    /// Looks how far the consumer is; none for core NATS.
    _watching: Option<Running<()>>,
}

impl Messages {
    pub(super) async fn start(
        host: &Host,
        tokio: Tokio,
        client: Client,
        settings: &Arc<Settings>,
        resume: Arc<Resume>,
    ) -> Result<Self> {
        let (closing, closes) = mpsc::unbounded_channel();
        let is_of_stream = matches!(&settings.from, From::Stream(_));
        let shared =
            Arc::new(Shared::new(host, settings.prefetch, is_of_stream, resume.clone(), closing));
        let mut most_in_flight = InFlight::UNLIMITED;
        let (reading, answering, watching) = match &settings.from {
            From::Core { .. } => {
                let (own, settings) = (client.clone(), settings.clone());
                let subscribed = tokio.run(async move { subscribe(&own, &settings).await });
                let (subscribers, trips) = subscribed.await??;
                let dropped = host.counter(
                    "dropped",
                    "Messages of core NATS that came faster than the flow took them.",
                );
                let (said, shared) = (host.clone(), shared.clone());
                let reading = async move {
                    read::core(client, subscribers, trips, dropped, shared, &said).await;
                };
                (tokio.run(reading), None, None)
            }
            From::Stream(Durable { ack, retry_delay, .. }) => {
                let (ack, retry_delay) = (*ack, *retry_delay);
                let (own, settings_of_it) = (client.clone(), settings.clone());
                let said = host.clone();
                let found = tokio.run(async move {
                    match &settings_of_it.from {
                        From::Stream(durable) => {
                            let nats = own.nats.clone();
                            own.allowed(durable::find(nats, durable, &resume, &said)).await
                        }
                        From::Core { .. } => Err(Error::internal("there is no stream")),
                    }
                });
                let consumer = found.await??;
                let config = &consumer.cached_info().config;
                let ack_wait = config.ack_wait;
                // The server sends no more than that without an answer, and -1 stands for no limit.
                if let Ok(events @ 1..) = u64::try_from(config.max_ack_pending) {
                    most_in_flight =
                        InFlight { events, key: "max_ack_pending", ..InFlight::UNLIMITED };
                }
                let answers = Answers {
                    client: client.nats.clone(),
                    host: host.clone(),
                    closes,
                    shared: shared.clone(),
                    ack,
                    ack_wait,
                    retry_delay,
                    failed: host.counter(
                        "failed",
                        "Messages that failed, and that the server was asked to bring again.",
                    ),
                    acknowledged: host.counter("acknowledged", "Messages that were acknowledged."),
                    unconfirmed: host.counter(
                        "unconfirmed",
                        "Acknowledgements that the server has not confirmed (`ack: double`).",
                    ),
                };
                let watching = read::watch(consumer.clone(), shared.clone(), host.clone());
                let reader = Reader {
                    client,
                    consumer,
                    prefetch: settings.prefetch,
                    shared: shared.clone(),
                    host: host.clone(),
                };
                let answering = tokio.run(answers.run());
                (tokio.run(reader.run()), Some(answering), Some(tokio.run(watching)))
            }
        };
        Ok(Self {
            tokio,
            shared,
            most_in_flight,
            reading: Some(reading),
            answering,
            _watching: watching,
        })
    }
}

/// Subscribes to subjects of core NATS, and says how many messages came back to itself.
async fn subscribe(
    client: &Client,
    settings: &Settings,
) -> Result<(Vec<async_nats::Subscriber>, u64)> {
    let From::Core { subjects, queue } = &settings.from else { return Ok((Vec::new(), 0)) };
    let mut denied = client.denied.subscribe();
    let mut subscribers = Vec::new();
    for subject in subjects {
        let subscribed = match queue {
            Some(queue) => client.nats.queue_subscribe(subject.clone(), queue.clone()).await,
            None => client.nats.subscribe(subject.clone()).await,
        };
        subscribers.push(subscribed.map_err(|error| {
            Error::connection_lost(format_args!("cannot subscribe to `{subject}`: {error}"))
        })?);
    }
    let trip = client.round_trip(ANSWERS).await;
    while let Ok(denied) = denied.try_recv() {
        if matches!(&denied, Denied::Subscribe(it) if subjects.contains(it)) {
            return Err(denied.error());
        }
    }
    Ok((subscribers, u64::from(trip? == Trip::Back)))
}

impl Source for Messages {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        poll_fn(|context| self.shared.poll_pull(context, batch)).await?;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.answering.as_ref()?;
        Some(Box::new(self.shared.tickets.clone().at_most(self.most_in_flight)))
    }

    /// Sends the last answers, and gives back what the flow has not taken.
    async fn close(&mut self) -> Result<()> {
        let Some(reading) = self.reading.take() else { return Ok(()) };
        if self.answering.is_some() {
            self.shared.end();
            // What it has not brought by then comes again after `ack_wait`.
            let ended = self.tokio.run(async move { timeout(ENDS, reading).await.is_ok() });
            ended.await?;
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
