//! Realistic log events that a seed determines, one JSON object per line; and lines of an access
//! log.
//!
//! ```
//! let mut generator = sample_logs::Generator::new(42);
//! let mut lines = Vec::new();
//! generator.append_line(&mut lines);
//! generator.append_line(&mut lines);
//! assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 2);
//! ```
//!
//! A seed produces the same bytes on every machine and in every version of this crate, so that two
//! numbers identify the input of a benchmark. An event has the keys, value types, cardinalities and
//! the average size (about 635 bytes) of the log events that Tremor's benchmarks use. The text is
//! original.

mod access;
mod container;
mod event;
mod random;
mod words;

use std::io::{self, Write};

pub use access::write_access_log;
pub use container::write_container_lines;
use random::Random;

/// An endless sequence of log events, determined by its seed.
#[derive(Debug, Clone)]
pub struct Generator {
    random: Random,
}

impl Generator {
    /// Creates a generator at its first event.
    pub const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    /// Appends the next event to `out`: a JSON object and a line feed, 400 to 1,100 bytes.
    pub fn append_line(&mut self, out: &mut Vec<u8>) {
        event::append(&mut self.random, out);
        out.push(b'\n');
    }
}

/// Writes the first `count` lines of the generator with this seed to `out`.
///
/// # Errors
/// Errors of `out`.
pub fn write_lines(count: u64, seed: u64, out: &mut impl Write) -> io::Result<()> {
    let mut generator = Generator::new(seed);
    let mut line = Vec::with_capacity(1024);
    for _ in 0..count {
        line.clear();
        generator.append_line(&mut line);
        out.write_all(&line)?;
    }
    Ok(())
}
