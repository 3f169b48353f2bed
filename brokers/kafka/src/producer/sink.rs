//! The sink: deliveries as records.

use std::{ffi::CString, iter::Peekable, sync::Arc};

use rdkafka::types::RDKafkaErrorCode as Code;
use tremor_pdk::{Counter, ErrorPolicy, ParallelSink, prelude::*};

use super::{
    client::{Client, Inner},
    config::Settings,
    ledger::{MOST, Place},
    outcome, record,
};

/// The sink of one connection of the runtime's.
pub struct Produces {
    client: Arc<Client>,
    settings: Arc<Settings>,
    refused: Counter,
}

/// A topic as librdkafka takes it, made anew where it changes.
#[derive(Default)]
struct Topic(CString);

impl Topic {
    fn set(&mut self, topic: &str) -> Result<&CString> {
        if self.0.as_bytes() != topic.as_bytes() {
            self.0 = CString::new(topic).map_err(Error::bad_data)?;
        }
        Ok(&self.0)
    }
}

impl Produces {
    pub(super) fn new(host: &Host, client: Arc<Client>, settings: Arc<Settings>) -> Self {
        let refused = host.counter("refused", "Records that the brokers do not take.");
        Self { client, settings, refused }
    }

    /// Sends the events at these positions, and waits for the brokers' answers. What cannot be sent is added to
    /// `refused`; what was not delivered is the answer.
    async fn send(
        &self,
        client: &Inner,
        batch: &RawBatch,
        positions: impl Iterator<Item = usize> + Send,
        refused: &mut Vec<(usize, Error)>,
    ) -> Vec<(usize, Code)> {
        let mut positions = positions.peekable();
        let mut topic = Topic::default();
        let mut place = client.enter(batch.part(0..0));
        loop {
            let reported = client.reported();
            let rest = (&mut positions, &mut topic);
            if self.hand_over(client, &mut place, batch, rest, refused) {
                return place.reports().await;
            }
            // What it has is delivered meanwhile, and the sources wait.
            client.room(reported).await;
        }
    }

    /// Hands over the records of the events at these positions, until there is no room. Whether it has all of them.
    fn hand_over(
        &self,
        client: &Inner,
        place: &mut Place<'_>,
        batch: &RawBatch,
        (positions, topic): (&mut Peekable<impl Iterator<Item = usize>>, &mut Topic),
        refused: &mut Vec<(usize, Error)>,
    ) -> bool {
        let open = client.open();
        while let Some(&position) = positions.peek() {
            // The end of a stream is not a record.
            let sent = batch.get(position).map_or(Ok(()), |event| {
                let payload = event.raw();
                let mut record = record::of(event, &self.settings)?;
                let name = record.topic;
                let sent =
                    client.send(&open, place, topic.set(name)?, &mut record, (payload, position));
                sent.map_err(|code| Refused::By(code, name))
            });
            match sent {
                Err(Refused::By(Code::QueueFull, _)) if open.ended().is_none() => return false,
                Err(Refused::By(code, topic)) => {
                    refused.push((position, verdict(open.ended(), code, topic)));
                }
                Err(Refused::Before(error)) => refused.push((position, error)),
                Ok(()) => {}
            }
            positions.next();
        }
        true
    }
}

/// Why the client does not have a record.
enum Refused<'r> {
    /// There is none.
    Before(Error),
    /// The client does not take it, of this topic.
    By(Code, &'r str),
}

impl From<Error> for Refused<'_> {
    fn from(error: Error) -> Self {
        Self::Before(error)
    }
}

/// What becomes of an event whose record the brokers do not have.
fn verdict(ended: Option<&Error>, code: Code, topic: &str) -> Error {
    match ended {
        Some(ended) if outcome::is_given_up(code) || code == Code::QueueFull => ended.clone(),
        _ => outcome::of(code, topic),
    }
}

impl ParallelSink for Produces {
    type Batch = RawBatch;

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let Some(client) = self.client.inner() else {
            return Err(Error::connection_lost("the client of Kafka has ended").into());
        };
        if let Some(error) = client.ended() {
            return Err(error.into());
        }
        if batch.len() > MOST {
            return Err(Error::unsupported("more events than this machine can count").into());
        }
        let mut refused = Vec::new();
        let mut failed = self.send(client, batch, 0..batch.len(), &mut refused).await;
        // A broker refuses all that came together, if that is too large for the topic: each by itself may not be.
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
            refused.push((position, verdict(client.ended().as_ref(), code, topic)));
        }
        if let Some(error) = client.ended().filter(Error::is_final) {
            return Err(error.into());
        }
        self.answer(batch, refused)
    }
}

impl Produces {
    /// Events that were not delivered.
    fn answer(&self, batch: &RawBatch, refused: Vec<(usize, Error)>) -> Delivery {
        let are_final = refused.iter().filter(|(_, it)| it.policy() == ErrorPolicy::DEAD_LETTER);
        self.refused.add(are_final.count() as u64);
        let event = |(position, error)| Some((batch.get(position)?, error));
        refused.into_iter().filter_map(event).collect::<Exceptions>().into()
    }
}

impl std::fmt::Debug for Produces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Produces({})", self.settings.topic)
    }
}
