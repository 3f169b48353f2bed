//! The librdkafka client of a producer. A task of the host polls its events whenever a file descriptor becomes
//! readable.

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
    ledger::{Entry, Ledger, SendGuard},
    native::{Events, Record},
};
use crate::client::{Diagnostics, cannot_start, token};

/// Maximum time until a broker answers for the first time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which connecting is retried while no broker accepts a connection.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two checks for final errors while the first answer of a broker is awaited.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A running client. Dropping it closes the client on a thread of the host that may block.
pub(super) struct Client {
    host: Host,
    inner: Option<Arc<Inner>>,
    _task: Task,
}

/// State that the polling task and deliveries share.
pub(super) struct Inner {
    // Declared before `producer`, because the events have to be dropped before the client.
    events: Events,
    producer: BaseProducer<Reports>,
    /// Maximum time that a delivery may be in flight.
    timeout: Duration,
    unacknowledged: Gauge,
    given_up: Counter,
}

/// Context of the client: receives librdkafka's callbacks while the client is polled.
pub(super) struct Reports {
    diagnostics: Diagnostics,
    ledger: Ledger,
}

impl ClientContext for Reports {
    /// Does nothing. Statistics are enabled only because their regular event wakes the polling task, which then checks
    /// whether deliveries have timed out.
    fn stats_raw(&self, _statistics: &[u8]) {}

    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, file: Option<&str>) -> Result<OAuthToken, Box<dyn StdError>> {
        token(file)
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.diagnostics.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.diagnostics.error(&error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, id: usize) {
        let failed = result.as_ref().err();
        let code = failed.map(|(error, _)| error.rdkafka_error_code().unwrap_or(Code::Fail));
        self.ledger.report(id, code);
    }
}

impl Client {
    /// Starts a client that may buffer `buffer` bytes of records, and waits until a broker answers.
    ///
    /// # Errors
    /// No broker answered, or the brokers rejected this client.
    pub(super) async fn start(host: &Host, settings: &Settings, buffer: u64) -> Result<Self> {
        let reports =
            Reports { diagnostics: Diagnostics::new(host.clone()), ledger: Ledger::default() };
        let mut properties = settings.properties.clone();
        properties.set("queue.buffering.max.kbytes", (buffer >> 10).to_string());
        // Create the client on a thread that may block, because librdkafka reads certificate files.
        let started =
            host.blocking(move || properties.create_with_context::<_, BaseProducer<_>>(reports));
        let producer =
            started.await?.map_err(|error| cannot_start(&error, &settings.properties))?;
        let inner = Arc::new(Inner {
            events: Events::of(&producer, &Descriptors::new(host)?)?,
            producer,
            timeout: settings.timeout,
            unacknowledged: host
                .gauge("unacknowledged", "Records that the brokers have not acknowledged yet."),
            given_up: host
                .counter("given_up", "Connections that were abandoned with records in flight."),
        });
        let task =
            host.spawn("Kafka producer events", poll_events(host.clone(), Arc::downgrade(&inner)));
        let client = Self { host: host.clone(), inner: Some(inner), _task: task };
        client.wait_for_broker(settings).await?;
        Ok(client)
    }

    async fn wait_for_broker(&self, settings: &Settings) -> Result<()> {
        let Some(inner) = self.inner.clone() else { return Ok(()) };
        let answered = self.host.blocking(move || {
            let start = Instant::now();
            while start.elapsed() < ANSWER_TIMEOUT && inner.diagnostics().final_error().is_none() {
                if inner.producer.client().fetch_cluster_id(CHECK_INTERVAL).is_some() {
                    return Ok(());
                }
                // Poll events here too, because the polling task may not run while this loop waits.
                inner.poll_events();
                if start.elapsed() > REFUSAL_TIMEOUT && inner.diagnostics().outage().is_some() {
                    break;
                }
            }
            Err(inner.diagnostics().final_error().or_else(|| inner.diagnostics().outage()))
        });
        match answered.await? {
            Ok(()) => {
                tremor_pdk::info!(
                    self.host,
                    "writing to topic `{}` of brokers `{}`",
                    settings.topic,
                    settings.brokers
                );
                Ok(())
            }
            Err(error) => Err(error.unwrap_or_else(|| {
                Error::connection_refused(format_args!(
                    "cannot reach any broker of `{}`: no answer within {ANSWER_TIMEOUT:?}",
                    settings.brokers
                ))
            })),
        }
    }

    /// Returns the shared state, or `None` once the client has ended.
    pub(super) fn inner(&self) -> Option<&Inner> {
        self.inner.as_deref()
    }

    /// Closes the client and waits until it is closed.
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

/// Polls librdkafka's events until the client ends.
async fn poll_events(host: Host, client: Weak<Inner>) {
    loop {
        let Some(inner) = client.upgrade() else { return };
        inner.poll_events();
        // Release the client during the wait. If this was the last reference, the client is dropped
        // on a thread that may block.
        let waited = inner.events.waiter();
        if let Some(last) = Arc::into_inner(inner) {
            drop(host.blocking(move || drop(last)));
            return;
        }
        if let Err(error) = waited.wait().await {
            if let Some(inner) = client.upgrade() {
                inner.give_up(
                    Error::from(error).context("cannot wait for events of the Kafka client"),
                );
            }
            return;
        }
    }
}

impl Inner {
    fn diagnostics(&self) -> &Diagnostics {
        &self.producer.context().diagnostics
    }

    fn ledger(&self) -> &Ledger {
        &self.producer.context().ledger
    }

    /// Handles all pending events of librdkafka.
    fn poll_events(&self) {
        let delivered = self.ledger().delivered();
        // Poll until the queue is empty: the descriptor signals only the first event that the empty queue receives.
        while self.events.len() > 0 {
            self.producer.poll(Duration::ZERO);
        }
        if self.ledger().delivered() > delivered {
            self.diagnostics().broker_answered();
        }
        if let Some(error) = self.diagnostics().final_error() {
            self.give_up(error);
        } else if let Some((code, text)) = self.producer.client().fatal_error() {
            // After a fatal error the sequence numbers of the records no longer match those of the brokers. A new
            // client starts with new sequence numbers.
            let error = Error::connection_lost(format_args!("{text} ({code})"));
            self.give_up(error);
        } else {
            self.check_timeout();
        }
        self.ledger().wake();
    }

    /// Gives up all records in flight together, so that no later record is delivered before an earlier one that is
    /// retried.
    fn give_up(&self, error: Error) {
        if self.ledger().end(error) && self.producer.in_flight_count() > 0 {
            self.given_up.add(1);
            // Do not wait for the purge: librdkafka's broker threads purge their queues later, which may take long, for
            // example during a name lookup.
            self.producer.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
    }

    /// Registers a delivery. `payloads` shares the buffers that contain the payloads of its records.
    pub(super) fn enter(&self, payloads: RawBatch) -> Entry<'_> {
        self.ledger().enter(payloads)
    }

    /// Returns the error because of which no more records are delivered, if there is one.
    pub(super) fn ended(&self) -> Option<Error> {
        self.ledger().ended()
    }

    /// Starts handing over records.
    pub(super) fn open(&self) -> SendGuard<'_> {
        self.ledger().open()
    }

    /// Hands a record to librdkafka. `event` is the payload and the position of the event.
    ///
    /// # Errors
    /// The client rejected the record, or the queue of the client is full.
    pub(super) fn send(
        &self,
        guard: &SendGuard<'_>,
        entry: &mut Entry<'_>,
        topic: &CStr,
        record: &mut Record<'_>,
        event: (&[u8], usize),
    ) -> Result<(), Code> {
        let (payload, position) = event;
        entry.send(guard, &self.producer, topic, record, payload, position)
    }

    /// Returns the number of records that librdkafka has reported on.
    pub(super) fn reported(&self) -> u64 {
        self.ledger().reported()
    }

    /// Waits until librdkafka has reported on more than `reported` records, so that the queue may have
    /// capacity.
    pub(super) async fn wait_for_capacity(&self, reported: u64) {
        self.ledger().wait_for_capacity(reported).await;
    }

    /// Updates the metric `unacknowledged`, and gives up all records if the oldest delivery has timed out.
    fn check_timeout(&self) {
        self.unacknowledged.set_integer(self.producer.in_flight_count());
        let age = self.ledger().oldest().map(|since| since.elapsed());
        if age.is_some_and(|age| age > self.timeout) {
            let why = self
                .diagnostics()
                .outage()
                .map_or_else(|| "the brokers did not answer".to_owned(), |error| error.to_string());
            let error = Error::timeout(format_args!(
                "records were not acknowledged within {:?}: {why}",
                self.timeout
            ));
            self.give_up(error.with_policy(ErrorPolicy::RECONNECT));
        }
    }
}
