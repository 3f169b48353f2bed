//! Checks with Miri, which chooses the order of threads at random, and ends the process if it finds a fault.

use std::{
    pin::pin,
    process::ExitCode,
    task::{Context, Poll, Wake, Waker},
};

pub(crate) use std::{sync, thread};

use crate::{Model, models};

/// The double of loom's cell, which does nothing, because Miri observes all accesses to memory.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(T);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn with(&self, read: impl FnOnce(&T)) {
        read(&self.0);
    }

    pub(crate) fn with_mut(&self, write: impl FnOnce(&T)) {
        write(&self.0);
    }
}

/// Runs a future to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unparks(thread::Thread);

    impl Wake for Unparks {
        fn wake(self: sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(sync::Arc::new(Unparks(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// Checks every model without a fault.
pub(crate) fn check_all() -> ExitCode {
    models().for_each(check);
    ExitCode::SUCCESS
}

/// Runs a model in several random orders.
pub(crate) fn check(model: &'static Model) {
    (0..50).for_each(|_| (model.run)());
}
