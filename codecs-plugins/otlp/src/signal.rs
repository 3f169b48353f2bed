//! Logs, metrics and traces, and how a message says which of them it has.
//!
//! A request in JSON says it by its key. A request in protobuf does not say it: each of the three has its parts in
//! field 1, and over HTTP the path tells. So a message of any signal in protobuf begins with one more field. No
//! request has its number, and a reader that does not know it leaves it out.

use tremor_pdk::{Error, Result, ValueRef};

use crate::{
    message::Message,
    scalar::shown,
    schema::{
        EXPORT_LOGS_SERVICE_REQUEST, EXPORT_METRICS_SERVICE_REQUEST, EXPORT_TRACE_SERVICE_REQUEST,
    },
};

/// The tag of field 1,000, a number. `http_server` writes it and `http_client` reads it, too.
const TAG: [u8; 2] = [0xc0, 0x3e];

/// What a request has in it. In a message it is a number, that of the variant.
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

    /// The name in options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Metrics => "metrics",
            Self::Traces => "traces",
        }
    }

    /// What a message in protobuf says, and the request that follows.
    pub(crate) fn split(message: &[u8]) -> (Option<Self>, &[u8]) {
        let rest = message.strip_prefix(&TAG).and_then(<[u8]>::split_first);
        let said = rest.and_then(|(number, rest)| {
            Some((Self::ALL.into_iter().find(|it| *it as u8 == *number)?, rest))
        });
        said.map_or((None, message), |(signal, rest)| (Some(signal), rest))
    }

    /// What a message in protobuf begins with that says so.
    pub(crate) fn mark(self) -> [u8; 3] {
        [TAG[0], TAG[1], self as u8]
    }

    /// What a value has in it, by its key. None of a request without content.
    ///
    /// # Errors
    /// Kind bad data: it is no request, or one of two signals.
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
