//! Connections that send a line from time to time, in turn, so that each line arrives alone.

use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{Result, descriptors, lines, parent};

#[derive(Debug, clap::Args)]
pub(crate) struct Trickle {
    port: u16,
    /// Number of connections
    #[arg(long, default_value_t = 200, value_name = "N")]
    connections: usize,
    /// Number of lines per second and connection
    #[arg(long, default_value_t = 100, value_name = "N")]
    rate: usize,
    /// Duration in seconds
    #[arg(long, default_value_t = 10, value_name = "S")]
    seconds: usize,
}

impl Trickle {
    pub(crate) fn run(&self) -> Result {
        descriptors::allow(self.connections)?;
        let connect = |number| descriptors::connect_as(number, self.port);
        let mut connections = (0..self.connections).map(connect).collect::<Result<Vec<_>>>()?;
        let line = lines::line(0);
        parent::begin()?;
        let a_second = self.connections * self.rate;
        let count = a_second * self.seconds;
        let (start, mut latest) = (Instant::now(), Duration::ZERO);
        for (sent, number) in (0..self.connections).cycle().take(count).enumerate() {
            let due = Duration::from_secs(sent as u64) / u32::try_from(a_second)?;
            match due.checked_sub(start.elapsed()) {
                Some(early) => thread::sleep(early),
                None => latest = latest.max(start.elapsed().saturating_sub(due)),
            }
            connections[number].write_all(&line)?;
        }
        parent::report(json!({
            "lines": count,
            "seconds": start.elapsed().as_secs_f64(),
            "late_ms": latest.as_secs_f64() * 1e3,
        }))?;
        parent::wait()
    }
}
