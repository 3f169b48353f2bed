//! Panics become errors here, before they reach the boundary.

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
    /// Where the last panic happened, until a guard asks.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What stands in place of the message of a panic.
const NOT_SHOWN: &str = "the message is not shown here, since it may quote a secret; an error that comes of \
                         this has it";

/// Part of the message with which tokio panics where it finds no runtime.
const NO_TOKIO: &str = "must be called from the context of a Tokio";

const NO_TOKIO_REMEDY: &str = "; a plugin does not find the runtime of tokio by itself: run this with \
                               `Tokio::run` or `Tokio::within` of `tremor_pdk::tokio`";

/// Keeps the place of a panic for the error that it becomes, and reports every panic, whether or not it
/// becomes an error: so there is a backtrace where one is asked for, and no call has to say first that it
/// is guarded. A plugin has a panic hook of its own, because it has a standard library of its own.
///
/// The report has no message: only the host knows what must not be shown, and it hears of errors.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        panic::set_hook(Box::new(|panic| {
            reports::write(report(panic, &Backtrace::capture()));
            keep_place(panic);
        }));
    });
}

/// What people see of a panic: lines as those of the standard library, without the message.
fn report(panic: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let mut report = format!("\nthread '{name}' panicked at {place}:\n{NOT_SHOWN}\n");
    if backtrace.status() == BacktraceStatus::Captured {
        // Writing to a string does not fail.
        let _ = write!(report, "stack backtrace:\n{backtrace}");
    }
    report
}

fn keep_place(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    // A thread that ends may panic after its variables are gone.
    let _ = PLACE.try_with(|last| last.replace(place));
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
    let text = text(&*payload);
    let remedy = if text.contains(NO_TOKIO) { NO_TOKIO_REMEDY } else { "" };
    let message = format!("panicked in {what}{}: {text}{remedy}", place());
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
    let place = PLACE.try_with(RefCell::take).ok().flatten();
    place.map(|place| format!(" at {place}")).unwrap_or_default()
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
    use super::{Guarded, NOT_SHOWN, guard, guarded_drop, keep_place, report};
    use crate::ErrorKind;
    use std::{
        backtrace::Backtrace,
        future::{Future, pending},
        panic::{self, panic_any},
        pin::pin,
        sync::{Mutex, Once, PoisonError},
        task::{Context, Poll, Waker},
    };

    static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// As a plugin has it, but that tests say with what they fail.
    fn install_hook() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                let report = report(panic, &Backtrace::disabled());
                REPORTED.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                keep_place(panic);
                before(panic);
            }));
        });
    }

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
    fn a_report_has_the_place_of_a_panic_and_not_its_message() {
        install_hook();
        let secret = "hunter2";
        let error = guard("connect", || -> () { panic!("no access with {secret}") }).unwrap_err();
        assert!(
            error.to_string().ends_with("no access with hunter2"),
            "the host hides it: {error}"
        );
        let reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!reported.iter().any(|report| report.contains(secret)), "{reported:?}");
        let is_this = |report: &&String| {
            report.contains("a_report_has_the_place") && report.contains("guard.rs:")
        };
        let report = reported.iter().find(is_this).expect("a report");
        assert!(report.contains(" panicked at ") && report.ends_with(&format!("{NOT_SHOWN}\n")));
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
