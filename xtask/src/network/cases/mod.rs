//! What is measured.

mod fair;
mod http;
mod idle;
mod latency;
mod threads;
mod tls;
mod trickle;

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

use super::Bench;
use super::samples::{Samples, Verdict};

/// The name of this program among servers.
const OURS: &str = "tremor";

/// What a server has left to do once it has started, or once clients have come.
const SETTLE: Duration = Duration::from_millis(500);

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

    /// What has to be built for it.
    pub(super) fn plugins(self) -> &'static [&'static str] {
        match self {
            Self::Trickle | Self::Tls => &["connector-file", "connector-tcp-server"],
            Self::Idle => &[
                "connector-file",
                "connector-http-server",
                "connector-null",
                "connector-tcp-server",
            ],
            Self::Fair => &["connector-stdio", "connector-tcp-server"],
            Self::Http => &["connector-http-server", "connector-null"],
            Self::Latency => &["connector-tcp-client", "connector-tcp-server"],
            Self::Threads => &threads::PLUGINS,
        }
    }

    /// Each server has one turn.
    pub(super) fn turn(self, bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
        match self {
            Self::Trickle => trickle::turn(bench, round, samples),
            Self::Idle => idle::turn(bench, round, samples),
            Self::Fair => fair::turn(bench, round, samples),
            Self::Http => http::turn(bench, round, samples),
            Self::Tls => tls::turn(bench, round, samples),
            Self::Latency => latency::turn(bench, round, samples),
            Self::Threads => threads::turn(bench, round, samples),
        }
    }

    pub(super) fn verdicts(self, samples: &Samples) -> Vec<Verdict> {
        match self {
            Self::Trickle => trickle::verdicts(samples),
            Self::Idle => idle::verdicts(samples),
            Self::Fair => fair::verdicts(samples),
            Self::Http => http::verdicts(samples),
            Self::Tls => tls::verdicts(samples),
            Self::Latency => latency::verdicts(samples),
            Self::Threads => threads::verdicts(samples),
        }
    }

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
