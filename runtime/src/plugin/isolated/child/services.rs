//! The services of the runtime in the process of a plugin. Most of them are messages to the runtime.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tremor_abi::host::LogLevel;
use tremor_pdk::Error;

use super::Shared;
use crate::{
    dynamic::BoxFuture,
    plugin::{
        HostServices,
        isolated::{
            body::{ErrorBody, ProblemBody, shortened},
            message::{Kind, Message},
        },
    },
};

/// Services of the connector.
pub(super) struct Services {
    shared: Arc<Shared>,
    /// Number of bytes that the connector may borrow: half of the memory of the process, because the borrowed bytes are
    /// not all of its memory.
    free: AtomicU64,
}

impl Services {
    pub(super) fn new(shared: Arc<Shared>, memory: u64) -> Self {
        Self { shared, free: AtomicU64::new(memory / 2) }
    }
}

impl HostServices for Services {
    fn connection_lost(&self) {
        self.shared.send(&Message::new(Kind::CONNECTION_LOST));
    }

    fn set_problem(&self, name: &str, problem: Option<Error>) {
        let error = problem.as_ref().map(ErrorBody::from);
        let body = ProblemBody { name: name.to_owned(), error };
        self.shared.send(&Message::new(Kind::PROBLEM).json(&body));
    }

    fn request_stop(&self, graceful: bool, reason: &str) {
        let stop = Message::new(Kind::REQUEST_STOP).text(shortened(reason));
        self.shared.send(&Message { a: graceful.into(), ..stop });
    }

    fn memory_take(&self, bytes: usize) -> bool {
        let take = |free: u64| free.checked_sub(bytes as u64);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn memory_return(&self, bytes: usize) {
        self.free.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn is_draining(&self) -> bool {
        self.shared.is_draining.load(Ordering::Relaxed)
    }

    fn task(&self, _name: &str, task: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        Box::pin(self.shared.clone().counted(task))
    }

    fn log_enabled(&self, level: LogLevel) -> Option<bool> {
        Some(level.0 <= self.shared.log_level.load(Ordering::Relaxed))
    }

    fn log(&self, level: LogLevel, message: &str) -> bool {
        if level.0 <= self.shared.log_level.load(Ordering::Relaxed) {
            let line = Message::new(Kind::LOG).text(shortened(message));
            self.shared.send(&Message { a: level.0.into(), ..line });
        }
        true
    }
}
