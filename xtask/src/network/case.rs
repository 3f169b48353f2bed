//! The names of what is measured.

use std::fmt;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// 200 connections that send 100 lines a second each
    Trickle,
    /// Connections that say nothing
    Idle,
    /// Connections that send as much as they can
    Fair,
    /// Requests with one event each
    Http,
    /// What TLS 1.3 adds
    Tls,
    /// From socket to socket at half load
    Latency,
    /// Threads of a process with all plugins of the network
    Threads,
}

impl Case {
    pub(super) const ALL: &[Self] = &[
        Self::Trickle,
        Self::Idle,
        Self::Fair,
        Self::Http,
        Self::Tls,
        Self::Latency,
        Self::Threads,
    ];

    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Trickle => "200 connections, 100 lines of 630 bytes a second each, to a file",
            Self::Idle => "connections that fall silent",
            Self::Fair => "connections that send lines of 630 bytes as fast as they can, to a pipe",
            Self::Http => "64 connections, bodies of 622 bytes, the server on one processor",
            Self::Tls => "1,000,000 lines of 630 bytes over one connection, to a file",
            Self::Latency => "lines of 630 bytes from a socket to a socket, sent each 100 us",
            Self::Threads => "a process that has nothing to do",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
