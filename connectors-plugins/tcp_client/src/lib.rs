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
//! With `tls: {}` the connection is one of TLS, to a peer that the system trusts.
//!
//! What the peer sends is one stream. Messages are written one after the other, without a copy. If the
//! connection is lost, the runtime connects again.

#[cfg(not(target_os = "linux"))]
compile_error!("the tcp_client connector waits for sockets as Linux does, with epoll");

use tremor_pdk::{
    Descriptors,
    net::{
        self, Address, Link, StreamSink, StreamSource, TcpStream,
        tls::{Tls, TlsConnector},
    },
    prelude::*,
};

/// Whom to connect to.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The address of the peer: `logs.example.com:9000`. A name is looked up each time.
    pub address: Address,
    /// TLS: `{}` for a peer with a certificate that the system trusts. Unless set, the connection is as it is.
    pub tls: Option<Tls>,
}

/// The connector.
#[derive(Debug)]
pub struct TcpClient {
    config: Config,
    context: ComponentContext,
    tls: Option<TlsConnector>,
    /// Number of connections so far, which numbers their streams.
    connections: u64,
}

impl Component for TcpClient {
    const NAME: &str = "tcp_client";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
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
        let failed = |error: Error| error.context(format_args!("cannot connect to `{peer}`"));
        let descriptors = Descriptors::new(&self.context).map_err(failed)?;
        let stream = net::connect(&self.context, &descriptors, peer).await?;
        let link = match &self.tls {
            Some(tls) => Link::secure(tls.connect(stream).await?),
            None => Link::new(stream),
        };
        self.connections += 1;
        let link = link.with_stream(self.connections);
        Ok(StreamSource::halves(&self.context, link, peer, wanted))
    }
}

tremor_pdk::export! { connectors: [TcpClient] }

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

    use tremor_pdk::{
        Batch, ErrorKind, EventRef, Result,
        testing::{TestHost, conformance},
    };

    use super::TcpClient;

    /// Checks that other tests of this process prevent, that need a source with an end or with acknowledgements, or a
    /// sink that takes several deliveries at a time.
    const SKIPPED: [&str; 7] = [
        "stays_inside",
        "leaves_nothing",
        "stays_finished",
        "hears_acknowledgements",
        "flushes",
        "reads_again",
        "takes_several",
    ];

    #[test]
    fn it_writes_to_the_peer_and_reads_from_it() -> Result<()> {
        let host = TestHost::new();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let config = format!(r#"{{ "address": "{}" }}"#, listener.local_addr()?);
        let mut client = host.connect::<TcpClient>(&config)?;
        let (mut peer, _) = listener.accept()?;
        let mut batch = Batch::new();
        batch.push_message(b"one\n");
        batch.push_message(b"two\n");
        client.deliver(&batch).unwrap();
        let mut received = [0; 8];
        peer.read_exact(&mut received)?;
        assert_eq!(&received, b"one\ntwo\n");
        peer.write_all(b"answer")?;
        let (_, batch) = client.pull()?;
        assert_eq!(batch.first().and_then(EventRef::raw), Some(&b"answer"[..]));
        client.stop()?;
        assert_eq!(peer.read(&mut received)?, 0, "and closes the connection");
        Ok(())
    }

    #[test]
    fn a_peer_that_is_not_there_is_tried_again_later() -> Result<()> {
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = format!(r#"{{ "address": "{free}" }}"#);
        let error = TestHost::new().connect::<TcpClient>(&config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        assert!(error.to_string().contains(&free.to_string()), "{error}");
        Ok(())
    }

    /// A peer that takes whatever comes, of as many as connect.
    fn drain(listener: TcpListener) {
        thread::spawn(move || {
            for peer in listener.incoming() {
                let Ok(mut peer) = peer else { return };
                thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()));
            }
        });
    }

    #[test]
    fn a_name_that_no_certificate_may_have_is_the_configurations_fault() {
        let config = r#"{ "address": "logs_1.example.com:1", "tls": { "server_name": "a b" } }"#;
        let error = TestHost::new().component::<TcpClient>(config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("`a b`"), "{error}");
    }

    #[test]
    fn real_peer_that_sends_lets_the_client_pass_all_checks() -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let config = format!(r#"{{ "address": "{}" }}"#, listener.local_addr()?);
        thread::spawn(move || {
            for mut peer in listener.incoming().flatten() {
                let mut reads = peer.try_clone().unwrap();
                thread::spawn(move || std::io::copy(&mut reads, &mut std::io::sink()));
                let lines: Vec<_> = (0..1_000).map(|line| format!("line {line}")).collect();
                // A client that is dropped reads no further.
                thread::spawn(move || peer.write_all(lines.join("\n").as_bytes()));
            }
        });
        conformance::connector::<TcpClient>(&config).expect_all_but(&SKIPPED);
        Ok(())
    }

    #[test]
    fn it_keeps_the_contract_of_plugins() -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let config = format!(r#"{{ "address": "{}" }}"#, listener.local_addr()?);
        drain(listener);
        conformance::connector::<TcpClient>(&config).expect_no_faults();
        Ok(())
    }
}
