//! The wrapper of the component of an adapter. Calls through the wrapper catch panics and return results of the ABI.

use std::{
    future::Future,
    mem::ManuallyDrop,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tremor_abi::connector::{CallFuture, CallResult};

use super::guard::{Guarded, guard, guarded_drop};
use crate::{Error, Result, lock};

/// A component that is dropped after its first panic, because a panic may leave its state inconsistent.
///
/// Some methods of the ABI return no error. If one of them panics, the next call that can return an error returns that
/// of the panic.
pub(super) struct Fused<T> {
    component: ManuallyDrop<Option<T>>,
    /// Error of a panic that was not returned yet.
    unreported: Mutex<Option<Error>>,
    /// `true` if `unreported` has an error, so that calls do not lock.
    has_unreported: AtomicBool,
}

impl<T> Fused<T> {
    pub(super) fn new(component: T) -> Self {
        Self {
            component: ManuallyDrop::new(Some(component)),
            unreported: Mutex::new(None),
            has_unreported: AtomicBool::new(false),
        }
    }

    pub(super) fn call<R>(&mut self, what: &str, call: impl FnOnce(&mut T) -> R) -> Result<R> {
        if let Some(error) = self.take_unreported() {
            return Err(error);
        }
        let Some(component) = self.component.as_mut() else {
            return Err(gone(what));
        };
        let result = guard(what, || call(component));
        if result.is_err() {
            // A panic while the component is dropped is ignored, because the first panic is reported.
            let _ = guarded_drop(self.component.take());
        }
        result
    }

    /// Calls the component like [`Fused::call`], for methods that return no error. Returns the default after a panic.
    pub(super) fn call_infallible<R: Default>(
        &mut self,
        what: &str,
        call: impl FnOnce(&mut T) -> R,
    ) -> R {
        self.call(what, call).unwrap_or_else(|error| {
            self.keep(error);
            R::default()
        })
    }

    /// Calls the component like [`Fused::call`], for methods that return a `Result`.
    pub(super) fn try_call<R>(
        &mut self,
        what: &str,
        call: impl FnOnce(&mut T) -> Result<R>,
    ) -> CallResult<R> {
        self.call(what, call).and_then(|result| result).into()
    }

    /// Calls an `async` method of the component. Panics are caught while the future is created and while it is
    /// polled.
    pub(super) fn start<'a, R, F: Future<Output = Result<R>> + Send + 'a>(
        &'a mut self,
        what: &'static str,
        call: impl FnOnce(&'a mut T) -> F + Send + 'a,
    ) -> CallFuture<'a, R>
    where
        T: Send,
    {
        let unreported = self.take_unreported();
        let component = self.component.as_mut();
        let called = async move {
            match (unreported, component) {
                (Some(error), _) => Err(error),
                (None, Some(component)) => call(component).await,
                (None, None) => Err(gone(what)),
            }
        };
        CallFuture::new(async move { Guarded::new(what, called).await.into() })
    }

    /// Queries the component. Returns `gone` if the component has panicked before, and `failed` if it panics now.
    pub(super) fn ask<R>(
        &self,
        what: &str,
        [gone, failed]: [R; 2],
        ask: impl FnOnce(&T) -> R,
    ) -> R {
        let Some(component) = self.get() else { return gone };
        guard(what, || ask(component)).unwrap_or_else(|error| {
            self.keep(error);
            failed
        })
    }

    /// Returns whether the next call returns the error of an earlier panic.
    pub(super) fn has_unreported(&self) -> bool {
        self.has_unreported.load(Ordering::Acquire)
    }

    pub(super) fn get(&self) -> Option<&T> {
        self.component.as_ref()
    }

    #[cold]
    fn keep(&self, error: Error) {
        lock(&self.unreported).get_or_insert(error);
        self.has_unreported.store(true, Ordering::Release);
    }

    /// Returns the error of a panic that was not returned yet, and drops the component after such a panic.
    fn take_unreported(&mut self) -> Option<Error> {
        if !*self.has_unreported.get_mut() {
            return None;
        }
        *self.has_unreported.get_mut() = false;
        let _ = guarded_drop(self.component.take());
        self.unreported.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Drop for Fused<T> {
    fn drop(&mut self) {
        // A panic is ignored, because there is no caller to which it could be reported.
        let _ = guarded_drop(self.component.take());
    }
}

/// Returns the error of a call of a component that has panicked before. Not inlined, because such calls are rare.
#[cold]
#[inline(never)]
fn gone(what: &str) -> Error {
    Error::panicked(format_args!("cannot call `{what}`: this instance has panicked before"))
}

#[cfg(test)]
mod tests {
    use super::Fused;
    use crate::Result;

    #[test]
    fn panic_of_a_query_is_the_error_of_the_next_call() {
        for panics in [
            (|fused: &mut Fused<u64>| fused.ask("due", [1, 0], |_| panic!("no clock")))
                as fn(&mut Fused<u64>) -> u64,
            |fused| fused.call_infallible("due", |_| panic!("no clock")),
        ] {
            let mut fused = Fused::new(7);
            assert_eq!(fused.ask("due", [1, 0], |it| *it), 7);
            assert_eq!(panics(&mut fused), 0);
            assert!(fused.has_unreported());
            assert_eq!(fused.call_infallible("on_grant", |it| *it), 0, "the panic is kept");
            let mut call =
                || -> Result<u64> { fused.try_call("process", |it| Ok(*it)).into_result() };
            let error = call().unwrap_err().to_string();
            assert!(
                error.starts_with("panicked in due") && error.ends_with(": no clock"),
                "{error}"
            );
            let error = call().unwrap_err().to_string();
            assert!(error.contains("has panicked before"), "{error}");
            assert_eq!(fused.ask("due", [1, 0], |it| *it), 1);
        }
    }
}
