//! Ways to wait: values that tasks wait on, times, and turns on a thread. Counters that any task reads.

pub(crate) mod alarm;
pub(crate) mod gauge;
pub(crate) mod turn;
pub(crate) mod wakers;
pub(crate) mod watch;
