//! The task that writes acknowledged positions to the checkpoint.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use tremor_pdk::warn;

use super::Shared;

/// Writes the checkpoint whenever it is due after an acknowledgement, until the checkpoint is
/// closed or the task is dropped.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut has_failed = false;
    loop {
        let sync_at_ns = poll_fn(|context| {
            let mut state = shared.state();
            if state.is_unsynced {
                return Poll::Ready(state.sync_at_ns);
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        });
        let sync_at_ns = sync_at_ns.await;
        let mut wait_ns = sync_at_ns.saturating_sub(shared.host.monotonic_ns());
        if has_failed {
            wait_ns = wait_ns.max(shared.interval_ns);
        }
        let mut timer = pin!(shared.host.sleep(Duration::from_nanos(wait_ns)));
        poll_fn(|context| {
            let mut state = shared.state();
            if !has_failed && shared.has_enough(&state) {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            drop(state);
            timer.as_mut().poll(context)
        })
        .await;
        if shared.state().is_closed {
            return;
        }
        let saving = shared.clone();
        let saved = shared.host.blocking(move || {
            let is_due = saving.is_due(&saving.state(), saving.host.monotonic_ns());
            if is_due { saving.save() } else { Ok(()) }
        });
        let error = saved.await.and_then(|saved| saved).err();
        if let Some(error) = error.as_ref().filter(|_| !has_failed) {
            warn!(shared.host, "{error}; the write is retried later");
        }
        has_failed = error.is_some();
    }
}
