//! The pictures of the report, as SVG.

mod dots;
mod latency;
mod overview;
mod relative;
mod rounds;
mod theme;
mod throughput;

pub(crate) use latency::latency;
pub(crate) use overview::{FlowFigures, overview};
pub(crate) use relative::relative;
pub(crate) use rounds::rounds;
pub(crate) use throughput::throughput;
