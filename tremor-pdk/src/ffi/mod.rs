//! The ABI side of the kit.
//!
//! This module contains the adapters that implement the traits of `tremor-abi` with the drivers, the root module, and
//! the guard that converts panics to errors. Only the host calls this code; plugin authors do not use it.

pub mod artefact;
mod component;
mod connector;
mod fused;
mod guard;
mod module;
mod stream;

pub(crate) use self::guard::{Guarded, guard};
pub use self::module::{Library, header};
pub use abi_stable::{library::LibHeader, std_types::RVec};

use std::future::Future;

use async_ffi::FfiFuture;

use crate::Host;

/// Wraps a future for the executor of the host. If the future panics, the panic is logged.
pub(crate) fn detached(
    host: Host,
    name: String,
    future: impl Future<Output = ()> + Send + 'static,
) -> FfiFuture<()> {
    let future = Guarded::new("a task", async {
        future.await;
        Ok(())
    });
    FfiFuture::new(async move {
        if let Err(error) = future.await {
            error!(host, "task `{name}`: {error}");
        }
    })
}
