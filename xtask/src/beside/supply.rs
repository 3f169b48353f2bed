//! The sources of the flows: what they read, and the clients that feed them.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hostile_peers::{PATIENCE, Reserved};

use crate::broker::{self, Cluster};
use crate::poster::Poster;
use crate::process::{Process, Program};
use crate::scenario::Stage;

/// The kinds of sources, each with a number of events per second that no flow exceeds. Without a rate, a kind has that
/// many events for each second of a disturbance. The clients of `http` send until they are ended.
pub(super) const KINDS: [(&str, u64); 5] = [
    ("file", 4_500_000),
    ("journald", 1_200_000),
    ("nats", 200_000),
    ("kafka", 900_000),
    ("http", u64::MAX),
];

/// Length of a line with its line feed, in bytes.
const LINE: usize = 64;
/// Number of clients of an HTTP server, each with one request at a time.
const CLIENTS: usize = 4;
/// Number of lines in a request.
const LINES: u64 = 100;
/// Number of writes per second to an input that has a rate.
const WRITES: u64 = 100;

/// A script that behaves like `journalctl`: it writes the entries in the file `journal` from the cursor on, and waits.
const JOURNALCTL: &str = "#!/bin/sh
from=1
for argument; do
  case $argument in --cursor=s=*) from=${argument#--cursor=s=} ;; esac
done
exec tail -n \"+$from\" -f journal
";

/// A kind of source. Inputs of brokers are streams and topics, those of `file` and `journald` are files.
pub(super) enum Supply {
    File(PathBuf),
    Journal(PathBuf),
    Nats { server: Cluster, folder: PathBuf, bare: PathBuf },
    Kafka { broker: Cluster, folder: PathBuf },
    Http,
}

/// The source of one process.
pub(super) struct Source {
    /// The connector, for a flow file.
    pub(super) text: String,
    /// Codec of sinks after the source.
    pub(super) codec: &'static str,
    /// The port that clients connect to.
    port: Option<Reserved>,
}

/// Times of events at a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    begun: Instant,
    /// Events per second.
    rate: u64,
}

impl Schedule {
    pub(super) fn new(rate: u64) -> Self {
        Self { begun: Instant::now(), rate }
    }

    /// Waits until the time of the event with this number.
    fn wait(&self, number: u64) {
        thread::sleep(self.due(number).saturating_sub(self.begun.elapsed()));
    }

    /// Returns the time of an event since the beginning.
    fn due(&self, number: u64) -> Duration {
        let (seconds, rest) = (number / self.rate, number % self.rate);
        Duration::from_secs(seconds) + Duration::from_nanos(rest * 1_000_000_000 / self.rate)
    }
}

/// An input that is written at a rate until it is ended.
#[derive(Default)]
pub(super) struct Feed {
    thread: Option<JoinHandle<Result<()>>>,
    has_ended: Arc<AtomicBool>,
}

impl Feed {
    /// Ends the input.
    ///
    /// # Errors
    /// The input could not be written.
    pub(super) fn end(&mut self) -> Result<()> {
        self.has_ended.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), |it| it.join().unwrap_or(Ok(())))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // The thread ends by itself soon.
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Supply {
    /// Starts the brokers that flows read from.
    pub(super) fn new(kind: &str, stage: &Stage<'_>) -> Result<Self> {
        let folder = stage.folder.join(kind);
        fs::create_dir_all(&folder)?;
        Ok(match kind {
            "file" => Self::File(folder),
            "journald" => {
                let script = folder.join("journalctl");
                fs::write(&script, JOURNALCTL)?;
                fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
                Self::Journal(folder)
            }
            "nats" => {
                let server = broker::nats(&folder.join("server"))?;
                Self::Nats { server, folder, bare: stage.built.plugins.join("bare") }
            }
            "kafka" => {
                let broker = broker::kafka(&folder.join("broker"), &["num.partitions=1"])?;
                Self::Kafka { broker, folder }
            }
            _ => Self::Http,
        })
    }

    /// Writes this number of events to a new input.
    pub(super) fn fill(&self, input: &str, events: u64) -> Result<()> {
        let Some((mut file, process)) = self.create(input)? else { return Ok(()) };
        (0..events).try_for_each(|number| self.write(&mut file, number))?;
        finish(file, process)
    }

    /// Writes events to a new input at a rate.
    pub(super) fn feed(self: &Arc<Self>, input: &str, rate: u64) -> Result<Feed> {
        let Some((mut file, process)) = self.create(input)? else { return Ok(Feed::default()) };
        let (supply, has_ended) = (self.clone(), Arc::<AtomicBool>::default());
        let ends = has_ended.clone();
        let thread = thread::spawn(move || {
            let (schedule, mut number) = (Schedule::new(rate), 0);
            while !ends.load(Ordering::Relaxed) {
                for _ in 0..rate.div_ceil(WRITES) {
                    supply.write(&mut file, number)?;
                    number += 1;
                }
                file.flush()?;
                schedule.wait(number);
            }
            finish(file, process)
        });
        Ok(Feed { thread: Some(thread), has_ended })
    }

    /// Creates an input, and returns what it is written to: a file, or the standard input of a client of a broker.
    fn create(&self, input: &str) -> Result<Option<(BufWriter<File>, Option<Process>)>> {
        let client =
            match self {
                Self::File(folder) | Self::Journal(folder) => {
                    return Ok(Some((BufWriter::new(File::create(folder.join(input))?), None)));
                }
                Self::Nats { server, folder, bare } => Program::new(bare, input, folder)
                    .arguments(["fill", address(server)?, input, "/dev/stdin"]),
                Self::Kafka { broker, folder } => {
                    let kcat = Program::new("kcat", input, folder);
                    kcat.arguments(["-b", address(broker)?, "-P", "-t", input])
                        .arguments(["-X", "queue.buffering.max.messages=1000000"])
                }
                Self::Http => return Ok(None),
            };
        let (reads, writes) = std::io::pipe()?;
        let mut client = client;
        let process = client.spawn(Stdio::from(reads), None)?;
        Ok(Some((BufWriter::new(File::from(OwnedFd::from(writes))), Some(process))))
    }

    fn write(&self, file: &mut BufWriter<File>, number: u64) -> std::io::Result<()> {
        match self {
            Self::Journal(_) => {
                let cursor = number + 1;
                writeln!(file, "{{\"MESSAGE\":\"#{number:010}#\",\"__CURSOR\":\"s={cursor}\"}}")
            }
            _ => file.write_all(line(number).as_bytes()),
        }
    }

    /// Returns the source for a process, which reads this input. `name` is unique among all processes.
    pub(super) fn source(&self, name: &str, input: &str) -> Result<Source> {
        let (mut codec, mut port) = ("string", None);
        let text = match self {
            Self::File(folder) => format!(
                "{{ type: file, codec: string, preprocessors: [lines], config: {{ path: '{}', mode: read, \
                 follow: true, checkpoint: at }} }}",
                folder.join(input).display()
            ),
            Self::Journal(folder) => {
                codec = "json";
                // The script reads the journal in its working folder, which is that of the process.
                format!(
                    "{{ type: journald, config: {{ command: '{}', checkpoint: at }} }}",
                    folder.join("journalctl").display()
                )
            }
            Self::Nats { server, .. } => format!(
                "{{ type: nats_consumer, codec: string, config: {{ servers: ['{}'], stream: {input}, consumer: {name} }} }}",
                address(server)?
            ),
            Self::Kafka { broker, .. } => format!(
                "{{ type: kafka_consumer, codec: string, config: {{ brokers: ['{}'], topics: [{input}], group: {name}, \
                 start: earliest }} }}",
                address(broker)?
            ),
            Self::Http => {
                let reserved = Reserved::tcp()?;
                let text = format!(
                    "{{ type: http_server, codec: string, preprocessors: [lines], config: {{ listen: '{}', \
                     respond: delivered }} }}",
                    reserved.address()
                );
                port = Some(reserved);
                text
            }
        };
        Ok(Source { text, codec, port })
    }

    /// Puts files into the folder of a process that its source needs.
    pub(super) fn prepare(&self, folder: &Path, input: &str) -> Result<()> {
        let Self::Journal(journal) = self else { return Ok(()) };
        symlink(journal.join(input), folder.join("journal"))?;
        Ok(())
    }
}

/// Writes what is left, and waits for the client of a broker.
fn finish(file: BufWriter<File>, process: Option<Process>) -> Result<()> {
    file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    process.map_or(Ok(()), |mut it| it.finish())
}

fn address(cluster: &Cluster) -> Result<&str> {
    cluster.address("plain").context("the broker has no address")
}

/// Returns a line of [`LINE`] bytes.
fn line(number: u64) -> String {
    format!("{:.<1$}\n", format!("#{number:010}#"), LINE - 1)
}

/// Clients of an HTTP server, which send lines until they are ended.
#[derive(Default)]
pub(super) struct Clients {
    threads: Vec<JoinHandle<Result<u64>>>,
    has_ended: Arc<AtomicBool>,
}

impl Clients {
    /// Starts the clients of a source, if it has any. With a schedule, all of them together keep it.
    pub(super) fn start(source: &Source, schedule: Option<Schedule>) -> Self {
        let (has_ended, next) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |port: u16| {
            let (has_ended, next) = (has_ended.clone(), next.clone());
            thread::spawn(move || send(port, schedule, &next, &has_ended))
        };
        let threads =
            source.port.iter().flat_map(|it| (0..CLIENTS).map(|_| client(it.port()))).collect();
        Self { threads, has_ended }
    }

    /// Ends the clients once their last requests are answered. Returns the number of lines that were acknowledged; `None`
    /// if there are no clients.
    pub(super) fn end(&mut self) -> Result<Option<u64>> {
        self.has_ended.store(true, Ordering::Relaxed);
        let ended = self.threads.drain(..).map(|it| it.join().unwrap_or_else(|_| Ok(0)));
        let lines = ended.collect::<Result<Vec<u64>>>()?;
        Ok((!lines.is_empty()).then(|| lines.iter().sum()))
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // The threads end by themselves, because the server is gone or answers.
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// Sends requests over one connection, and returns the number of lines that the server acknowledged.
fn send(
    port: u16,
    schedule: Option<Schedule>,
    next: &AtomicU64,
    has_ended: &AtomicBool,
) -> Result<u64> {
    let (address, mut client) = (format!("127.0.0.1:{port}"), Poster::new(PATIENCE));
    let mut lines = 0;
    while !has_ended.load(Ordering::Relaxed) {
        let first = next.fetch_add(LINES, Ordering::Relaxed);
        if let Some(schedule) = schedule {
            schedule.wait(first);
        }
        let body: String = (first..first + LINES).map(line).collect();
        ensure!(client.send(&address, &body)?, "a request was not acknowledged");
        lines += LINES;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_same_length() {
        assert_eq!([line(0).len(), line(4_000_000).len()], [LINE; 2]);
        assert!(line(7).starts_with("#0000000007#") && line(7).ends_with(".\n"));
    }

    #[test]
    fn schedule_has_a_time_for_each_event() {
        let schedule = Schedule::new(20_000);
        let due = [0, 1, 20_000, 1_200_010].map(|number| schedule.due(number).as_micros());
        assert_eq!(due, [0, 50, 1_000_000, 60_000_500]);
    }
}
