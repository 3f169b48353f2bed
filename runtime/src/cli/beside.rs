//! What goes on beside a run, on a thread of its own.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Work that goes on until this is dropped.
pub(super) struct Beside {
    /// Closed at the end.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Begins the work, which gets a function that waits for so long and says whether it is to go on. None
    /// where the system gives no thread.
    pub(super) fn start(
        name: &str,
        work: impl FnOnce(&dyn Fn(Duration) -> bool) + Send + 'static,
    ) -> Option<Self> {
        let (stop, stops) = mpsc::channel();
        let works =
            move || work(&|time| stops.recv_timeout(time) == Err(RecvTimeoutError::Timeout));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(works).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has panicked, and the panic has been reported.
            _ = thread.join();
        }
    }
}
