//! How many lines of each connection come in some seconds.

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

/// How much is read at once, in bytes.
const READ: usize = 256 << 10;

/// How long it takes at most until all connections have brought something.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Shares {
    /// How many connections there are
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    connections: usize,
    /// How long to count, in seconds
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
                return Err(format!("{missing} connections have brought nothing").into());
            }
            lines.read(&mut input, &mut buffer)?;
        }
        // What has waited for the last of them is none of it.
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
        parent::found(json!({
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
    /// By connection.
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
