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
    /// Whether a broker has ever answered.
    was_up: bool,
    /// The last word on a connection that failed.
    failed: Option<Error>,
    /// Whether no broker is reached.
    are_down: bool,
    /// The last line about an error.
    last: Option<String>,
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
        let mut state = self.state();
        // The same is told of each connection, and more than once.
        let text = error.to_string();
        if state.last.as_ref() != Some(&text)
            && !(code == Some(Code::AllBrokersDown) && state.are_down)
        {
            tremor_pdk::warn!(self.host, "{text}");
            state.last = Some(text);
        }
        match code {
            Some(Code::AllBrokersDown) => {
                state.failed.get_or_insert(error);
                state.are_down = true;
            }
            // A broker that has once accepted this client does so again, or another does: one that is just
            // starting may refuse it.
            Some(Code::Authentication | Code::SSL) if state.was_up => state.failed = Some(error),
            _ if error.is_final() => _ = state.is_final.get_or_insert(error),
            Some(Code::BrokerTransportFailure | Code::Resolve | Code::SSL) => {
                state.failed = Some(error);
            }
            _ => {}
        }
    }

    /// What was told that time does not mend.
    pub(crate) fn is_final(&self) -> Option<Error> {
        self.state().is_final.clone()
    }

    /// Why no broker is reached, if one was told.
    pub(crate) fn is_down(&self) -> Option<Error> {
        let state = self.state();
        state.failed.clone().filter(|_| state.are_down)
    }

    /// A broker has answered.
    pub(crate) fn is_up(&self) {
        let mut state = self.state();
        (state.was_up, state.are_down, state.failed, state.last) = (true, false, None, None);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
