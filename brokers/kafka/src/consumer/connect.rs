//! Reaches the brokers for the first time.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rdkafka::{consumer::Consumer, error::KafkaError};
use tremor_pdk::prelude::*;

use super::{client::Client, config::Settings, context::Heard, signal::Signal};
use crate::client::explain;

/// How long an attempt takes at most.
const ATTEMPT: Duration = Duration::from_secs(10);

/// How long librdkafka is waited for before it is heard again.
const SLICE: Duration = Duration::from_millis(100);

/// A client that reaches a broker, and has said what it wants to read. It fetches `prefetch` bytes ahead.
///
/// # Errors
/// Why it does not.
pub(super) async fn connect(
    host: &Host,
    settings: &Arc<Settings>,
    prefetch: u64,
    ended: &Arc<Signal>,
) -> Result<Arc<Client>> {
    // If this is given up, the attempt is as well.
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
    let heard = Heard::new(host.clone());
    let mut properties = settings.properties.clone();
    properties
        .set("queued.max.messages.kbytes", (prefetch >> 10).to_string())
        // An answer of a broker comes on top of what is queued.
        .set("fetch.max.bytes", prefetch.clamp(1 << 20, 50 << 20).to_string());
    let client = Client::new(&properties, heard, host, ended.clone());
    let client = client.map_err(|error| {
        // There is none that could say so.
        ended.set();
        match error {
            // A file of `tls`, say.
            KafkaError::ClientCreation(text) => {
                Error::configuration(format_args!("librdkafka makes no client: {text}"))
            }
            error => explain(&error, ""),
        }
    })?;
    let until = Instant::now() + ATTEMPT;
    loop {
        // Any broker knows it.
        let is_reached = client.client().fetch_cluster_id(SLICE).is_some();
        serve(&client);
        let told = &client.context().told;
        if let Some(error) = told.is_final() {
            return Err(error);
        }
        if is_reached {
            told.is_up();
            break;
        }
        if let Some(error) = told.is_down() {
            return Err(error);
        }
        if alive.strong_count() == 0 || Instant::now() > until {
            return Err(Error::connection_refused(
                "no broker of `brokers` answers within ten seconds",
            ));
        }
    }
    let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
    client.subscribe(&topics).map_err(|error| {
        Error::configuration(format_args!("`topics`: librdkafka does not take them: {error}"))
    })?;
    Ok(Arc::new(client))
}

/// Has librdkafka tell what there is.
fn serve(client: &Client) {
    loop {
        let calls = client.context().calls();
        let record = client.poll(Duration::ZERO);
        if record.is_none() && client.context().calls() == calls {
            return;
        }
    }
}
