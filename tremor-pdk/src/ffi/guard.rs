//! Panics become errors here, before they reach the boundary.

use std::{
    any::Any,
    cell::RefCell,
    future::Future,
    mem::ManuallyDrop,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::Once,
    task::{Context, Poll},
};

use crate::{Error, Result};

thread_local! {
    /// Where the last panic happened, until a guard asks.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the place of a panic for the error that it becomes. Panics are reported as before, where
/// they become an error too: so there is a backtrace where one is asked for, nothing is lost where a
/// panic ends the process, and no call has to say first that it is guarded. A plugin has a panic
/// hook of its own, because it has a standard library of its own.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            report(info);
            let place = info.location().map(ToString::to_string);
            PLACE.with_borrow_mut(|last| *last = place);
        }));
    });
}

/// Runs `work`; a panic in it is an error of kind panicked that says in what, where and why.
///
/// Every call of the host comes through here. It costs nothing while all goes well: being prepared
/// for a panic is a table that is only read when there is one. Keep it so. Not even a variable of
/// the thread is free: in a library it takes a call into the dynamic loader, a third of all
/// instructions of a guarded call.
#[inline]
pub(crate) fn guard<T>(what: &str, work: impl FnOnce() -> T) -> Result<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| panicked(what, payload))
}

/// What a panic in `what` left, as an error. Out of line, or it would crowd the calls.
#[cold]
#[inline(never)]
fn panicked(what: &str, payload: Box<dyn Any + Send>) -> Error {
    let message = format!("panicked in {what}{}: {}", place(), text(&*payload));
    discard(payload);
    Error::panicked(message)
}

/// Frees what a panic left. A payload of a type of the plugin's own may panic once more when it is
/// dropped, and stays; what `panic!` makes does not, and goes, or each panic would cost memory.
fn discard(payload: Box<dyn Any + Send>) {
    if payload.is::<&str>() || payload.is::<String>() {
        drop(payload);
    } else {
        std::mem::forget(payload);
    }
}

fn place() -> String {
    PLACE.take().map(|place| format!(" at {place}")).unwrap_or_default()
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    literal.or_else(formatted).unwrap_or("the panic has no message")
}

/// Drops something whose drop may panic. No caller waits for an answer, so
/// the caller that drops it logs the error.
pub(crate) fn guarded_drop<T>(value: T) -> Result<()> {
    guard("drop", move || drop(value))
}

/// A future whose panics, in poll and in drop, are contained.
pub(crate) struct Guarded<F> {
    what: &'static str,
    /// Dropped under guard.
    future: ManuallyDrop<F>,
}

impl<F> Guarded<F> {
    pub(crate) fn new(what: &'static str, future: F) -> Self {
        Self { what, future: ManuallyDrop::new(future) }
    }
}

impl<T, F: Future<Output = Result<T>>> Future for Guarded<F> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let what = self.what;
        // SAFETY: structural pinning: `future` is never moved out of `self`, and `drop` drops it
        // in place.
        let future = unsafe { self.map_unchecked_mut(|this| &mut *this.future) };
        guard(what, || future.poll(context)).unwrap_or_else(|error| Poll::Ready(Err(error)))
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        // SAFETY: `self` is being dropped: the future is not used after this.
        let drop = || unsafe { ManuallyDrop::drop(&mut self.future) };
        // The caller has given the future up: there is no answer that a panic could change.
        let _ = guard("drop of a future", drop);
    }
}

#[cfg(test)]
mod tests {
    use super::{Guarded, guard, guarded_drop, install_hook};
    use crate::ErrorKind;
    use std::{
        future::{Future, pending},
        panic::panic_any,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped")
        }
    }

    #[test]
    fn a_panic_is_an_error_that_says_in_what_where_and_why() {
        install_hook();
        let error = guard("pull", || -> () { panic!("no {}", "luck") }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PANICKED);
        let message = error.to_string();
        assert!(message.starts_with("panicked in pull at "), "{message}");
        assert!(message.contains("guard.rs:") && message.ends_with(": no luck"), "{message}");
        assert!(guarded_drop(Bomb).is_err());
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_is_not_dropped() {
        install_hook();
        let error = guard("pull", || -> () { panic_any(Bomb) }).unwrap_err();
        assert!(error.to_string().ends_with("the panic has no message"), "{error}");
    }

    #[test]
    fn a_future_may_panic_in_poll_and_in_drop() {
        install_hook();
        let mut context = Context::from_waker(Waker::noop());
        let mut fails = pin!(Guarded::new("connect", async { panic!("no") }));
        let Poll::Ready(Err::<(), _>(error)) = fails.as_mut().poll(&mut context) else {
            panic!("expected an error")
        };
        assert_eq!(error.kind(), ErrorKind::PANICKED);
        let bomb = Guarded::new("connect", async {
            let _bomb = Bomb;
            pending::<crate::Result<()>>().await
        });
        let mut bomb = Box::pin(bomb);
        assert!(bomb.as_mut().poll(&mut context).is_pending());
        drop(bomb);
    }
}
