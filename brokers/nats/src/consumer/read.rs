//! Brings messages, on tokio.

use std::{sync::Arc, time::Duration};

use async_nats::{Subscriber, jetstream::consumer::PullConsumer};
use futures_util::{StreamExt, stream::select_all};
use tremor_pdk::prelude::*;

use super::shared::{Arrived, Shared};

/// How long the server keeps a request for messages. After that it gets the next.
const EXPIRES: Duration = Duration::from_secs(10);

/// Requests messages of a stream, as many as there is room for. Ends with an error only.
pub(super) async fn stream(consumer: PullConsumer, prefetch: u32, shared: Arc<Shared>) {
    let most = consumer.cached_info().config.max_batch;
    let most = u32::try_from(most).ok().filter(|it| *it > 0).unwrap_or(u32::MAX).min(prefetch);
    let error = loop {
        if let Err(error) = request(&consumer, most, &shared).await {
            break error;
        }
    };
    shared.fail(error);
}

async fn request(consumer: &PullConsumer, most: u32, shared: &Shared) -> Result<()> {
    // Half of it, at least: not a request for each message that the flow takes.
    let half = most.div_ceil(2);
    let reserved = shared.room.acquire_many(half).await.map_err(Error::internal)?;
    reserved.forget();
    let further = shared.room.available_permits().min((most - half) as usize);
    let further = u32::try_from(further).unwrap_or_default();
    let further = shared.room.try_acquire_many(further).map_or(0, |permit| {
        permit.forget();
        further
    });
    let room = (half + further) as usize;
    let messages = consumer.batch().max_messages(room).expires(EXPIRES).messages().await;
    let mut messages = messages.map_err(|error| lost(&error))?;
    let mut came = 0;
    while let Some(message) = messages.next().await {
        shared.arrived(Arrived::Stream(message.map_err(|error| lost(&error))?));
        came += 1;
    }
    shared.room.add_permits(room - came);
    Ok(())
}

fn lost(error: &dyn std::fmt::Display) -> Error {
    Error::connection_lost(format_args!("the consumer brings no messages: {error}"))
}

/// Takes messages of core NATS as there is room for them.
pub(super) async fn core(subscribers: Vec<Subscriber>, shared: Arc<Shared>) {
    let mut messages = select_all(subscribers);
    while let Ok(room) = shared.room.acquire().await {
        room.forget();
        let Some(message) = messages.next().await else { break };
        shared.arrived(Arrived::Core(message));
    }
    shared.fail(Error::connection_lost("the server brings no messages any more"));
}
