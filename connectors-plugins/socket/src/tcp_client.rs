//! The `tcp_client` connector: connects over TCP.
//!
//! ```yaml
//! connectors:
//!   output:
//!     type: tcp_client
//!     codec: json
//!     postprocessors: [lines]
//!     config: { address: 'logs.example.com:9000' }
//! ```
//!
//! With `tls: {}` the connection uses TLS, and the peer's certificate is verified with the system's
//! root certificates.
//!
//! The data that the peer sends on one connection is one stream. Messages are written one after the
//! other, without copying them. If the connection is lost, the runtime reconnects.

use tremor_pdk::{
    Descriptors,
    net::{
        self, Address, Link, StreamSink, StreamSource, TcpStream,
        tls::{Tls, TlsConnector},
    },
    prelude::*,
};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the peer: `logs.example.com:9000`. A name is resolved for each connection.
    pub address: Address,
    /// TLS settings. With `{}`, the peer's certificate is verified with the system's root
    /// certificates. Default: no TLS.
    pub tls: Option<Tls>,
}

/// Connects over TCP: reads a stream and writes messages.
#[derive(Debug)]
pub struct TcpClient {
    config: Config,
    context: ComponentContext,
    tls: Option<TlsConnector>,
    /// Number of connections that were made, which is the stream number of the current connection.
    connections: u64,
}

impl Component for TcpClient {
    const NAME: &str = "tcp_client";
    const DESCRIPTION: &str =
        "Connects over TCP: reads what the peer sends, and writes messages to it.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let tls = config.tls.as_ref();
        let tls = tls.map(|tls| TlsConnector::new(tls, &context, &config.address)).transpose()?;
        Ok(Self { config, context, tls, connections: 0 })
    }
}

impl Connector for TcpClient {
    type Source = StreamSource<TcpStream>;
    type Sink = StreamSink<TcpStream>;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Self::Source, Self::Sink>> {
        let peer = &self.config.address;
        let origin = net::server_origin(&peer.to_string(), peer);
        let failed = |error: Error| error.context(format_args!("cannot connect to `{peer}`"));
        let descriptors = Descriptors::new(&self.context).map_err(failed)?;
        let stream = net::connect(&self.context, &descriptors, peer).await?;
        let link = match &self.tls {
            Some(tls) => Link::secure(tls.connect(stream).await?),
            None => Link::new(stream),
        };
        self.connections += 1;
        let link = link.with_stream(self.connections);
        Ok(StreamSource::halves(&self.context, link, &origin, wanted))
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::TcpListener};

    use tremor_pdk::{ErrorKind, Result, testing::TestHost};

    use super::TcpClient;
    use crate::tests::expect_exchange;

    #[test]
    fn stopped_client_closes_its_connection() -> Result<()> {
        let host = TestHost::new();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let mut client = host.connect::<TcpClient>(&format!(r#"{{ "address": "{address}" }}"#))?;
        let (mut peer, _) = listener.accept()?;
        expect_exchange(&mut client, &mut peer, &address)?;
        client.stop()?;
        assert_eq!(peer.read(&mut [0])?, 0);
        Ok(())
    }

    #[test]
    fn refused_connection_error_names_the_address() {
        let config = r#"{ "address": "127.0.0.1:1" }"#;
        let error = TestHost::new().connect::<TcpClient>(config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        assert!(error.to_string().contains("`127.0.0.1:1`"), "{error}");
    }

    #[test]
    fn invalid_server_name_is_a_configuration_error() {
        let config = r#"{ "address": "logs_1.example.com:1", "tls": { "server_name": "a b" } }"#;
        let error = TestHost::new().component::<TcpClient>(config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("`a b`"), "{error}");
    }
}
