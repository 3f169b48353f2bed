//! Realistic log events from a seed, one JSON object a line.
//!
//! ```
//! let mut generator = sample_logs::Generator::new(42);
//! let mut lines = Vec::new();
//! generator.append_line(&mut lines);
//! generator.append_line(&mut lines);
//! assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 2);
//! ```
//!
//! The same seed gives the same bytes on every machine and in every version of this crate, so that a
//! benchmark's input is named by two numbers. An event has the keys, the value types, the
//! cardinalities and, at some 635 bytes, the average size of the log events that Tremor's
//! benchmarks run on. The text is our own.

mod event;
mod random;
mod words;

use std::io::{self, Write};

use random::Random;

/// An endless supply of log events, determined by its seed.
#[derive(Debug, Clone)]
pub struct Generator {
    random: Random,
}

impl Generator {
    /// A generator that starts at its first event.
    pub const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    /// Appends the next event to `out`: one JSON object and a line feed, 400 to 1,100 bytes.
    pub fn append_line(&mut self, out: &mut Vec<u8>) {
        event::append(&mut self.random, out);
        out.push(b'\n');
    }
}

/// Writes the first `count` lines of the generator with this seed to `out`.
///
/// # Errors
/// Those of `out`.
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
