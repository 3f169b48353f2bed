//! Waiting for file descriptors.

use std::{os::fd::BorrowedFd, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec};
use tremor_abi::host::Interest;

/// Waits at most `patience` until a descriptor is ready. Returns for each descriptor whether it is ready.
pub(super) fn poll(descriptors: &[(i32, Interest)], patience: Duration) -> Vec<bool> {
    let mut polled: Vec<_> = descriptors
        .iter()
        .map(|&(descriptor, interest)| {
            let flags = if interest == Interest::READABLE { PollFlags::IN } else { PollFlags::OUT };
            // SAFETY: a plugin keeps a descriptor open while it waits for the descriptor: see `HostFunctions`.
            PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(descriptor) }, flags)
        })
        .collect();
    let patience = Timespec::try_from(patience).ok();
    // After an error, such as an interruption, no descriptor counts as ready.
    let _ = rustix::event::poll(&mut polled, patience.as_ref());
    polled.iter().map(|polled| !polled.revents().is_empty()).collect()
}
