//! The socket connectors `tcp_client`, `tcp_server`, `udp_client`, `udp_server`, `unix_client` and
//! `unix_server`.

#[cfg(not(target_os = "linux"))]
compile_error!("the socket connectors need Linux, because they wait for sockets with epoll");

pub mod tcp_client;
pub mod tcp_server;
#[cfg(test)]
mod tests;
pub mod udp_client;
pub mod udp_server;
pub mod unix_client;
pub mod unix_server;

use std::num::NonZeroUsize;

use tremor_pdk::{net::Limits, units::Interval};

tremor_pdk::export! {
    connectors: [
        tcp_client::TcpClient,
        tcp_server::TcpServer,
        udp_client::UdpClient,
        udp_server::UdpServer,
        unix_client::UnixClient,
        unix_server::UnixServer,
    ]
}

/// Returns the default of `max_connections` for servers.
fn default_max_connections() -> NonZeroUsize {
    NonZeroUsize::new(Limits::default().max_connections).unwrap_or(NonZeroUsize::MIN)
}

/// Returns the limits that the configuration of a server sets.
fn limits(max_connections: NonZeroUsize, idle_timeout: Option<Interval>) -> Limits {
    Limits { max_connections: max_connections.get(), idle_timeout: idle_timeout.map(Interval::get) }
}
