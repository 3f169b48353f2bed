//! Waits for file descriptors.

use std::{os::fd::BorrowedFd, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec};
use tremor_abi::host::Interest;

/// Which of these file descriptors are ready, after waiting `patience` at most for one to be.
pub(super) fn poll(descriptors: &[(i32, Interest)], patience: Duration) -> Vec<bool> {
    let mut polled: Vec<_> = descriptors
        .iter()
        .map(|&(descriptor, interest)| {
            let flags = if interest == Interest::READABLE { PollFlags::IN } else { PollFlags::OUT };
            // SAFETY: a plugin keeps the descriptor that it waits for open until then: `HostFunctions`.
            PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(descriptor) }, flags)
        })
        .collect();
    let patience = Timespec::try_from(patience).ok();
    // Errors, such as an interruption, come to: nothing is ready yet.
    let _ = rustix::event::poll(&mut polled, patience.as_ref());
    polled.iter().map(|polled| !polled.revents().is_empty()).collect()
}
