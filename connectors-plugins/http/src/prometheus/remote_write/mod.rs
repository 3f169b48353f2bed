//! The `prometheus_remote_write` connector: sends and receives samples with remote write 1.0.
//!
//! ```yaml
//! connectors:
//!   prometheus:
//!     type: prometheus_remote_write
//!     config: { url: 'http://127.0.0.1:9090/api/v1/write' }
//! ```
//!
//! The body of a request is a protobuf message, compressed as a block of snappy:
//! [the specification](https://prometheus.io/docs/specs/prw/remote_write_spec/).

mod config;
mod encode;
mod receive;
mod request;
mod sink;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Structured, prelude::*};

use self::{config::Target, receive::Receiver, sink::Sending};
pub use self::{
    config::{Config, NonFinite},
    sink::Writes,
};
use super::labels::AddedLabels;
use crate::{
    exchange::{Endpoint, Pool},
    server::{Listening, Requests, Service},
};

/// `Content-Type` of requests.
const CONTENT: &str = "application/x-protobuf";

/// The header of requests with the version of the protocol. The number of version 1.0 is 0.1.0.
const VERSION: (&str, &str) = ("x-prometheus-remote-write-version", "0.1.0");

/// Period in which at most one line of the same kind is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Sends or receives samples with remote write.
pub struct RemoteWrite {
    context: ComponentContext,
    side: Side,
}

/// The configured side.
enum Side {
    Source(Listening),
    Sink { endpoint: Arc<Endpoint>, sending: Arc<Sending> },
}

impl Component for RemoteWrite {
    const NAME: &str = "prometheus_remote_write";
    const DESCRIPTION: &str = "Sends or receives samples with Prometheus remote write 1.0.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let side = match config.target()? {
            Target::Send(url) => Side::Sink {
                endpoint: Arc::new(config.endpoint(url, &context)?),
                sending: Arc::new(Sending {
                    labels: AddedLabels::new(config.labels.clone().unwrap_or_default())?,
                    max_body_bytes: config.request_bytes()?,
                    retry_statuses: config.retry_statuses()?,
                }),
            },
            Target::Receive(listen) => {
                let is_text = config.non_finite == Some(NonFinite::Text);
                let config = config.server(listen)?;
                let most = usize::try_from(config.max_body_bytes.get()).unwrap_or(usize::MAX);
                let service = Service::Protocol(Arc::new(Receiver::new(&context, is_text, most)));
                Side::Source(Listening::new(config, service, context.clone())?)
            }
        };
        Ok(Self { context, side })
    }
}

impl RemoteWrite {
    fn set_paused(&mut self, is_paused: bool) {
        if let Side::Source(listening) = &mut self.side {
            listening.set_paused(is_paused);
        }
    }
}

impl Connector for RemoteWrite {
    type Source = Requests<Structured>;
    type Sink = Writes;

    fn sides(&self) -> Sides {
        let is_source = matches!(self.side, Side::Source(_));
        Sides::new(is_source, !is_source)
    }

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Requests<Structured>, Writes>> {
        match &mut self.side {
            Side::Source(listening) => Ok(Halves::source(Requests::new(listening.serve().await?))),
            Side::Sink { endpoint, sending } => {
                let pool = Pool::new(&self.context, endpoint.clone()).await?;
                let (endpoint, sending) = (endpoint.clone(), sending.clone());
                Ok(Halves::sink(Writes::new(&self.context, pool, endpoint, sending)))
            }
        }
    }

    async fn on_pause(&mut self) -> Result<()> {
        self.set_paused(true);
        Ok(())
    }

    async fn on_resume(&mut self) -> Result<()> {
        self.set_paused(false);
        Ok(())
    }
}

impl std::fmt::Debug for RemoteWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.side {
            Side::Source(listening) => f.debug_tuple("RemoteWrite").field(listening).finish(),
            Side::Sink { endpoint, .. } => write!(f, "RemoteWrite({})", endpoint.url),
        }
    }
}
