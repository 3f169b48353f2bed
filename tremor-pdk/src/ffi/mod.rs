//! The boundary: adapters between drivers and the `sabi_trait`s of `tremor-abi`, the root module,
//! and the guard that turns panics into errors. Everything here is called by the host; nothing of
//! it is for authors.

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

/// A future for the host's executor that logs what it panics with.
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
