//! Signals (logs, metrics and traces), and the mark by which a message names its signal.
//!
//! The key of a request in JSON names its signal. A request in protobuf does not name its signal: all three signals
//! have only field 1, and over HTTP the path names the signal. Therefore, with `signal: any`, a message in protobuf
//! begins with an additional field, the mark. No request uses the number of this field, and other readers skip an
//! unknown field.

use tremor_pdk::{Error, Result, ValueRef};

use crate::{
    message::Message,
    scalar::shown,
    schema::{
        EXPORT_LOGS_SERVICE_REQUEST, EXPORT_METRICS_SERVICE_REQUEST, EXPORT_TRACE_SERVICE_REQUEST,
    },
};

/// Tag of the mark: field 1,000, a number. `http_server` writes the mark, and `http_client` reads it.
const TAG: [u8; 2] = [0xc0, 0x3e];

/// The contents of a request. A mark contains the number of one of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Logs = 1,
    Metrics = 2,
    Traces = 3,
}

impl Signal {
    const ALL: [Self; 3] = [Self::Logs, Self::Metrics, Self::Traces];

    pub(crate) fn request(self) -> &'static Message {
        match self {
            Self::Logs => &EXPORT_LOGS_SERVICE_REQUEST,
            Self::Metrics => &EXPORT_METRICS_SERVICE_REQUEST,
            Self::Traces => &EXPORT_TRACE_SERVICE_REQUEST,
        }
    }

    /// Returns the name in options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Metrics => "metrics",
            Self::Traces => "traces",
        }
    }

    /// Splits a message in protobuf into the signal of its mark, if any, and the request.
    pub(crate) fn split(message: &[u8]) -> (Option<Self>, &[u8]) {
        let rest = message.strip_prefix(&TAG).and_then(<[u8]>::split_first);
        let said = rest.and_then(|(number, rest)| {
            Some((Self::ALL.into_iter().find(|it| *it as u8 == *number)?, rest))
        });
        said.map_or((None, message), |(signal, rest)| (Some(signal), rest))
    }

    /// Returns the mark that a message in protobuf begins with to name its signal.
    pub(crate) fn mark(self) -> [u8; 3] {
        [TAG[0], TAG[1], self as u8]
    }

    /// Returns the signal of a value, by its key, or `None` for a request without content.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the value is not a request, or has two signals.
    pub(crate) fn of_value(value: ValueRef<'_>) -> Result<Option<Self>> {
        let key = |signal: &Self| signal.request().fields[0].name;
        let Some(object) = value.as_object() else {
            return Err(Error::bad_data(format_args!(
                "expected an object, found {}",
                shown(value)
            )));
        };
        let mut found = Self::ALL.iter().filter(|signal| object.get(key(signal)).is_some());
        match (found.next(), found.next()) {
            (Some(one), Some(other)) => Err(Error::bad_data(format_args!(
                "expected the parts of one signal, found both `{}` and `{}`",
                key(one),
                key(other)
            ))),
            (None, _) if !object.is_empty() => {
                let [logs, metrics, traces] = Self::ALL.map(|it| key(&it));
                Err(Error::bad_data(format_args!(
                    "expected the key `{logs}`, `{metrics}` or `{traces}`, found none of them"
                )))
            }
            (found, _) => Ok(found.copied()),
        }
    }
}
