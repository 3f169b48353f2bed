//! Nothing but a benchmark: see `benches/`.
