//! The source of `nats_consumer`: reads received messages.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::timeout};
use tremor_pdk::{
    Acks, InFlight,
    prelude::*,
    tokio::{Running, Tokio},
};

use super::{
    acks::Answers,
    config::{Durable, Input, Settings},
    durable,
    read::{self, Reader},
    resume::Resume,
    shared::Shared,
};
use crate::client::{Client, Denied, RoundTrip};

/// Maximum time to wait until the server has reported which subscriptions it denies.
const DENIAL_WAIT: Duration = Duration::from_secs(10);
/// Maximum time that the reading task may take to end. The runtime limits the whole `close` to five seconds.
const END_WAIT: Duration = Duration::from_secs(2);

/// Source of one connection.
pub struct Messages {
    tokio: Tokio,
    shared: Arc<Shared>,
    max_in_flight: InFlight,
    /// Task that receives messages; `None` once the source is closed.
    reading: Option<Running<()>>,
    /// Task that answers messages; `None` for core NATS.
    answering: Option<Running<()>>,
    /// Task that watches the state of the consumer; `None` for core NATS.
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
        let is_of_stream = matches!(&settings.input, Input::Stream(_));
        let shared =
            Arc::new(Shared::new(host, settings.prefetch, is_of_stream, resume.clone(), closing));
        let mut max_in_flight = InFlight::UNLIMITED;
        let (reading, answering, watching) = match &settings.input {
            Input::Core { .. } => {
                let (own, settings) = (client.clone(), settings.clone());
                let subscribed = tokio.run(async move { subscribe(&own, &settings).await });
                let (subscribers, trips) = subscribed.await??;
                let dropped = host.counter(
                    "dropped",
                    "Messages of core NATS that were dropped because they arrived faster than the flow read them.",
                );
                let (own_host, shared) = (host.clone(), shared.clone());
                let reading = async move {
                    read::core(client, subscribers, trips, dropped, shared, &own_host).await;
                };
                (tokio.run(reading), None, None)
            }
            Input::Stream(Durable { ack, retry_delay, .. }) => {
                let (ack, retry_delay) = (*ack, *retry_delay);
                let (own, own_settings) = (client.clone(), settings.clone());
                let own_host = host.clone();
                let found = tokio.run(async move {
                    match &own_settings.input {
                        Input::Stream(durable) => {
                            let nats = own.nats.clone();
                            own.unless_denied(durable::find(nats, durable, &resume, &own_host))
                                .await
                        }
                        Input::Core { .. } => Err(Error::internal(
                            "cannot read a stream: the configuration has no `stream`",
                        )),
                    }
                });
                let consumer = found.await??;
                let config = &consumer.cached_info().config;
                let ack_wait = config.ack_wait;
                // The server sends at most this number of messages without an answer; -1 means no limit.
                if let Ok(events @ 1..) = usize::try_from(config.max_ack_pending) {
                    max_in_flight =
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
                        "Messages that failed, and whose redelivery was requested.",
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
            max_in_flight,
            reading: Some(reading),
            answering,
            _watching: watching,
        })
    }
}

/// Subscribes to subjects of core NATS. Also returns the number of messages that the client has
/// sent to itself and received.
async fn subscribe(
    client: &Client,
    settings: &Settings,
) -> Result<(Vec<async_nats::Subscriber>, u64)> {
    let Input::Core { subjects, queue } = &settings.input else { return Ok((Vec::new(), 0)) };
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
    let trip = client.round_trip(DENIAL_WAIT).await;
    while let Ok(denied) = denied.try_recv() {
        if matches!(&denied, Denied::Subscribe(it) if subjects.contains(it)) {
            return Err(denied.error());
        }
    }
    Ok((subscribers, u64::from(trip? == RoundTrip::Completed)))
}

impl Source for Messages {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        poll_fn(|context| self.shared.poll_pull(context, batch)).await?;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.answering.as_ref()?;
        Some(Box::new(self.shared.tickets.clone().at_most(self.max_in_flight)))
    }

    /// Sends the last answers, and requests the redelivery of messages that the flow has not read.
    async fn close(&mut self) -> Result<()> {
        let Some(reading) = self.reading.take() else { return Ok(()) };
        if self.answering.is_some() {
            self.shared.stop_reading();
            // The server redelivers messages that arrive after this wait once `ack_wait` has passed.
            let ended = self.tokio.run(async move { timeout(END_WAIT, reading).await.is_ok() });
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
