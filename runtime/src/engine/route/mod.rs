//! Routing of a component's events through pipelines and into the queues of other tasks, in order.

pub(crate) mod buffers;
pub(crate) mod dead_letter;
pub(crate) mod exchange;
pub(crate) mod fan_out;
pub(crate) mod haste;
pub(crate) mod in_order;
pub(crate) mod leading;
pub(crate) mod outlets;
pub(crate) mod pipeline;
pub(crate) mod relief;
pub(crate) mod router;
pub(crate) mod routes;
pub(crate) mod stage;
pub(crate) mod step;
