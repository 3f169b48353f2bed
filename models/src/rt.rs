//! What runs a model: the checker, or Miri, which has its own threads and sees every access itself.

#[cfg(not(miri))]
pub use loom::{cell::UnsafeCell, future::block_on, sync, thread};

#[cfg(miri)]
pub use std::{sync, thread};

/// Nothing but a mark for the checker.
#[cfg(miri)]
#[derive(Debug)]
pub struct UnsafeCell<T>(T);

#[cfg(miri)]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    pub fn with(&self, read: impl FnOnce(&T)) {
        read(&self.0);
    }

    pub fn with_mut(&self, write: impl FnOnce(&T)) {
        write(&self.0);
    }
}

/// Runs a future to its end.
#[cfg(miri)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    use std::task::{Context, Poll, Wake, Waker};

    struct Unparks(thread::Thread);

    impl Wake for Unparks {
        fn wake(self: sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(sync::Arc::new(Unparks(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}
