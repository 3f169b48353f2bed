//! Asynchronous calls as the ABI has them.

use std::future::Future;

use async_ffi::BorrowingFfiFuture;
use tremor_abi::connector::CallFuture;

use super::guard::Guarded;
use crate::Result;

/// A guarded future with a result as the ABI has it.
pub(super) fn into_call<'a, T: 'a>(
    what: &'static str,
    future: impl Future<Output = Result<T>> + Send + 'a,
) -> CallFuture<'a, T> {
    BorrowingFfiFuture::new(async move { Guarded::new(what, future).await.into() })
}
