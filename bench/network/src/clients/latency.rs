//! Latency of lines from one socket to another, at a constant rate.
//!
//! A line contains the time at which it is due, not the time at which it was sent, so that the
//! latency includes the delay of a blocked sender.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use serde_json::json;

use crate::{
    Result, descriptors,
    lines::{self, Cutter, LINE},
    parent,
};

/// Maximum number of bytes per read.
const READ: usize = 256 << 10;

/// Time between two groups of lines that are sent together.
const TICK: Duration = Duration::from_micros(100);

/// Warm-up, whose lines are not counted.
const WARM_UP: Duration = Duration::from_secs(1);

/// Number in a line that contains no time.
const NO_TIME: u64 = 0;

#[derive(Debug, clap::Args)]
pub(crate) struct Latency {
    /// Port of the measured server
    port: u16,
    /// Port to which the server sends
    receive: u16,
    /// Number of lines per second; as many as possible, unless set
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Time to count, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
}

/// Results of the receiver.
struct Seen {
    start: Instant,
    /// Number of lines that were received and counted.
    lines: AtomicU64,
    /// `true` from the end of the warm-up until the last line is sent.
    counts: AtomicBool,
    /// Latencies in ns.
    latencies: Mutex<Histogram<u64>>,
}

impl Latency {
    pub(crate) fn run(&self) -> Result {
        let listener = TcpListener::bind(("127.0.0.1", self.receive))?;
        // The measured server starts once its destination listens.
        parent::begin()?;
        let (from, _) = listener.accept()?;
        let mut to = connect(self.port)?;
        let seen = Arc::new(Seen {
            start: Instant::now(),
            lines: AtomicU64::new(0),
            counts: AtomicBool::new(false),
            latencies: Mutex::new(Histogram::new(3)?),
        });
        let receiver = {
            let seen = seen.clone();
            thread::spawn(move || seen.receive(from))
        };
        let end = WARM_UP + Duration::from_secs_f64(self.seconds);
        let late = match self.rate {
            Some(rate) => seen.send_at(rate, &mut to, end)?,
            None => seen.send_all(&mut to, end)?,
        };
        if receiver.is_finished() {
            receiver.join().map_err(|_| "the receiver has panicked")??;
            return Err("the connection from the server has ended".into());
        }
        let latencies = seen.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let microseconds = |quantile: f64| number(latencies.value_at_quantile(quantile)) / 1e3;
        parent::report(json!({
            "rate": number(seen.lines.load(Ordering::Relaxed)) / self.seconds,
            "p50_us": microseconds(0.5),
            "p99_us": microseconds(0.99),
            "p999_us": microseconds(0.999),
            "most_us": number(latencies.max()) / 1e3,
            "late_p99_us": number(late.value_at_quantile(0.99)) / 1e3,
        }))?;
        parent::wait()
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn number(value: u64) -> f64 {
    value as f64
}

/// Connects once the server listens.
fn connect(port: u16) -> Result<TcpStream> {
    let start = Instant::now();
    loop {
        match descriptors::connect_as(0, port) {
            Ok(stream) => return Ok(stream),
            Err(error) if start.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

impl Seen {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn receive(&self, mut from: TcpStream) -> Result {
        let (mut cutter, mut buffer) = (Cutter::default(), vec![0; READ]);
        loop {
            let count = from.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            let (now_ns, counts) = (self.now_ns(), self.counts.load(Ordering::Relaxed));
            let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
            cutter.feed(&buffer[..count], |line| {
                let due_ns = lines::number(line)?;
                if counts {
                    self.lines.fetch_add(1, Ordering::Relaxed);
                }
                if counts && due_ns != NO_TIME {
                    latencies.record(now_ns.saturating_sub(due_ns))?;
                }
                Ok(())
            })?;
        }
    }

    /// Sends lines as fast as the connection accepts them.
    fn send_all(&self, to: &mut TcpStream, end: Duration) -> Result<Histogram<u64>> {
        let lines = lines::lines(NO_TIME, 100);
        while self.start.elapsed() < end {
            self.counts.store(self.start.elapsed() > WARM_UP, Ordering::Relaxed);
            to.write_all(&lines)?;
        }
        self.counts.store(false, Ordering::Relaxed);
        Ok(Histogram::new(3)?)
    }

    /// Sends at a constant rate. Returns the delays of the sender in ns: from the time at which a group of lines was
    /// due to the time at which the sender wrote it.
    fn send_at(&self, rate: u32, to: &mut TcpStream, end: Duration) -> Result<Histogram<u64>> {
        let mut late = Histogram::new(3)?;
        let mut sent = 0_u64;
        let mut buffer = Vec::new();
        for tick in 1.. {
            let due = TICK * tick;
            if due > end {
                break;
            }
            if let Some(early) = due.checked_sub(self.start.elapsed()) {
                thread::sleep(early);
            }
            self.counts.store(due > WARM_UP, Ordering::Relaxed);
            let due_ns = u64::try_from(due.as_nanos())?;
            late.record(self.now_ns().saturating_sub(due_ns))?;
            let wanted = u64::try_from(due.as_nanos() * u128::from(rate) / 1_000_000_000)?;
            let count = usize::try_from(wanted - sent)?;
            sent = wanted;
            while buffer.len() < count * LINE {
                buffer.extend_from_slice(&lines::line(NO_TIME));
            }
            let lines = &mut buffer[..count * LINE];
            lines.chunks_exact_mut(LINE).for_each(|line| lines::renumber(line, due_ns));
            to.write_all(lines)?;
        }
        self.counts.store(false, Ordering::Relaxed);
        Ok(late)
    }
}
