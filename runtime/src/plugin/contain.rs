//! Stops panics at the plugin ABI, on the side on which they occur.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use tremor_abi::connector::CallResult;
use tremor_pdk::{Error, Result};

/// Runs `work`. Returns `None` if it panicked. The panic hook has reported the panic by then.
pub(super) fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // The payload is not dropped, because its drop may panic as well.
            std::mem::forget(payload);
            None
        }
    }
}

/// Future of a plugin that turns a panic into an error of kind panicked.
///
/// Without this type, async-ffi would panic in the caller if the future panicked in the plugin.
pub(super) struct Contained<F> {
    what: &'static str,
    future: F,
}

impl<F> Contained<F> {
    pub(super) fn new(what: &'static str, future: F) -> Self {
        Self { what, future }
    }
}

impl<F: Future + Unpin> Future for Contained<F> {
    type Output = Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let what = self.what;
        match contain(|| Pin::new(&mut self.future).poll(context)) {
            Some(poll) => poll.map(Ok),
            None => Poll::Ready(Err(panicked(what))),
        }
    }
}

/// Waits for a call, and turns a panic that the plugin did not catch into an error.
pub(super) async fn call<T>(
    what: &'static str,
    call: impl Future<Output = CallResult<T>> + Unpin,
) -> Result<T> {
    Contained::new(what, call).await?.into_result()
}

/// Returns the error for a panic that left the plugin although the plugin catches panics itself.
pub(super) fn panicked(what: &str) -> Error {
    Error::panicked(format!("panicked in {what}"))
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        task::{Context, Poll, Waker},
    };

    use async_ffi::FfiFuture;
    use tremor_pdk::ErrorKind;

    use super::Contained;

    #[test]
    fn panic_in_foreign_future_is_an_error() {
        let foreign = FfiFuture::<()>::new(async { panic!("on purpose") });
        let mut future = std::pin::pin!(Contained::new("connect", foreign));
        let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(error)) = poll else { panic!("{poll:?}") };
        assert_eq!(error.kind(), ErrorKind::PANICKED);
    }
}
