//! Primitives for tasks that wait: values and time slices. Also gauges, which any task can read.

pub(crate) mod flush_request;
pub(crate) mod gauge;
pub(crate) mod turn;
pub(crate) mod wakers;
pub(crate) mod watch;
