//! The sink: deliveries as requests.

use std::{sync::Arc, time::Duration};

use hyper::{Request, body::Bytes};
use tremor_pdk::{Demand, ErrorPolicy, ParallelSink, prelude::*};

use crate::{answer, body, config::Format, pool::Pool, url::Url};

/// How much is read of a response, in bytes. The connection of a longer one is not used again.
const RESPONSE: usize = 64 << 10;

/// The sink of one connection of the runtime's.
pub struct Posts {
    host: Host,
    pool: Arc<Pool>,
}

impl Posts {
    pub(crate) fn new(host: &Host, pool: Arc<Pool>) -> Self {
        Self { host: host.clone(), pool }
    }

    /// Sends one body.
    async fn post(&self, url: &Url, body: Vec<u8>) -> Result<()> {
        let settings = &self.pool.settings;
        if let Some(time) = self.pool.held() {
            let deferred = Error::deferred(format_args!(
                "cannot send to `{url}` yet: its last answer named a time before which it accepts no request"
            ));
            // The delay is cut to whole milliseconds, and must not end before the time.
            return Err(deferred.retry_after(time + Duration::from_millis(1)));
        }
        let body: Bytes = body::compressed(&self.host, body, settings.config.compression).await?;
        let head = || {
            let mut head = Request::builder().method(settings.method.clone());
            if let Some(headers) = head.headers_mut() {
                headers.extend(settings.body_headers.clone());
            }
            head
        };
        let answer = self.pool.send(url, head, &body, RESPONSE).await?;
        let check =
            if settings.config.preset.is_some() { answer::check_otlp } else { answer::check };
        let checked = check(&self.host, url, &self.pool.secrets, &answer);
        if let Err(error) = &checked {
            self.pool.hold(error.delay());
        }
        checked
    }

    /// Sends each event by itself, in order. After one that is to be tried again none is sent.
    async fn post_each(&self, batch: &RawBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        for (position, event) in batch.iter().enumerate() {
            let posted = match self.pool.settings.request(event.raw()) {
                Ok((url, body)) => self.post(url, body.to_vec()).await,
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
