//! Creates the client of a consumer, and waits until a broker has answered.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rdkafka::{consumer::Consumer, error::KafkaError};
use tremor_pdk::prelude::*;

use super::{client::Client, config::Settings, context::GroupContext, signal::Signal};
use crate::client::explain;

/// Maximum duration of a connection attempt.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Maximum duration of one request while connecting. Between requests the events of librdkafka are served.
const SLICE: Duration = Duration::from_millis(100);

/// Returns a client that has reached a broker and subscribed to the topics. The client fetches up to `prefetch`
/// bytes ahead.
///
/// # Errors
/// No broker answers, or the brokers reject this client or its configuration.
pub(super) async fn connect(
    host: &Host,
    settings: &Arc<Settings>,
    prefetch: u64,
    ended: &Arc<Signal>,
) -> Result<Arc<Client>> {
    // The attempt runs on a blocking thread. It ends early when this future is dropped, because the future owns
    // `alive`.
    let alive = Arc::new(());
    let (weak, settings) = (Arc::downgrade(&alive), settings.clone());
    let (own, ended) = (host.clone(), ended.clone());
    let client = host.blocking(move || attempt(&settings, prefetch, own, &ended, &weak)).await?;
    drop(alive);
    client
}

fn attempt(
    settings: &Settings,
    prefetch: u64,
    host: Host,
    ended: &Arc<Signal>,
    alive: &Weak<()>,
) -> Result<Arc<Client>> {
    let context = GroupContext::new(host.clone());
    let mut properties = settings.properties.clone();
    properties
        .set("queued.max.messages.kbytes", (prefetch >> 10).to_string())
        // Limit the length of a broker's answer too, because an answer is buffered in addition to the queue.
        .set("fetch.max.bytes", prefetch.clamp(1 << 20, 50 << 20).to_string());
    let client = Client::new(&properties, context, host, ended.clone());
    let client = client.map_err(|error| {
        // No client exists that would set `ended` when it leaves the group.
        ended.set();
        match error {
            // A file of `tls` cannot be read, for example.
            KafkaError::ClientCreation(text) => {
                Error::configuration(format_args!("cannot create the Kafka client: {text}"))
            }
            error => explain(&error, ""),
        }
    })?;
    let until = Instant::now() + ATTEMPT;
    loop {
        // Every broker can answer this request.
        let is_reached = client.client().fetch_cluster_id(SLICE).is_some();
        serve(&client);
        let diagnostics = &client.context().diagnostics;
        if let Some(error) = diagnostics.final_error() {
            return Err(error);
        }
        if is_reached {
            diagnostics.broker_answered();
            break;
        }
        if let Some(error) = diagnostics.outage() {
            return Err(error);
        }
        if alive.strong_count() == 0 || Instant::now() > until {
            return Err(Error::connection_refused(format_args!(
                "cannot reach any broker of `brokers`: no answer within {ATTEMPT:?}"
            )));
        }
    }
    let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
    client.subscribe(&topics).map_err(|error| {
        Error::configuration(format_args!("invalid `topics`: librdkafka rejected them: {error}"))
    })?;
    Ok(Arc::new(client))
}

/// Serves all pending events of librdkafka.
fn serve(client: &Client) {
    loop {
        let callbacks = client.context().callbacks();
        let record = client.poll(Duration::ZERO);
        if record.is_none() && client.context().callbacks() == callbacks {
            return;
        }
    }
}
