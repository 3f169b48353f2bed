//! Background work of a run on a thread of its own.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Background work that continues until the value is dropped.
pub(super) struct Background {
    /// Closed to stop the work.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts `work` on a new thread.
    ///
    /// `work` gets a function that waits for a time and returns whether the work has to continue. Returns `None` if the
    /// thread cannot be started.
    pub(super) fn start(
        name: &str,
        work: impl FnOnce(&dyn Fn(Duration) -> bool) + Send + 'static,
    ) -> Option<Self> {
        let (stop, stops) = mpsc::channel();
        let body = move || work(&|time| stops.recv_timeout(time) == Err(RecvTimeoutError::Timeout));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked. The panic hook has reported that.
            _ = thread.join();
        }
    }
}
