//! From a component to the queues of others: ports, the pipelines that its task runs, and their order.

pub(crate) mod buffers;
pub(crate) mod dead_letter;
pub(crate) mod in_order;
pub(crate) mod pipeline;
pub(crate) mod router;
pub(crate) mod routes;
