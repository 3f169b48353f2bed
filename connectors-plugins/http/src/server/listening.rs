//! The listening socket of a connector, and the server of its current connection.

use std::{
    fmt, net,
    sync::{Arc, Weak},
};

use tremor_pdk::{
    Descriptors, Task,
    net::{TcpListener, listen},
    prelude::*,
};

use super::{
    accept,
    config::{Config, Settings},
    connections::Server,
    protocol::Service,
    queue::Closed,
};

/// The part of a connector that outlives its connections.
pub(crate) struct Listening {
    settings: Arc<Settings>,
    context: ComponentContext,
    /// The listening socket. Kept when the runtime reconnects, so that no other process can take
    /// the address.
    listener: Option<net::TcpListener>,
    /// State of the current connections.
    server: Weak<Server>,
    is_paused: bool,
}

impl Listening {
    /// Validates the configuration. Does not listen yet.
    pub(crate) fn new(config: Config, service: Service, context: ComponentContext) -> Result<Self> {
        let settings = Arc::new(Settings::new(config, service, &context)?);
        Ok(Self { settings, context, listener: None, server: Weak::new(), is_paused: false })
    }

    /// Listens, and starts to serve connections.
    pub(crate) async fn serve(&mut self) -> Result<Serving> {
        if let Some(tls) = &self.settings.tls {
            tls.load().await?;
        }
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let config = &self.settings.config;
                let addresses = config.listen.resolve(&self.context).await?;
                let listener = listen(&addresses, config.reuse_port)?;
                tremor_pdk::info!(self.context, "listens on {}", listener.local_addr()?);
                listener
            }
        };
        let listener = self.listener.insert(listener).try_clone()?;
        let listener = TcpListener::new(&Descriptors::new(&self.context)?, listener)?;
        let server = Arc::new(Server::new(&self.context, self.settings.clone())?);
        self.server = Arc::downgrade(&server);
        self.set_paused(self.is_paused);
        let accepts =
            self.context.spawn("accepts connections", accept::accept(server.clone(), listener));
        let keeps_time = self.context.spawn("keeps time", server.clone().keep_time());
        Ok(Serving { server, accepts: Some(accepts), _keeps_time: keeps_time })
    }

    /// Rejects the requests of the current and later connections while `is_paused` is `true`.
    pub(crate) fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        if let Some(server) = self.server.upgrade()
            && server.queue.closed() != Some(Closed::Draining)
        {
            server.set_closed(is_paused.then_some(Closed::Paused));
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("listen", &self.settings.config.listen)
            .finish_non_exhaustive()
    }
}

/// A server that accepts and serves connections until it is dropped.
pub(crate) struct Serving {
    pub(crate) server: Arc<Server>,
    /// Task that accepts connections; `None` after the end.
    accepts: Option<Task>,
    _keeps_time: Task,
}

impl Serving {
    /// Accepts no further connections, rejects requests that are not in the flow, and waits until the others are
    /// answered.
    pub(crate) async fn drain(&mut self) {
        self.accepts = None;
        self.server.drain().await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.end();
    }
}
