//! The `udp_server` connector: receives datagrams over UDP.
//!
//! ```yaml
//! connectors:
//!   input:
//!     type: udp_server
//!     codec: syslog
//!     config: { listen: '0.0.0.0:514' }
//! ```
//!
//! Each datagram is a message, including empty ones.

use std::net::UdpSocket;

use rustix::net::sockopt;
use tremor_pdk::{
    NoSink,
    net::{self, Address, DatagramSocket, Datagrams},
    prelude::*,
    units::Size,
};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on: `0.0.0.0:514`, or `[::]:514` to include IPv6.
    #[schemars(extend("x-exclusive" = "udp", "x-shared-by" = "reuse_port"))]
    pub listen: Address,
    /// Size of the system's buffer for unread datagrams: `4MiB`. The system drops further
    /// datagrams. Default: that of the system (`net.core.rmem_default`).
    pub receive_buffer: Option<Size>,
    /// `true` to share the address with other sockets that also set this key.
    #[serde(default)]
    pub reuse_port: bool,
}

/// Receives datagrams over UDP.
#[derive(Debug)]
pub struct UdpServer {
    config: Config,
    context: ComponentContext,
    /// The socket. Kept when the runtime reconnects, so that no other process can take the address, and datagrams that
    /// the system drops meanwhile are counted.
    socket: Option<DatagramSocket>,
}

impl Component for UdpServer {
    const NAME: &str = "udp_server";
    const DESCRIPTION: &str = "Receives datagrams over UDP, each a message.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { config, context, socket: None })
    }
}

impl UdpServer {
    /// Sets the size of the receive buffer, and logs a warning if the system allows less.
    fn set_receive_buffer(&self, socket: &UdpSocket, size: Size) -> Result<()> {
        let wanted = size.in_memory().min(1 << 30);
        let failed = |error: rustix::io::Errno| Error::from(std::io::Error::from(error));
        // Sizes above the system's limit need CAP_NET_ADMIN.
        if sockopt::set_socket_recv_buffer_size_force(socket, wanted).is_err() {
            sockopt::set_socket_recv_buffer_size(socket, wanted).map_err(failed)?;
        }
        // The system doubles the requested size, to account for its own overhead.
        let given = sockopt::socket_recv_buffer_size(socket).map_err(failed)? / 2;
        if given < wanted {
            tremor_pdk::warn!(
                self.context,
                "the system limits `receive_buffer` to {given} of {wanted} bytes; raise `net.core.rmem_max`"
            );
        }
        Ok(())
    }
}

impl Connector for UdpServer {
    type Source = Datagrams;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Datagrams, NoSink>> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => {
                let addresses = self.config.listen.resolve(&self.context).await?;
                let socket = net::bind_udp(&addresses, self.config.reuse_port)?;
                if let Some(size) = self.config.receive_buffer {
                    self.set_receive_buffer(&socket, size)?;
                }
                tremor_pdk::info!(self.context, "listens on {}", socket.local_addr()?);
                DatagramSocket::new(&self.context, socket)
            }
        };
        self.socket.insert(socket).source().map(Halves::source)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use tremor_pdk::{
        LogLevel, Result,
        testing::{Connection, TestHost, conformance},
    };

    use super::UdpServer;

    fn server(host: &TestHost, keys: &str) -> Result<(Connection, String)> {
        let config = format!(r#"{{ "listen": "127.0.0.1:0" {keys} }}"#);
        let server = host.connect::<UdpServer>(&config)?;
        let (_, line) = host.log().last().cloned().unwrap();
        Ok((server, line.trim_start_matches("listens on ").to_owned()))
    }

    #[test]
    fn datagram_of_any_size_is_a_message() -> Result<()> {
        let host = TestHost::new();
        let (mut server, address) = server(&host, r#", "receive_buffer": "256KiB""#)?;
        let client = UdpSocket::bind("127.0.0.1:0")?;
        let sent = [b"one".to_vec(), Vec::new(), vec![b'x'; 65_507]];
        for datagram in &sent {
            client.send_to(datagram, &address)?;
        }
        let (_, batch) = server.pull()?;
        let name = client.local_addr()?.to_string();
        for (event, datagram) in batch.iter().zip(&sent) {
            assert!(event.raw() == Some(datagram) && !event.is_fragment());
            assert_eq!(event.origin(), Some(&*name));
        }
        assert_eq!(batch.len(), sent.len());
        server.stop()
    }

    #[test]
    fn limited_receive_buffer_is_reported() -> Result<()> {
        let host = TestHost::new();
        server(&host, r#", "receive_buffer": "1GiB""#)?.0.stop()?;
        let warned = host.log().into_iter().filter(|(level, _)| *level == LogLevel::WARN);
        // A privileged process gets the full size.
        assert!(warned.map(|(_, line)| line).all(|line| line.contains("net.core.rmem_max")));
        Ok(())
    }

    #[test]
    fn connector_passes_conformance_checks() {
        conformance::connector::<UdpServer>(r#"{ "listen": "127.0.0.1:0" }"#).expect_no_faults();
    }
}
