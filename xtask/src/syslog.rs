//! `cargo xtask syslog`: lines of syslog over one TCP connection into a file, by turns through this program,
//! through a loop that only reads and writes, and through rsyslog and syslog-ng if they are at hand.
//!
//! The file lies in memory, so that no disk is measured. The time is that from the first byte that is sent to
//! the last that is in the file. The processor time is that of the server alone.

mod bare_loop;
mod lines;
mod servers;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf, absolute};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use self::bare_loop::{Arguments as BareLoop, run as bare_loop};
use self::{
    lines::{BLOCK, block},
    servers::{Server, Started},
};
use crate::running::{empty_folder, load, spread, write};

/// A file that has not grown for so long is complete.
const STILL: Duration = Duration::from_millis(1_500);
/// How often is looked how large it is.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each server has its turn
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// How many blocks of 10,000 lines are sent
    #[arg(long, default_value_t = 100, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    blocks: u64,
    /// The program rsyslogd, if it is not on the path
    #[arg(long, default_value = "rsyslogd", value_name = "FILE")]
    rsyslogd: PathBuf,
    /// The folder of rsyslog's modules, if it is not the usual one
    #[arg(long, value_name = "DIR")]
    rsyslog_modules: Option<PathBuf>,
    /// The program syslog-ng, if it is not on the path
    #[arg(long, default_value = "syslog-ng", value_name = "FILE")]
    syslog_ng: PathBuf,
    /// Servers to measure, of those that the table names; unless given, all
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// A folder in memory for what the servers write
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    memory: PathBuf,
    /// Where to write samples.csv and summary.txt
    #[arg(long, default_value = "target/syslog", value_name = "DIR")]
    output: PathBuf,
}

/// One turn of a server.
#[derive(Clone, Debug)]
struct Sample {
    server: &'static str,
    round: usize,
    wall: Duration,
    processor: Duration,
    lines: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = absolute(&arguments.output)?;
    empty_folder(&folder)?;
    let mut servers = servers::all(arguments, &folder)?;
    if !arguments.only.is_empty() {
        servers.retain(|server| arguments.only.iter().any(|name| name == server.name));
    }
    let block = block();
    let mut samples = Vec::new();
    for round in 0..arguments.rounds {
        for server in &servers {
            let sample = turn(server, &block, arguments, &folder, round)
                .with_context(|| format!("{}: see {}", server.name, folder.display()))?;
            eprintln!("{}", sentence(&sample));
            samples.push(sample);
        }
    }
    let summary = summary(&servers, &samples, arguments.blocks);
    print(&summary);
    write(&folder.join("samples.csv"), &table(&samples))?;
    write(&folder.join("summary.txt"), &summary)
}

/// A server starts, gets all lines, and ends.
fn turn(
    server: &Server,
    block: &[u8],
    arguments: &Arguments,
    folder: &Path,
    round: usize,
) -> Result<Sample> {
    let output = arguments.memory.join(format!("syslog-{}-{}", server.name, std::process::id()));
    let _ = fs::remove_file(&output);
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let started = server.start(port, &output, folder)?;
    let measured = measure(&started, port, &output, block, arguments.blocks);
    drop(started);
    let lines = measured.and_then(|(wall, processor)| {
        let lines = if server.is_as_it_is { same(&output, block)? } else { count(&output)? };
        Ok((wall, processor, lines))
    });
    let _ = fs::remove_file(&output);
    let (wall, processor, lines) = lines?;
    let sent = arguments.blocks * BLOCK;
    ensure!(lines == sent, "{lines} of {sent} lines are in its file");
    Ok(Sample { server: server.name, round, wall, processor, lines })
}

/// The time until all is in the file, and the processor time that the server took.
fn measure(
    server: &Started,
    port: u16,
    output: &Path,
    block: &[u8],
    blocks: u64,
) -> Result<(Duration, Duration)> {
    let mut connection = connect(port)?;
    // What a server does once it has started is none of this.
    thread::sleep(Duration::from_millis(500));
    let (before, start) = (server.processor_time()?, Instant::now());
    let sending = {
        let block = block.to_vec();
        thread::spawn(move || (0..blocks).try_for_each(|_| connection.write_all(&block)))
    };
    let (mut size, mut grown) = (0, start);
    loop {
        thread::sleep(LOOK);
        let now = fs::metadata(output).map_or(0, |file| file.len());
        if now != size {
            (size, grown) = (now, Instant::now());
        } else if sending.is_finished() && grown.elapsed() > STILL {
            break;
        }
        ensure!(start.elapsed() < PATIENCE, "not all is in the file after {PATIENCE:?}");
    }
    let took = server.processor_time()?.saturating_sub(before);
    sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?.context("cannot send")?;
    Ok((grown - start, took))
}

/// Connects once the server listens. The connection that finds out is the one that sends.
fn connect(port: u16) -> Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(connection) => return Ok(connection),
            Err(error) if start.elapsed() > Duration::from_secs(20) => {
                bail!("it does not listen: {error}")
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// How many lines of a file are those of the blocks, in order.
fn same(output: &Path, block: &[u8]) -> Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(output)?);
    let mut position = 0;
    let mut lines = 0;
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        let length = bytes.len().min(block.len() - position);
        let (found, expected) = (&bytes[..length], &block[position..position + length]);
        ensure!(found == expected, "after {lines} lines, others are in its file");
        lines += lines::count(found);
        position = (position + length) % block.len();
        file.consume(length);
    }
}

fn count(output: &Path) -> Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(output)?);
    let mut lines = 0;
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        lines += lines::count(bytes);
        let length = bytes.len();
        file.consume(length);
    }
}

impl Sample {
    /// Lines a second.
    #[allow(clippy::cast_precision_loss)] // far below what a float holds
    fn rate(&self) -> f64 {
        self.lines as f64 / self.wall.as_secs_f64()
    }

    /// Processor time a line, in µs.
    #[allow(clippy::cast_precision_loss)]
    fn cost(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.lines as f64
    }
}

fn sentence(sample: &Sample) -> String {
    let Sample { server, round, .. } = sample;
    let (rate, cost) = (sample.rate(), sample.cost());
    format!("round {round} {server:<15} {rate:>10.0} lines/s {cost:>6.2} us a line")
}

fn table(samples: &[Sample]) -> String {
    let header = String::from("server,round,lines,wall_ms,processor_ms\n");
    let row = |sample: &Sample| {
        let Sample { server, round, wall, processor, lines } = sample;
        let (wall, processor) = (wall.as_millis(), processor.as_millis());
        format!("{server},{round},{lines},{wall},{processor}\n")
    };
    std::iter::once(header).chain(samples.iter().map(row)).collect()
}

/// Medians with the smallest and the largest.
fn summary(servers: &[Server], samples: &[Sample], blocks: u64) -> String {
    let header = format!(
        "{} lines of {} bytes over one connection; load at the end {}\n{:<15} {:>30} {:>24}\n",
        blocks * BLOCK,
        lines::LINE,
        load(),
        "server",
        "lines/s (least, most)",
        "us a line (least, most)",
    );
    let row = |server: &Server| {
        let of = || samples.iter().filter(|sample| sample.server == server.name);
        let rates = spread(of().map(Sample::rate));
        let costs = spread(of().map(Sample::cost));
        format!(
            "{:<15} {:>10.0} ({:>8.0}, {:>8.0}) {:>8.2} ({:>5.2}, {:>5.2})\n",
            server.name, rates[1], rates[0], rates[2], costs[1], costs[0], costs[2]
        )
    };
    std::iter::once(header).chain(servers.iter().map(row)).collect()
}

fn print(text: &str) {
    eprint!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_other_lines_is_found_and_so_is_one_that_ends_early() {
        let path = std::env::temp_dir().join(format!("xtask-syslog-{}", std::process::id()));
        let block = b"one\ntwo\n";
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("a file for temporary files");
            same(&path, block)
        };
        assert_eq!(check(b"one\ntwo\none\ntwo\n").expect("the same"), 4);
        assert_eq!(check(b"one\ntwo\none\n").expect("the same so far"), 3);
        assert!(check(b"one\ntwo\none\nten\n").is_err());
        fs::remove_file(&path).expect("the file is there");
    }
}
