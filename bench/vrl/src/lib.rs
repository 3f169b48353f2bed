//! An empty library for the benchmark in `benches/`.
