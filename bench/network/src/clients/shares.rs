//! Counts the lines of each connection that arrive within a given time.

use std::{
    io::{self, Read},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Result,
    lines::{Cutter, number},
    parent,
};

/// Maximum number of bytes per read.
const READ: usize = 256 << 10;

/// Maximum time until all connections have sent a line.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Shares {
    /// Number of connections
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    connections: usize,
    /// Time to count, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
}

impl Shares {
    pub(crate) fn run(&self) -> Result {
        let mut lines = Lines { cutter: Cutter::default(), counts: vec![0; self.connections] };
        let mut input = io::stdin().lock();
        let mut buffer = vec![0; READ];
        let begun = Instant::now();
        while lines.counts.contains(&0) {
            let missing = lines.counts.iter().filter(|count| **count == 0).count();
            if begun.elapsed() > PATIENCE {
                return Err(format!("{missing} connections have sent nothing").into());
            }
            lines.read(&mut input, &mut buffer)?;
        }
        // Discard the lines that waited until all connections had sent a line.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            lines.read(&mut input, &mut buffer)?;
        }
        lines.counts.fill(0);
        let begun = Instant::now();
        while begun.elapsed().as_secs_f64() < self.seconds {
            lines.read(&mut input, &mut buffer)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let mut counts = lines.counts;
        counts.sort_unstable();
        let total: u64 = counts.iter().sum();
        parent::report(json!({
            "lines": total,
            "seconds": seconds,
            "least": counts.first(),
            "median": counts.get(counts.len() / 2),
            "most": counts.last(),
        }))
    }
}

struct Lines {
    cutter: Cutter,
    /// Number of lines by connection.
    counts: Vec<u64>,
}

impl Lines {
    fn read(&mut self, input: &mut impl Read, buffer: &mut [u8]) -> Result {
        let count = input.read(buffer)?;
        if count == 0 {
            return Err("the server has ended".into());
        }
        let counts = &mut self.counts;
        self.cutter.feed(&buffer[..count], |line| {
            let connection = usize::try_from(number(line)?)?;
            *counts.get_mut(connection).ok_or("an unknown connection")? += 1;
            Ok(())
        })
    }
}
