//! What is measured.

mod fair;
mod http;
mod idle;
mod latency;
mod threads;
mod tls;
mod trickle;

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::case::Case;
use super::samples::{Samples, Verdict};

/// The name of this program among servers.
const OURS: &str = "tremor";

/// What a server has left to do once it has started, or once clients have come.
const SETTLE: Duration = Duration::from_millis(500);

impl Case {
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
}
