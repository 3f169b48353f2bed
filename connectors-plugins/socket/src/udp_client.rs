//! The `udp_client` connector: sends datagrams over UDP.
//!
//! ```yaml
//! connectors:
//!   output:
//!     type: udp_client
//!     codec: string
//!     config: { address: 'logs.example.com:514' }
//! ```
//!
//! Each message is a datagram. A name is looked up again every minute, and after the network has
//! reported an error.

use tremor_pdk::{
    NoSource,
    net::{Address, DatagramSink},
    prelude::*,
};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the peer: `logs.example.com:514`. A name is resolved again every minute, and after
    /// the network has reported an error.
    pub address: Address,
}

/// Sends messages as datagrams over UDP.
#[derive(Debug)]
pub struct UdpClient {
    config: Config,
    context: ComponentContext,
}

impl Component for UdpClient {
    const NAME: &str = "udp_client";
    const DESCRIPTION: &str = "Sends each message as a datagram over UDP.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { config, context })
    }
}

impl Connector for UdpClient {
    type Source = NoSource;
    type Sink = DatagramSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, DatagramSink>> {
        let sink = DatagramSink::connect(&self.context, &self.config.address).await?;
        Ok(Halves::sink(sink))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use tremor_pdk::{
        Batch, ErrorKind, Result, Undelivered,
        testing::{TestHost, conformance},
    };

    use super::UdpClient;

    #[test]
    fn message_is_a_datagram_and_too_long_one_is_rejected() -> Result<()> {
        let host = TestHost::new();
        let peer = UdpSocket::bind("127.0.0.1:0")?;
        let config = format!(r#"{{ "address": "{}" }}"#, peer.local_addr()?);
        let mut client = host.connect::<UdpClient>(&config)?;
        let mut batch = Batch::new();
        let messages = [b"one".to_vec(), vec![b'x'; 70_000], Vec::new(), vec![b'x'; 65_507]];
        messages.iter().for_each(|message| batch.push_message(message));
        let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&batch) else {
            panic!("too long")
        };
        let [exception] = &exceptions[..] else { panic!("{exceptions:?}") };
        assert_eq!((exception.events.clone(), exception.error.kind()), (1..2, ErrorKind::BAD_DATA));
        let mut datagram = vec![0; 70_000];
        for message in [&messages[0], &messages[2], &messages[3]] {
            let count = peer.recv(&mut datagram)?;
            assert!(datagram[..count] == **message);
        }
        client.stop()
    }

    #[test]
    fn connector_passes_conformance_checks() -> Result<()> {
        let peer = UdpSocket::bind("127.0.0.1:0")?;
        let config = format!(r#"{{ "address": "{}" }}"#, peer.local_addr()?);
        // A UDP client has no source and takes one delivery at a time; other tests run in this
        // process.
        conformance::connector::<UdpClient>(&config).expect_all_but(&[
            "stays_inside",
            "leaves_nothing",
            "pulls",
            "heeds_the_limit",
            "keeps_gauges_true",
            "stays_finished",
            "sources_share_nothing",
            "survives_dropped_pulls",
            "accepts_acknowledgements",
            "flushes",
            "reads_again",
            "answers_the_circuit_breaker",
            "takes_several",
        ]);
        Ok(())
    }
}
