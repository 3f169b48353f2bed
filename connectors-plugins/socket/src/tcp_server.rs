//! The `tcp_server` connector: receives byte streams over TCP.
//!
//! ```yaml
//! connectors:
//!   input:
//!     type: tcp_server
//!     preprocessors: [lines]
//!     codec: syslog
//!     config: { listen: '0.0.0.0:6514' }
//! ```
//!
//! With `tls: { cert_file: cert.pem, key_file: key.pem }` the connections use TLS.
//!
//! Each connection is a stream. The source owns all connections, and reads those with data directly
//! into its batch: see [`tremor_pdk::net::Connections`].

use std::{net::TcpListener, num::NonZeroUsize};

use tremor_pdk::{
    NoSink,
    net::{
        self, Address, Connections, ProxyHeaders, ProxyProtocol,
        tls::{Tls, TlsAcceptor},
    },
    prelude::*,
    units::Interval,
};

use crate::limits;

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on: `0.0.0.0:6514`, or `[::]:6514` to include IPv6.
    #[schemars(extend("x-exclusive" = "tcp", "x-shared-by" = "reuse_port"))]
    pub listen: Address,
    /// TLS settings, with the certificate of the server. Default: no TLS.
    pub tls: Option<Tls>,
    /// Maximum number of connections. Further connections wait when the limit is reached.
    #[serde(default = "crate::default_max_connections")]
    pub max_connections: NonZeroUsize,
    /// Time without data after which a connection is closed: `5m`. Default: no limit.
    pub idle_timeout: Option<Interval>,
    /// PROXY protocol, versions 1 and 2: load balancers whose header names the client.
    /// Default: connections have no header, and the client is the peer of the connection.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// `true` to share the address with other listeners that also set this key.
    #[serde(default)]
    pub reuse_port: bool,
}

/// Receives byte streams over TCP.
#[derive(Debug)]
pub struct TcpServer {
    config: Config,
    context: ComponentContext,
    tls: Option<TlsAcceptor>,
    /// The listening socket. Kept when the runtime reconnects, so that no other process can take
    /// the address.
    listener: Option<TcpListener>,
}

impl Component for TcpServer {
    const NAME: &str = "tcp_server";
    const DESCRIPTION: &str = "Receives byte streams over TCP, each connection a stream.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let tls = config.tls.as_ref().map(|tls| TlsAcceptor::new(tls, &context)).transpose()?;
        config.proxy_protocol.as_ref().map_or(Ok(()), ProxyProtocol::check)?;
        Ok(Self { config, context, tls, listener: None })
    }
}

impl Connector for TcpServer {
    type Source = Connections;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Connections, NoSink>> {
        if let Some(tls) = &self.tls {
            tls.load().await?;
        }
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let addresses = self.config.listen.resolve(&self.context).await?;
                let listener = net::listen(&addresses, self.config.reuse_port)?;
                tremor_pdk::info!(self.context, "listens on {}", listener.local_addr()?);
                listener
            }
        };
        let listener = self.listener.insert(listener).try_clone()?;
        let limits = limits(self.config.max_connections, self.config.idle_timeout);
        let mut connections = Connections::new(&self.context, listener, limits)?;
        if let Some(proxy_protocol) = &self.config.proxy_protocol {
            let headers = ProxyHeaders::new(&self.context, proxy_protocol)?;
            connections = connections.with_proxy_protocol(headers);
        }
        Ok(Halves::source(match &self.tls {
            Some(tls) => connections.with_tls(tls.clone()),
            None => connections,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpStream, time::Duration};

    use rustix::net::sockopt::set_socket_linger;
    use tremor_pdk::{
        ErrorKind, EventRef, Result,
        testing::{
            Connection, TestHost,
            certificates::{Authority, Files},
            conformance,
        },
    };

    use super::TcpServer;

    /// Starts a server. Returns it and its address.
    fn server(host: &TestHost, keys: &str) -> Result<(Connection, String)> {
        let config = format!(r#"{{ "listen": "127.0.0.1:0" {keys} }}"#);
        let server = host.connect::<TcpServer>(&config)?;
        let (_, line) = host.log().last().cloned().unwrap();
        Ok((server, line.trim_start_matches("listens on ").to_owned()))
    }

    #[test]
    fn events_name_client_and_stream_ends_on_close() -> Result<()> {
        let host = TestHost::new();
        let (mut server, address) = server(&host, "")?;
        let mut client = TcpStream::connect(address)?;
        client.write_all(b"one\ntwo\n")?;
        let name = client.local_addr()?.to_string();
        let (_, batch) = server.pull()?;
        let event = batch.first().unwrap();
        assert_eq!((event.raw(), event.origin()), (Some(&b"one\ntwo\n"[..]), Some(&*name)));
        drop(client);
        assert!(server.pull()?.1.first().unwrap().is_stream_end());
        server.stop()
    }

    #[test]
    fn reset_or_idle_connection_aborts_its_stream() -> Result<()> {
        let host = TestHost::new();
        let (mut server, address) = server(&host, r#", "idle_timeout": "1m""#)?;
        let mut client = TcpStream::connect(&address)?;
        client.write_all(b"half a li")?;
        server.pull()?;
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        assert!(server.pull()?.1.first().unwrap().is_stream_aborted());
        // A half-open connection: the peer no longer exists, and no packet reports that.
        let mut client = TcpStream::connect(&address)?;
        client.write_all(b"half a li")?;
        server.pull()?;
        let before = host.now_ns();
        assert!(server.pull()?.1.first().unwrap().is_stream_aborted());
        assert_eq!(u128::from(host.now_ns() - before), Duration::from_mins(1).as_nanos());
        assert_eq!(host.metric("connections"), Some(0.0));
        server.stop()
    }

    #[test]
    fn connections_above_the_limit_wait() -> Result<()> {
        let host = TestHost::new();
        let (mut server, address) = server(&host, r#", "max_connections": 1"#)?;
        let mut clients = Vec::new();
        for number in 0..3_u8 {
            let mut client = TcpStream::connect(&address)?;
            client.write_all(&[number])?;
            clients.push(client);
        }
        for number in 0..3_u8 {
            let mut bytes: Vec<u8> = Vec::new();
            while bytes.is_empty() {
                let (_, batch) = server.pull()?;
                batch.iter().filter_map(EventRef::raw).for_each(|it| bytes.extend_from_slice(it));
            }
            assert_eq!(bytes, [number]);
            assert_eq!(host.metric("connections"), Some(1.0));
            drop(clients.remove(0));
        }
        server.stop()
    }

    #[test]
    fn address_in_use_is_rejected_unless_shared() -> Result<()> {
        let host = TestHost::new();
        let (first, address) = server(&host, "")?;
        let config = format!(r#"{{ "listen": "{address}" }}"#);
        let error = host.connect::<TcpServer>(&config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        assert!(error.to_string().contains("`reuse_port`"), "{error}");
        first.stop()?;
        host.connect::<TcpServer>(&config)?.stop()?;
        let (one, address) = server(&host, r#", "reuse_port": true"#)?;
        let config = format!(r#"{{ "listen": "{address}", "reuse_port": true }}"#);
        let two = host.connect::<TcpServer>(&config)?;
        one.stop()?;
        two.stop()
    }

    #[test]
    fn address_without_a_port_is_rejected() {
        let error = TestHost::new().component::<TcpServer>(r#"{ "listen": "localhost" }"#);
        let error = error.err().unwrap().to_string();
        assert!(
            error.starts_with("`listen`: invalid address `localhost`: it has no port"),
            "{error}"
        );
    }

    #[test]
    fn connector_passes_conformance_checks() {
        conformance::connector::<TcpServer>(r#"{ "listen": "127.0.0.1:0" }"#).expect_no_faults();
    }

    #[test]
    fn connector_passes_conformance_checks_with_tls() {
        let files = Authority::new().issue(&["localhost"]).files();
        let config = format!(r#"{{ "listen": "127.0.0.1:0", {} }}"#, tls(&files));
        conformance::connector::<TcpServer>(&config).expect_no_faults();
    }

    fn tls(files: &Files) -> String {
        let (certificate, key) = (files.certificate(), files.key());
        format!(
            r#""tls": {{ "cert_file": "{}", "key_file": "{}" }}"#,
            certificate.display(),
            key.display()
        )
    }

    #[test]
    fn tls_files_and_keys_are_checked_before_listening() {
        let host = TestHost::new();
        let files = Authority::new().issue(&["localhost"]).files();
        std::fs::remove_file(files.key()).unwrap();
        let error = server(&host, &format!(", {}", tls(&files))).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("key.pem"), "{error}");
        let config = r#"{ "listen": "127.0.0.1:0", "tls": { "cert_file": "cert.pem" } }"#;
        let error = host.component::<TcpServer>(config).err().unwrap();
        assert!(error.to_string().contains("`key_file`"), "{error}");
    }
}
