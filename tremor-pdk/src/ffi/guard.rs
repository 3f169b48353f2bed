//! The guard that catches panics of a plugin and converts them to errors, so that no panic reaches the host.

#[path = "reports.rs"]
mod reports;

use std::{
    any::Any,
    backtrace::{Backtrace, BacktraceStatus},
    cell::RefCell,
    fmt::Write as _,
    future::Future,
    mem::ManuallyDrop,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    pin::Pin,
    sync::Once,
    task::{Context, Poll},
    thread,
};

use crate::{Error, Result};

thread_local! {
    /// Location of the last panic on this thread, until a guard takes it.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Text that replaces the message of a panic in its report.
const NOT_SHOWN: &str = "the message is not shown here, because it may contain a secret; the resulting error \
                         contains it";

/// Part of the message with which tokio panics if it finds no runtime.
const NO_TOKIO: &str = "must be called from the context of a Tokio";

const NO_TOKIO_REMEDY: &str = "; a plugin does not find the runtime of tokio by itself: run this with \
                               `Tokio::run` or `Tokio::within` of `tremor_pdk::tokio`";

/// Installs a panic hook that reports every panic on standard error, and stores the location of the panic for the error
/// that [`guard`] returns.
///
/// Every panic is reported, even if no guard catches it, with a backtrace if one is enabled. A plugin needs its own
/// hook because it has its own copy of the standard library.
///
/// The report does not contain the message of the panic, because the message may contain a secret. Only the host can
/// remove secrets, and it does so in the error, which contains the message.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        panic::set_hook(Box::new(|panic| {
            reports::write(report(panic, &Backtrace::capture()));
            store_location(panic);
        }));
    });
}

/// Formats the report of a panic as the standard library does, but without the message.
fn report(panic: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let location =
        panic.location().map_or_else(|| "an unknown location".to_owned(), ToString::to_string);
    let mut report = format!("\nthread '{name}' panicked at {location}:\n{NOT_SHOWN}\n");
    if backtrace.status() == BacktraceStatus::Captured {
        // Writing to a string cannot fail.
        let _ = write!(report, "stack backtrace:\n{backtrace}");
    }
    report
}

fn store_location(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    // If the thread is ending, its thread-local variables may already be gone.
    let _ = LOCATION.try_with(|last| last.replace(location));
}

/// Runs `work`. A panic becomes an error of the kind panicked, with the name of the call, the location and the
/// message.
///
/// Every call of the host passes this function, so it must cost nothing without a panic: `catch_unwind` only adds a
/// table that is read during a panic. Do not add code here. Even an access to a thread-local variable from within a
/// library calls the dynamic loader, which took a third of all instructions of a guarded call.
#[inline]
pub(crate) fn guard<T>(what: &str, work: impl FnOnce() -> T) -> Result<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| panicked(what, payload))
}

/// Converts the payload of a panic in `what` to an error. Not inlined, to keep the guarded calls small.
#[cold]
#[inline(never)]
fn panicked(what: &str, payload: Box<dyn Any + Send>) -> Error {
    let text = text(&*payload);
    let remedy = if text.contains(NO_TOKIO) { NO_TOKIO_REMEDY } else { "" };
    let message = format!("panicked in {what}{}: {text}{remedy}", location());
    discard(payload);
    Error::panicked(message)
}

/// Frees the payload of a panic. A payload of the types that `panic!` creates is dropped. A payload of another type is
/// leaked, because dropping it may panic again.
fn discard(payload: Box<dyn Any + Send>) {
    if payload.is::<&str>() || payload.is::<String>() {
        drop(payload);
    } else {
        std::mem::forget(payload);
    }
}

fn location() -> String {
    let location = LOCATION.try_with(RefCell::take).ok().flatten();
    location.map(|location| format!(" at {location}")).unwrap_or_default()
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    literal.or_else(formatted).unwrap_or("the panic has no message")
}

/// Drops a value whose drop may panic. Returns the panic as an error, which callers may ignore.
pub(crate) fn guarded_drop<T>(value: T) -> Result<()> {
    guard("drop", move || drop(value))
}

/// A future whose panics are caught, both when it is polled and when it is dropped.
pub(crate) struct Guarded<F> {
    what: &'static str,
    /// The future, which is dropped within a guard.
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
        // SAFETY: structural pinning: `future` is never moved out of `self`, and `drop` drops it in place.
        let future = unsafe { self.map_unchecked_mut(|this| &mut *this.future) };
        guard(what, || future.poll(context)).unwrap_or_else(|error| Poll::Ready(Err(error)))
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        // SAFETY: `self` is being dropped, so the future is not used afterwards.
        let drop = || unsafe { ManuallyDrop::drop(&mut self.future) };
        // The future was cancelled, so there is no result that could report a panic.
        let _ = guard("drop of a future", drop);
    }
}

#[cfg(test)]
mod tests {
    use super::{Guarded, NOT_SHOWN, guard, guarded_drop, report, store_location};
    use crate::{ErrorKind, lock};
    use std::{
        backtrace::Backtrace,
        future::{Future, pending},
        panic::{self, panic_any},
        pin::pin,
        sync::{Mutex, Once},
        task::{Context, Poll, Waker},
    };

    static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Installs a hook like that of plugins, which also shows failed assertions of tests.
    fn install_hook() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                let report = report(panic, &Backtrace::disabled());
                lock(&REPORTED).push(report);
                store_location(panic);
                before(panic);
            }));
        });
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("dropped")
        }
    }

    #[test]
    fn panic_becomes_error_with_call_location_and_message() {
        install_hook();
        let error = guard("pull", || -> () { panic!("no {}", "luck") }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PANICKED);
        let message = error.to_string();
        assert!(message.starts_with("panicked in pull at "), "{message}");
        assert!(message.contains("guard.rs:") && message.ends_with(": no luck"), "{message}");
        assert!(guarded_drop(PanicsOnDrop).is_err());
    }

    #[test]
    fn report_has_location_but_not_message_of_a_panic() {
        install_hook();
        let secret = "hunter2";
        let error = guard("connect", || -> () { panic!("no access with {secret}") }).unwrap_err();
        assert!(
            error.to_string().ends_with("no access with hunter2"),
            "the host hides it: {error}"
        );
        let reported = lock(&REPORTED);
        assert!(!reported.iter().any(|report| report.contains(secret)), "{reported:?}");
        let is_this = |report: &&String| {
            report.contains("report_has_location") && report.contains("guard.rs:")
        };
        let report = reported.iter().find(is_this).expect("a report");
        assert!(report.contains(" panicked at ") && report.ends_with(&format!("{NOT_SHOWN}\n")));
    }

    #[test]
    fn payload_whose_drop_panics_is_leaked() {
        install_hook();
        let error = guard("pull", || -> () { panic_any(PanicsOnDrop) }).unwrap_err();
        assert!(error.to_string().ends_with("the panic has no message"), "{error}");
    }

    #[test]
    fn panics_in_poll_and_drop_of_a_future_are_caught() {
        install_hook();
        let mut context = Context::from_waker(Waker::noop());
        let mut fails = pin!(Guarded::new("connect", async { panic!("no") }));
        let Poll::Ready(Err::<(), _>(error)) = fails.as_mut().poll(&mut context) else {
            panic!("expected an error")
        };
        assert_eq!(error.kind(), ErrorKind::PANICKED);
        let bomb = Guarded::new("connect", async {
            let _bomb = PanicsOnDrop;
            pending::<crate::Result<()>>().await
        });
        let mut bomb = Box::pin(bomb);
        assert!(bomb.as_mut().poll(&mut context).is_pending());
        drop(bomb);
    }
}
