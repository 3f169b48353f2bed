//! The sink of `kafka_producer`: sends deliveries as records.

use std::{
    borrow::Cow,
    collections::HashSet,
    ffi::CString,
    iter::Peekable,
    sync::{Arc, Mutex},
};

use rdkafka::types::RDKafkaErrorCode as Code;
use tremor_pdk::{Counter, ErrorPolicy, ParallelSink, lock, prelude::*};

use super::{
    client::{Client, Inner},
    config::Settings,
    ledger::{Entry, MAX_EVENTS},
    outcome, record,
};

/// Sink of one connection.
pub struct ProducerSink {
    client: Arc<Client>,
    settings: Arc<Settings>,
    refused: Counter,
    /// Topics of the records so far, if the topic depends on the event.
    topics: Mutex<HashSet<CString>>,
}

/// Topic name as a C string. It is recreated only if the name changes between records.
#[derive(Default)]
struct Topic(CString);

impl Topic {
    fn set(&mut self, topic: &str, sink: &ProducerSink) -> Result<&CString> {
        if self.0.as_bytes() != topic.as_bytes() {
            let name = CString::new(topic).map_err(Error::bad_data)?;
            sink.admit(&name)?;
            self.0 = name;
        }
        Ok(&self.0)
    }
}

impl ProducerSink {
    pub(super) fn new(host: &Host, client: Arc<Client>, settings: Arc<Settings>) -> Self {
        let refused = host.counter("refused", "Records that the brokers rejected permanently.");
        Self { client, settings, refused, topics: Mutex::default() }
    }

    /// Adds a topic to those of this connection, unless the topic is the same for all events.
    ///
    /// # Errors
    /// An error of the kind bad data if the connection knows `max_topics` other topics.
    fn admit(&self, topic: &CString) -> Result<()> {
        if self.settings.topic.fixed().is_some() {
            return Ok(());
        }
        let mut topics = lock(&self.topics);
        if !topics.contains(topic) {
            if topics.len() >= self.settings.max_topics {
                return Err(Error::bad_data(format_args!(
                    "cannot write to topic `{}`: this connection has written to {} topics, the limit of `max_topics`; \
                     raise it, or use a `topic` with fewer values",
                    topic.to_string_lossy(),
                    topics.len()
                )));
            }
            topics.insert(topic.clone());
        }
        Ok(())
    }

    /// Sends the events at `positions`, and waits for the answers of the brokers. Adds events that cannot be sent to
    /// `refused`. Returns the positions and error codes of the events that were sent and not accepted.
    async fn send(
        &self,
        client: &Inner,
        batch: &RawBatch,
        positions: impl Iterator<Item = usize> + Send,
        refused: &mut Vec<(usize, Error)>,
    ) -> Vec<(usize, Code)> {
        let mut positions = positions.peekable();
        let mut topic = Topic::default();
        let mut entry = client.enter(batch.part(0..0));
        loop {
            let reported = client.reported();
            let remaining = (&mut positions, &mut topic);
            if self.hand_over(client, &mut entry, batch, remaining, refused) {
                return entry.reports().await;
            }
            // The client sends queued records during this wait. The wait also slows down the sources of this sink.
            client.wait_for_capacity(reported).await;
        }
    }

    /// Hands the records of the events at `positions` to the client, until the queue of the client is full. Returns
    /// whether all records were handed over.
    fn hand_over(
        &self,
        client: &Inner,
        entry: &mut Entry<'_>,
        batch: &RawBatch,
        (positions, topic): (&mut Peekable<impl Iterator<Item = usize>>, &mut Topic),
        refused: &mut Vec<(usize, Error)>,
    ) -> bool {
        let guard = client.open();
        while let Some(&position) = positions.peek() {
            // An event that only marks the end of a stream has no record.
            let sent = batch.get(position).map_or(Ok(()), |event| {
                let payload = event.raw();
                let mut record = record::of(event, &self.settings)?;
                let name = std::mem::take(&mut record.topic);
                let topic = topic.set(&name, self)?;
                let sent = client.send(&guard, entry, topic, &mut record, (payload, position));
                sent.map_err(|code| Refused::Client(code, name))
            });
            match sent {
                Err(Refused::Client(Code::QueueFull, _)) if guard.ended().is_none() => {
                    return false;
                }
                Err(Refused::Client(code, topic)) => {
                    refused.push((position, verdict(guard.ended(), code, &topic)));
                }
                Err(Refused::Record(error)) => refused.push((position, error)),
                Ok(()) => {}
            }
            positions.next();
        }
        true
    }
}

/// Reason why the client did not accept a record.
enum Refused<'r> {
    /// The event has no valid record.
    Record(Error),
    /// The client rejected the record of this topic.
    Client(Code, Cow<'r, str>),
}

impl From<Error> for Refused<'_> {
    fn from(error: Error) -> Self {
        Self::Record(error)
    }
}

/// Returns the error of an event whose record the brokers did not accept.
fn verdict(ended: Option<&Error>, code: Code, topic: &str) -> Error {
    match ended {
        Some(ended) if outcome::is_given_up(code) || code == Code::QueueFull => ended.clone(),
        _ => outcome::of(code, topic),
    }
}

impl ParallelSink for ProducerSink {
    type Batch = RawBatch;

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let Some(client) = self.client.inner() else {
            return Err(Error::connection_lost("the Kafka client has ended").into());
        };
        if let Some(error) = client.ended() {
            return Err(error.into());
        }
        if batch.len() > MAX_EVENTS {
            return Err(Error::unsupported(format_args!(
                "cannot deliver a batch of more than {MAX_EVENTS} events"
            ))
            .into());
        }
        let mut refused = Vec::new();
        let mut failed = self.send(client, batch, 0..batch.len(), &mut refused).await;
        // Send these records again one by one: a broker rejects a whole batch of records that is too large for the
        // topic, although each record alone may be small enough.
        for (position, code) in &mut failed {
            if *code == Code::MessageSizeTooLarge && client.ended().is_none() {
                let alone = std::iter::once(*position);
                *code = match self.send(client, batch, alone, &mut refused).await.pop() {
                    Some((_, code)) => code,
                    None => Code::NoError,
                };
            }
        }
        let is_delivered = |code: &Code| *code == Code::NoError;
        for (position, code) in failed.into_iter().filter(|(_, code)| !is_delivered(code)) {
            let topic = batch.get(position).map(|event| record::topic(event, &self.settings));
            let topic = topic.and_then(Result::ok).unwrap_or_default();
            refused.push((position, verdict(client.ended().as_ref(), code, &topic)));
        }
        if let Some(error) = client.ended().filter(Error::is_final) {
            return Err(error.into());
        }
        self.answer(batch, refused)
    }
}

impl ProducerSink {
    /// Returns the result of a delivery without the events in `refused`.
    fn answer(&self, batch: &RawBatch, refused: Vec<(usize, Error)>) -> Delivery {
        let are_final = refused.iter().filter(|(_, it)| it.policy() == ErrorPolicy::DEAD_LETTER);
        self.refused.add(are_final.count() as u64);
        let event = |(position, error)| Some((batch.get(position)?, error));
        refused.into_iter().filter_map(event).collect::<Exceptions>().into()
    }
}

impl std::fmt::Debug for ProducerSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProducerSink({})", self.settings.topic)
    }
}
