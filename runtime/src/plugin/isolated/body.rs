//! Bodies of messages, which are JSON.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tremor_abi::connector::{Deliveries, DeliveryFlags};
use tremor_pdk::{Error, ErrorKind, ErrorPolicy};

use crate::plugin::{Metric, MetricKind, Policy};

/// Maximum length of a message of an error, and of each of its causes, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// Maximum number of causes of an error.
const MAX_CAUSES: usize = 16;

/// Body of HELLO.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Name of the component in the flow.
    pub(super) component: String,
    /// Folder to which paths of the component are relative.
    pub(super) folder: String,
    /// Maximum number of bytes of memory of the process.
    pub(super) memory: u64,
    /// Path of the library.
    pub(super) library: String,
    /// Hash of the library's contents; `None` if it is not known.
    pub(super) hash: Option<String>,
    /// Name of the connector in the library.
    pub(super) connector: String,
    pub(super) policy: Policy,
}

/// Answer to NEW: properties of the instance.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Created {
    pub(super) has_source: bool,
    pub(super) has_sink: bool,
}

/// Answer to CONNECT.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Connected {
    pub(super) source: Option<SourceBody>,
    pub(super) sink: Option<DeliveriesBody>,
}

/// Properties of a source.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SourceBody {
    /// `None` if the source needs no acknowledgements.
    pub(super) acks: Option<AcksBody>,
}

/// Properties of a source that needs acknowledgements.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AcksBody {
    /// Number of events in flight at which the source is not pulled.
    pub(super) events: u64,
    /// Number of bytes in flight at which the source is not pulled.
    pub(super) bytes: u64,
    /// Key of the configuration that sets the limits; empty if there is none.
    pub(super) key: String,
    /// `true` if the source redelivers failed events.
    pub(super) replays_failed: bool,
}

/// Limits of deliveries: those that a sink asks for, or those that the runtime grants.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct DeliveriesBody {
    in_flight: u32,
    most_in_flight: u32,
    max_events: u64,
    max_bytes: u64,
    linger_ns: u64,
    flags: u32,
}

impl From<Deliveries> for DeliveriesBody {
    fn from(it: Deliveries) -> Self {
        Self {
            in_flight: it.in_flight,
            most_in_flight: it.most_in_flight,
            max_events: it.max_events,
            max_bytes: it.max_bytes,
            linger_ns: it.linger_ns,
            flags: it.flags.0,
        }
    }
}

impl From<DeliveriesBody> for Deliveries {
    fn from(it: DeliveriesBody) -> Self {
        Self {
            in_flight: it.in_flight,
            most_in_flight: it.most_in_flight,
            max_events: it.max_events,
            max_bytes: it.max_bytes,
            linger_ns: it.linger_ns,
            flags: DeliveryFlags(it.flags),
            reserved: 0,
        }
    }
}

/// Consecutive events of a batch, as position and number, that share an error. Answer to DELIVER, and body of
/// UNDECODABLE.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RangeBody {
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) error: ErrorBody,
}

/// Body of METRICS: the current state of a metric.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MetricBody {
    /// 0 counter, 1 gauge, 2 histogram.
    kind: u8,
    name: String,
    help: String,
    value: f64,
    count: u64,
    min: Option<f64>,
    max: Option<f64>,
}

impl From<Metric> for MetricBody {
    fn from(metric: Metric) -> Self {
        let kind = match metric.kind {
            MetricKind::Counter => 0,
            MetricKind::Gauge => 1,
            MetricKind::Histogram => 2,
        };
        let finite = |value: f64| value.is_finite().then_some(value);
        let (min, max) = (finite(metric.min), finite(metric.max));
        let Metric { name, help, value, count, .. } = metric;
        Self { kind, name, help, value, count, min, max }
    }
}

impl From<MetricBody> for Metric {
    fn from(body: MetricBody) -> Self {
        let MetricBody { kind, name, help, value, count, min, max } = body;
        let [name, help] = [name, help].map(|it| shortened(&it).to_owned());
        let kind = match kind {
            0 => MetricKind::Counter,
            2 => MetricKind::Histogram,
            _ => MetricKind::Gauge,
        };
        let (min, max) = (min.unwrap_or(f64::INFINITY), max.unwrap_or(f64::NEG_INFINITY));
        Self { kind, name, help, value, count, min, max }
    }
}

/// Body of PROBLEM.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProblemBody {
    pub(super) name: String,
    /// `None` if the problem does not exist any more.
    pub(super) error: Option<ErrorBody>,
}

/// An error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ErrorBody {
    kind: u16,
    policy: u8,
    #[serde(default)]
    delay_ms: u32,
    message: String,
    #[serde(default)]
    causes: Vec<String>,
}

impl From<&Error> for ErrorBody {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind().0,
            policy: error.policy().0,
            delay_ms: u32::try_from(error.delay().as_millis()).unwrap_or(u32::MAX),
            message: shortened(error.message()).to_owned(),
            causes: error
                .causes()
                .take(MAX_CAUSES)
                .map(|cause| shortened(cause).to_owned())
                .collect(),
        }
    }
}

impl From<ErrorBody> for Error {
    fn from(body: ErrorBody) -> Self {
        let mut error = Self::new(ErrorKind(body.kind), shortened(&body.message));
        if body.delay_ms > 0 {
            error = error.retry_after(Duration::from_millis(body.delay_ms.into()));
        }
        let causes = body.causes.iter().take(MAX_CAUSES);
        let causes = causes.map(|cause| Cause(shortened(cause).to_owned()));
        causes
            .fold(error, |error, cause| error.caused_by(&cause))
            .with_policy(ErrorPolicy(body.policy))
    }
}

/// Returns the beginning of `text` that has at most [`MAX_TEXT`] bytes.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Text of a cause of an error.
#[derive(Debug)]
struct Cause(String);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

/// Converts a configuration to JSON.
///
/// # Errors
/// Kind configuration, if the configuration has no form in JSON.
pub(super) fn to_json(config: &impl Serialize) -> Result<Json, Error> {
    serde_json::to_value(config)
        .map_err(|error| Error::configuration(format_args!("config: {error}")))
}
