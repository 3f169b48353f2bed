//! Log lines of librdkafka, and errors that librdkafka reports through a callback.

use std::sync::{Mutex, MutexGuard};

use rdkafka::{
    config::RDKafkaLogLevel as Level, error::KafkaError, types::RDKafkaErrorCode as Code,
};
use tremor_pdk::{LogLevel, lock, prelude::*};

use super::explain;

/// Writes librdkafka's messages to the log of the plugin, and stores the errors to which the connector has to react.
/// Part of the context of a client.
pub(crate) struct Diagnostics {
    host: Host,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// First error that retrying cannot resolve.
    final_error: Option<Error>,
    /// `true` once a broker has answered.
    has_answered: bool,
    /// Error of the last connection that failed since a broker last answered.
    connection_error: Option<Error>,
    /// `true` while no broker can be reached.
    is_down: bool,
    /// Last error that was logged. The same error is not logged again.
    last_logged: Option<String>,
}

impl Diagnostics {
    pub(crate) fn new(host: Host) -> Self {
        Self { host, state: Mutex::default() }
    }

    /// Writes a line of librdkafka's log to the plugin's log.
    pub(crate) fn log(&self, level: Level, facility: &str, message: &str) {
        let level = match level {
            Level::Emerg | Level::Alert | Level::Critical => LogLevel::ERROR,
            // Errors become warnings, because librdkafka retries by itself.
            Level::Error | Level::Warning => LogLevel::WARN,
            Level::Notice | Level::Info => LogLevel::INFO,
            Level::Debug => LogLevel::DEBUG,
        };
        if self.host.log_enabled(level) {
            self.host.log(level, &format!("librdkafka: {facility}: {message}"));
        }
    }

    /// Logs and stores an error that librdkafka reported through a callback.
    pub(crate) fn error(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        let error = explain(error, reason);
        let mut state = self.state();
        // Do not log the same error again: librdkafka reports it for each connection, and repeatedly.
        let text = error.to_string();
        if state.last_logged.as_ref() != Some(&text)
            && !(code == Some(Code::AllBrokersDown) && state.is_down)
        {
            tremor_pdk::warn!(self.host, "{text}");
            state.last_logged = Some(text);
        }
        match code {
            Some(Code::AllBrokersDown) => {
                state.connection_error.get_or_insert(error);
                state.is_down = true;
            }
            // The error is not final, because the brokers have accepted this client before. A broker that is just
            // starting may reject it for a while.
            Some(Code::Authentication | Code::SSL) if state.has_answered => {
                state.connection_error = Some(error);
            }
            _ if error.is_final() => _ = state.final_error.get_or_insert(error),
            Some(Code::BrokerTransportFailure | Code::Resolve | Code::SSL) => {
                state.connection_error = Some(error);
            }
            _ => {}
        }
    }

    /// Returns the first error that retrying cannot resolve, if any was reported.
    pub(crate) fn final_error(&self) -> Option<Error> {
        self.state().final_error.clone()
    }

    /// Returns the error because of which no broker can be reached, if librdkafka has reported that.
    pub(crate) fn outage(&self) -> Option<Error> {
        let state = self.state();
        state.connection_error.clone().filter(|_| state.is_down)
    }

    /// Records that a broker answered, which ends an outage.
    pub(crate) fn broker_answered(&self) {
        let mut state = self.state();
        (state.has_answered, state.is_down) = (true, false);
        (state.connection_error, state.last_logged) = (None, None);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
