//! The sink: gathers events in objects.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Demand, Exceptions, ParallelSink, Task, prelude::*, warn};

use super::{cleaner::Cleaner, objects::Objects, requests::Client, state::State};

/// Number of deliveries that an object waits for. This is the largest number that a flow accepts.
const DELIVERIES: usize = 1_024;

/// Limits of a delivery. A delivery waits longer than usual, because its events wait for their object anyway.
const MAX_EVENTS: usize = 8_192;
const MAX_BYTES: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(1);

/// Gathers events in objects, and acknowledges them when their object is stored.
pub struct Archive {
    host: Host,
    client: Arc<Client>,
    objects: Objects,
    /// Aborts abandoned uploads while the sink exists. `None` without a state file.
    cleaner: Option<(Cleaner, Task)>,
}

impl Archive {
    pub(super) fn new(host: &Host, client: Client, state: Option<Arc<State>>) -> Self {
        let client = Arc::new(client);
        let cleaner = state.clone().map(|state| Cleaner::new(client.clone(), state));
        let cleaner = cleaner.map(|cleaner| {
            let task = cleaner.start(host);
            (cleaner, task)
        });
        let objects = Objects::new(host, client.clone(), state);
        Self { host: host.clone(), client, objects, cleaner }
    }
}

impl ParallelSink for Archive {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        Demand::gather(DELIVERIES).max_events(MAX_EVENTS).max_bytes(MAX_BYTES).linger(LINGER)
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        for share in self.objects.gather(batch, &mut exceptions) {
            let lost = || Err(Error::connection_lost("the object was not stored"));
            if let Err(error) = share.answer.await.unwrap_or_else(lost) {
                for event in share.events.into_iter().filter_map(|position| batch.get(position)) {
                    exceptions.reject(event, error.clone());
                }
            }
        }
        exceptions.into()
    }

    async fn on_tick(&self) -> Result<()> {
        self.objects.complete_old();
        self.client.end_idle();
        Ok(())
    }

    async fn flush(&self) -> Result<()> {
        self.objects.store_all().await;
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        // Every object is stored or has failed, because the deliveries have been answered.
        if let Some((cleaner, _)) = &self.cleaner
            && let Err(error) = cleaner.abort_all().await
        {
            warn!(self.host, "{error}; the next start tries again");
        }
        Ok(())
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Archive")
    }
}
