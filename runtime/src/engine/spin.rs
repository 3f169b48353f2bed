//! Waiting for another task on the processor, for a short while, before the executor parks this one.
//!
//! To park a thread and to wake it again can take longer than a batch does, on both sides. So a task
//! that waits for its turn first looks again for up to [`SPIN`], where that costs no other task anything:
//! while there are no more busy tasks than processors.
//!
//! The ends of a queue do not wait like this. `bench/runs/2026-11-24-spin` compares: flows of JSON were no
//! faster for it, and one that copies bytes was two and a half times as slow.

use std::{hint::spin_loop, time::Instant};

use crate::engine::{
    processors::Processors,
    tuning::{CLOSE_NS, LOOKS, SPIN},
};

/// Looks again until it is `ready`, where that depends on a task that is at work, or until it has
/// been looked at for long enough.
pub(crate) fn briefly(processors: &Processors, ready: impl FnMut() -> bool) {
    if !processors.are_crowded() {
        look(ready);
    }
}

/// Waits on the processor until then, where that is so soon that a timer would be late and where
/// no other task needs the processor. Whether it did.
pub(crate) fn until(processors: &Processors, deadline: Instant) -> bool {
    let wait = deadline.saturating_duration_since(Instant::now());
    if wait.as_nanos() > u128::from(CLOSE_NS) || !processors.are_roomy() {
        return false;
    }
    look(|| Instant::now() >= deadline);
    true
}

/// Looks until it is ready, or has been looked at for long enough.
fn look(mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut looks = 0;
    while !ready() && start.elapsed() < SPIN {
        if looks < LOOKS {
            looks += 1;
            // So seldom that looks do not take the cache line from the task that writes it.
            (0..8).for_each(|_| spin_loop());
        } else {
            // The system may have put the other task's thread on this processor.
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::look;

    #[test]
    fn a_wait_on_the_processor_ends_when_it_is_ready_or_has_lasted_long_enough() {
        let looks = Cell::new(0);
        look(|| {
            looks.set(looks.get() + 1);
            looks.get() == 3
        });
        assert_eq!(looks.get(), 3);
        look(|| false);
    }
}
