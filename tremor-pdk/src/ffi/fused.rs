//! What the adapters hold: a component, and calls of it with results as the ABI has them.

use std::{future::Future, mem::ManuallyDrop};

use tremor_abi::connector::{CallFuture, CallResult};

use super::guard::{Guarded, guard, guarded_drop};
use crate::{Error, Result};

/// A component that is gone for good once it has panicked: its state cannot be trusted.
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
            // A second panic, in the drop, adds nothing to the first.
            let _ = guarded_drop(self.component.take());
        }
        result
    }

    /// As [`Fused::call`], for what may fail.
    pub(super) fn try_call<R>(
        &mut self,
        what: &str,
        call: impl FnOnce(&mut T) -> Result<R>,
    ) -> CallResult<R> {
        self.call(what, call).and_then(|result| result).into()
    }

    /// As [`Fused::try_call`], for what may take its time: making the future and polling it.
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

    /// Asks the component something; the default where it has panicked, now or before.
    pub(super) fn ask<R: Default>(&self, what: &str, ask: impl FnOnce(&T) -> R) -> R {
        self.get().and_then(|component| guard(what, || ask(component)).ok()).unwrap_or_default()
    }

    pub(super) fn get(&self) -> Option<&T> {
        self.component.as_ref()
    }
}

impl<T> Drop for Fused<T> {
    fn drop(&mut self) {
        // There is no caller left to tell of a panic in here.
        let _ = guarded_drop(self.component.take());
    }
}

/// What a component that has panicked answers to everything. Out of line, as what is rare is.
#[cold]
#[inline(never)]
fn gone(what: &str) -> Error {
    Error::panicked(format_args!("{what} after an earlier panic"))
}
