//! The sink: sends deliveries in requests.

use std::{sync::Arc, time::Duration};

use hyper::{Request, body::Bytes};
use tremor_pdk::{Demand, ErrorPolicy, ParallelSink, prelude::*};

use super::{answer, body, config::Format, pool::Pool, url::Url};

/// Maximum number of bytes to read of a response's body. A connection with a longer response is not
/// reused.
const RESPONSE: usize = 64 << 10;

/// Sends each event, or each delivery, as a request.
pub struct Posts {
    host: Host,
    pool: Arc<Pool>,
}

impl Posts {
    pub(crate) fn new(host: &Host, pool: Arc<Pool>) -> Self {
        Self { host: host.clone(), pool }
    }

    /// Sends one request with `body`.
    async fn post(&self, url: &Url, body: Vec<u8>) -> Result<()> {
        let settings = &self.pool.settings;
        if let Some(time) = self.pool.paused_for() {
            let deferred = Error::deferred(format_args!(
                "cannot send to `{url}` yet: it asked for a delay in its last response"
            ));
            // The runtime truncates the delay to whole milliseconds, so add one.
            return Err(deferred.retry_after(time + Duration::from_millis(1)));
        }
        let body_headers = settings.body_headers(&body);
        let body: Bytes = body::compressed(&self.host, body, settings.config.compression).await?;
        let head = || {
            let mut head = Request::builder().method(settings.method.clone());
            if let Some(headers) = head.headers_mut() {
                headers.extend(body_headers.clone());
            }
            head
        };
        let answer = self.pool.send(url, head, &body, RESPONSE).await?;
        let check =
            if settings.config.preset.is_some() { answer::check_otlp } else { answer::check };
        let checked = check(&self.host, url, &self.pool.secrets, &answer);
        if let Err(error) = &checked {
            self.pool.pause(error.delay());
        }
        checked
    }

    /// Sends each event in a request of its own, in order. Stops at the first error whose policy is
    /// to retry.
    async fn post_each(&self, batch: &RawBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        for (position, event) in batch.iter().enumerate() {
            let posted = match self.pool.settings.request(event.raw()) {
                Ok(Some((url, body))) => self.post(url, body.to_vec()).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match posted {
                Ok(()) => {}
                Err(error) if error.policy() == ErrorPolicy::DEAD_LETTER => {
                    exceptions.reject(event, error);
                }
                Err(error) => {
                    exceptions.reject_all(batch.iter().skip(position), &error);
                    break;
                }
            }
        }
        exceptions.into()
    }
}

impl ParallelSink for Posts {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        Demand::new().at_most(self.pool.settings.config.max_connections.get())
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        match self.pool.settings.config.format {
            Format::Raw => self.post_each(batch).await,
            format => {
                let (body, exceptions) = body::of_batch(batch, format);
                if let Some(body) = body {
                    self.post(&self.pool.settings.url, body).await?;
                }
                exceptions.into()
            }
        }
    }

    async fn on_tick(&self) -> Result<()> {
        self.pool.end_idle();
        Ok(())
    }
}

impl std::fmt::Debug for Posts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Posts")
    }
}
