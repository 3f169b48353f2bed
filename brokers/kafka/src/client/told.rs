//! What librdkafka tells its client: lines for the log, and errors that belong to no call.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::{
    config::RDKafkaLogLevel as Level, error::KafkaError, types::RDKafkaErrorCode as Code,
};
use tremor_pdk::{LogLevel, prelude::*};

use super::explain;

/// Turns that into the plugin's log, and keeps what the connector has to act on. For the context of a client.
pub(crate) struct Told {
    host: Host,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What time does not mend.
    is_final: Option<Error>,
    /// The last word on connections, where there is none now.
    is_down: Option<Error>,
}

impl Told {
    pub(crate) fn new(host: Host) -> Self {
        Self { host, state: Mutex::default() }
    }

    /// A line for the log.
    pub(crate) fn log(&self, level: Level, facility: &str, message: &str) {
        let level = match level {
            Level::Emerg | Level::Alert | Level::Critical => LogLevel::ERROR,
            // librdkafka tries again by itself.
            Level::Error | Level::Warning => LogLevel::WARN,
            Level::Notice | Level::Info => LogLevel::INFO,
            Level::Debug => LogLevel::DEBUG,
        };
        if self.host.log_enabled(level) {
            self.host.log(level, &format!("librdkafka: {facility}: {message}"));
        }
    }

    /// An error that belongs to no call.
    pub(crate) fn error(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        let error = explain(error, reason);
        tremor_pdk::warn!(self.host, "{error}");
        let mut state = self.state();
        if error.is_final() {
            state.is_final.get_or_insert(error);
        } else if matches!(
            code,
            Some(Code::AllBrokersDown | Code::BrokerTransportFailure | Code::Resolve)
        ) {
            state.is_down = Some(error);
        }
    }

    /// What was told that time does not mend.
    pub(crate) fn is_final(&self) -> Option<Error> {
        self.state().is_final.clone()
    }

    /// Why no broker is reached, if one was told.
    pub(crate) fn is_down(&self) -> Option<Error> {
        self.state().is_down.clone()
    }

    /// A broker has answered.
    pub(crate) fn is_up(&self) {
        self.state().is_down = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
