//! The wrapper of the component of an adapter. Calls through the wrapper catch panics and return results of the ABI.

use std::{future::Future, mem::ManuallyDrop};

use tremor_abi::connector::{CallFuture, CallResult};

use super::guard::{Guarded, guard, guarded_drop};
use crate::{Error, Result};

/// A component that is dropped after its first panic, because a panic may leave its state inconsistent.
pub(super) struct Fused<T> {
    component: ManuallyDrop<Option<T>>,
}

impl<T> Fused<T> {
    pub(super) fn new(component: T) -> Self {
        Self { component: ManuallyDrop::new(Some(component)) }
    }

    pub(super) fn call<R>(&mut self, what: &str, call: impl FnOnce(&mut T) -> R) -> Result<R> {
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
        let component = self.component.as_mut();
        let called = async move {
            match component {
                Some(component) => call(component).await,
                None => Err(gone(what)),
            }
        };
        CallFuture::new(async move { Guarded::new(what, called).await.into() })
    }

    /// Queries the component. Returns the default if the component panics now or has panicked before.
    pub(super) fn ask<R: Default>(&self, what: &str, ask: impl FnOnce(&T) -> R) -> R {
        self.get().and_then(|component| guard(what, || ask(component)).ok()).unwrap_or_default()
    }

    pub(super) fn get(&self) -> Option<&T> {
        self.component.as_ref()
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
