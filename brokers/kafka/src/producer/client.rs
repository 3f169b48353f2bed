//! A client of librdkafka: what it tells is read by a task of the host's, whenever a descriptor says so.

use std::{
    error::Error as StdError,
    ffi::CStr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext,
    client::OAuthToken,
    config::RDKafkaLogLevel,
    error::KafkaError,
    producer::{BaseProducer, DeliveryResult, Producer, ProducerContext, PurgeConfig},
    types::RDKafkaErrorCode as Code,
};
use tremor_pdk::{Blocking, Counter, Descriptors, ErrorPolicy, Gauge, Task, prelude::*};

use super::{
    config::Settings,
    ledger::{Ledger, Open, Place},
    native::{Events, Record},
};
use crate::client::{Told, cannot_start, token};

/// How long a broker may take to answer at first.
const ANSWERS: Duration = Duration::from_secs(10);
/// How long brokers are asked again that refuse a connection.
const REFUSES: Duration = Duration::from_secs(2);
/// How often is looked meanwhile whether there is no use in waiting.
const LOOK: Duration = Duration::from_millis(100);

/// A client that runs. Dropped, it ends on a thread of the host's that may block.
pub(super) struct Client {
    host: Host,
    inner: Option<Arc<Inner>>,
    _task: Task,
}

/// What the task and deliveries share.
pub(super) struct Inner {
    // Before the client whose events they are.
    events: Events,
    producer: BaseProducer<Reports>,
    /// How long a delivery may be under way.
    timeout: Duration,
    unacknowledged: Gauge,
    given_up: Counter,
}

/// What librdkafka calls while it is polled.
pub(super) struct Reports {
    told: Told,
    ledger: Ledger,
}

impl ClientContext for Reports {
    /// They come so often: that is the clock by which deliveries are given up.
    fn stats_raw(&self, _statistics: &[u8]) {}

    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, file: Option<&str>) -> Result<OAuthToken, Box<dyn StdError>> {
        token(file)
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.told.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.told.error(&error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let failed = result.as_ref().err();
        let code = failed.map(|(error, _)| error.rdkafka_error_code().unwrap_or(Code::Fail));
        self.ledger.report(number, code);
    }
}

impl Client {
    /// Starts it, and waits until a broker has answered. `buffer` bytes of records may wait in it.
    ///
    /// # Errors
    /// No broker answers, or they do not accept this client.
    pub(super) async fn start(host: &Host, settings: &Settings, buffer: u64) -> Result<Self> {
        let reports = Reports { told: Told::new(host.clone()), ledger: Ledger::default() };
        let mut properties = settings.properties.clone();
        properties.set("queue.buffering.max.kbytes", (buffer >> 10).to_string());
        // It reads files.
        let started =
            host.blocking(move || properties.create_with_context::<_, BaseProducer<_>>(reports));
        let producer =
            started.await?.map_err(|error| cannot_start(&error, &settings.properties))?;
        let inner = Arc::new(Inner {
            events: Events::of(&producer, &Descriptors::new(host)?)?,
            producer,
            timeout: settings.timeout,
            unacknowledged: host
                .gauge("unacknowledged", "Records that no broker has acknowledged yet."),
            given_up: host.counter("given_up", "Connections given up with records on their way."),
        });
        let task = host.spawn("hears of records", hear(host.clone(), Arc::downgrade(&inner)));
        let client = Self { host: host.clone(), inner: Some(inner), _task: task };
        client.wait_for_broker(settings).await?;
        Ok(client)
    }

    async fn wait_for_broker(&self, settings: &Settings) -> Result<()> {
        let Some(inner) = self.inner.clone() else { return Ok(()) };
        let answered = self.host.blocking(move || {
            let start = Instant::now();
            while start.elapsed() < ANSWERS && inner.told().is_final().is_none() {
                if inner.producer.client().fetch_cluster_id(LOOK).is_some() {
                    return Ok(());
                }
                // As the task does, which may be without a turn meanwhile.
                inner.hear();
                if start.elapsed() > REFUSES && inner.told().is_down().is_some() {
                    break;
                }
            }
            Err(inner.told().is_final().or_else(|| inner.told().is_down()))
        });
        match answered.await? {
            Ok(()) => {
                tremor_pdk::info!(
                    self.host,
                    "writes to `{}` through `{}`",
                    settings.topic,
                    settings.brokers
                );
                Ok(())
            }
            Err(told) => Err(told.unwrap_or_else(|| {
                Error::connection_refused(format_args!("none of `{}` answers", settings.brokers))
            })),
        }
    }

    /// What deliveries use; none at the end.
    pub(super) fn inner(&self) -> Option<&Inner> {
        self.inner.as_deref()
    }

    /// Ends it, and waits for that.
    pub(super) async fn end(mut self) -> Result<()> {
        match self.take() {
            Some(ended) => ended.await,
            None => Ok(()),
        }
    }

    fn take(&mut self) -> Option<Blocking<()>> {
        self.inner.take().map(|inner| self.host.blocking(move || drop(inner)))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Reads what librdkafka tells, until the client ends.
async fn hear(host: Host, client: Weak<Inner>) {
    loop {
        let Some(inner) = client.upgrade() else { return };
        inner.hear();
        // Only while something is done: the last to have the client is the one that drops it.
        let waited = inner.events.waiter();
        if let Some(last) = Arc::into_inner(inner) {
            drop(host.blocking(move || drop(last)));
            return;
        }
        if let Err(error) = waited.wait().await {
            if let Some(inner) = client.upgrade() {
                inner.give_up(Error::from(error).context("waiting for the client of Kafka"));
            }
            return;
        }
    }
}

impl Inner {
    fn told(&self) -> &Told {
        &self.producer.context().told
    }

    fn ledger(&self) -> &Ledger {
        &self.producer.context().ledger
    }

    /// Reads what librdkafka tells now.
    fn hear(&self) {
        let delivered = self.ledger().delivered();
        // Until there is none: one that comes before the last poll is not told of by the descriptor.
        while self.events.len() > 0 {
            self.producer.poll(Duration::ZERO);
        }
        if self.ledger().delivered() > delivered {
            self.told().is_up();
        }
        if let Some(error) = self.told().is_final() {
            self.give_up(error);
        } else if let Some((code, text)) = self.producer.client().fatal_error() {
            // Numbers of records do not fit any more: another client begins with new ones.
            let error = Error::connection_lost(format_args!("{text} ({code})"));
            self.give_up(error);
        } else {
            self.look_at_the_time();
        }
        self.ledger().wake();
    }

    /// Gives up all records, at a time: none that came later is delivered before one that came earlier.
    fn give_up(&self, error: Error) {
        if self.ledger().end(error) && self.producer.in_flight_count() > 0 {
            self.given_up.add(1);
            // Its threads for brokers do that in their own time: one may wait for a name to be looked up.
            self.producer.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
    }

    /// Enters a delivery; the batch shares the buffers of its payloads.
    pub(super) fn enter(&self, payloads: RawBatch) -> Place<'_> {
        self.ledger().enter(payloads)
    }

    /// Why nothing more is delivered.
    pub(super) fn ended(&self) -> Option<Error> {
        self.ledger().ended()
    }

    /// Begins to hand over records.
    pub(super) fn open(&self) -> Open<'_> {
        self.ledger().open()
    }

    /// Hands over the record of the event at this position.
    ///
    /// # Errors
    /// The client does not take it, or not now: its queue is full.
    pub(super) fn send(
        &self,
        open: &Open<'_>,
        place: &mut Place<'_>,
        topic: &CStr,
        record: &mut Record<'_>,
        event: (&[u8], usize),
    ) -> Result<(), Code> {
        let (payload, position) = event;
        place.send(open, &self.producer, topic, record, payload, position)
    }

    /// How many records were reported of.
    pub(super) fn reported(&self) -> u64 {
        self.ledger().reported()
    }

    /// Waits until there may be room for a record, since there were so many reports.
    pub(super) async fn room(&self, reported: u64) {
        self.ledger().room(reported).await;
    }

    /// Gives up what takes too long.
    fn look_at_the_time(&self) {
        self.unacknowledged.set_integer(self.producer.in_flight_count());
        let age = self.ledger().oldest().map(|since| since.elapsed());
        if age.is_some_and(|age| age > self.timeout) {
            let why = self
                .told()
                .is_down()
                .map_or_else(|| "the brokers do not answer".to_owned(), |error| error.to_string());
            let error = Error::timeout(format_args!(
                "records were not acknowledged within {:?}: {why}",
                self.timeout
            ));
            self.give_up(error.with_policy(ErrorPolicy::RECONNECT));
        }
    }
}
