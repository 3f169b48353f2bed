//! The sources of the flows: what they read, and the clients that feed them.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use hostile_peers::{PATIENCE, Reserved};

use crate::broker::{self, Cluster};
use crate::process::Program;
use crate::scenario::Stage;

/// The kinds of sources, each with the number of events that a flow can read.
pub(super) const KINDS: [(&str, u64); 5] = [
    ("file", 12_000_000),
    ("journald", 1_000_000),
    ("nats", 400_000),
    ("kafka", 1_500_000),
    ("http", u64::MAX),
];

/// Length of a line with its line feed, in bytes.
const LINE: usize = 64;
/// Name of the stream of NATS, and of the topic of Kafka.
const FROM: &str = "lines";
/// Number of clients of an HTTP server, each with one request at a time.
const CLIENTS: usize = 4;
/// Number of lines in a request.
const LINES: u64 = 100;

/// A script that behaves like `journalctl`: it writes the entries in the file `journal` from the cursor on, and waits.
const JOURNALCTL: &str = "#!/bin/sh
from=1
for argument; do
  case $argument in --cursor=s=*) from=${argument#--cursor=s=} ;; esac
done
exec tail -n \"+$from\" -f journal
";

/// Input that all flows of a kind of source read.
pub(super) enum Supply {
    File(PathBuf),
    Journal(PathBuf),
    Nats(Cluster),
    Kafka(Cluster),
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

impl Supply {
    /// Writes the lines that flows read, starts brokers, and fills them.
    pub(super) fn new(kind: &str, stage: &Stage<'_>) -> Result<Self> {
        let events = KINDS.iter().find(|it| it.0 == kind).map_or(0, |it| it.1);
        let folder = stage.folder.join(kind);
        fs::create_dir_all(&folder)?;
        let lines = folder.join("lines");
        let fill = |mut program: Program| program.start()?.finish();
        Ok(match kind {
            "file" => {
                write(&lines, events, line)?;
                Self::File(lines)
            }
            "journald" => {
                write(&folder.join("journal"), events, |number| {
                    let cursor = number + 1;
                    format!("{{\"MESSAGE\":\"#{number:010}#\",\"__CURSOR\":\"s={cursor}\"}}\n")
                })?;
                let script = folder.join("journalctl");
                fs::write(&script, JOURNALCTL)?;
                fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
                Self::Journal(folder)
            }
            "nats" => {
                write(&lines, events, line)?;
                let cluster = broker::nats(&folder.join("server"))?;
                let bare = stage.built.plugins.join("bare");
                let bare = Program::new(bare, "fill", &folder).argument("fill");
                fill(bare.arguments([address(&cluster)?, FROM]).argument(lines.display()))?;
                Self::Nats(cluster)
            }
            "kafka" => {
                write(&lines, events, line)?;
                let cluster = broker::kafka(&folder.join("broker"), &["num.partitions=1"])?;
                let kcat =
                    Program::new("kcat", "fill", &folder).arguments(["-b", address(&cluster)?]);
                let kcat = kcat.arguments([
                    "-P",
                    "-t",
                    FROM,
                    "-X",
                    "queue.buffering.max.messages=1000000",
                ]);
                fill(kcat.argument("-l").argument(lines.display()))?;
                Self::Kafka(cluster)
            }
            _ => Self::Http,
        })
    }

    /// Returns the source for a process. `name` is unique among all processes.
    pub(super) fn source(&self, name: &str) -> Result<Source> {
        let (mut codec, mut port) = ("string", None);
        let text = match self {
            Self::File(path) => format!(
                "{{ type: file, codec: string, preprocessors: [lines], config: {{ path: '{}', mode: read, \
                 follow: true, checkpoint: at }} }}",
                path.display()
            ),
            Self::Journal(folder) => {
                codec = "json";
                // The script reads the journal in its working folder, which is that of the process.
                format!(
                    "{{ type: journald, config: {{ command: '{}', checkpoint: at }} }}",
                    folder.join("journalctl").display()
                )
            }
            Self::Nats(cluster) => format!(
                "{{ type: nats_consumer, codec: string, config: {{ servers: ['{}'], stream: {FROM}, consumer: {name} }} }}",
                address(cluster)?
            ),
            Self::Kafka(cluster) => format!(
                "{{ type: kafka_consumer, codec: string, config: {{ brokers: ['{}'], topics: [{FROM}], group: {name}, \
                 start: earliest }} }}",
                address(cluster)?
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
    pub(super) fn prepare(&self, folder: &Path) -> Result<()> {
        let Self::Journal(journal) = self else { return Ok(()) };
        std::os::unix::fs::symlink(journal.join("journal"), folder.join("journal"))?;
        Ok(())
    }
}

fn address(cluster: &Cluster) -> Result<&str> {
    cluster.address("plain").context("the broker has no address")
}

/// Returns a line of [`LINE`] bytes.
fn line(number: u64) -> String {
    format!("{:.<1$}\n", format!("#{number:010}#"), LINE - 1)
}

fn write(path: &Path, events: u64, event: impl Fn(u64) -> String) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    (0..events).try_for_each(|number| file.write_all(event(number).as_bytes()))?;
    file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    Ok(())
}

/// Clients of an HTTP server, which send lines until they are ended.
#[derive(Default)]
pub(super) struct Clients {
    threads: Vec<JoinHandle<Result<u64>>>,
    has_ended: Arc<AtomicBool>,
}

impl Clients {
    /// Starts the clients of a source, if it has any.
    pub(super) fn start(source: &Source) -> Self {
        let (has_ended, next) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |port: u16| {
            let (has_ended, next) = (has_ended.clone(), next.clone());
            thread::spawn(move || send(port, &next, &has_ended))
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
fn send(port: u16, next: &AtomicU64, has_ended: &AtomicBool) -> Result<u64> {
    let mut connection =
        TcpStream::connect(("127.0.0.1", port)).context("cannot connect to the flow")?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let (mut lines, mut answer) = (0, Vec::new());
    while !has_ended.load(Ordering::Relaxed) {
        let first = next.fetch_add(LINES, Ordering::Relaxed);
        let body: String = (first..first + LINES).map(line).collect();
        let head =
            format!("POST / HTTP/1.1\r\nhost: flow\r\ncontent-length: {}\r\n\r\n", body.len());
        connection.write_all((head + &body).as_bytes())?;
        answer.clear();
        let end = loop {
            let mut buffer = [0; 1_024];
            let count = connection.read(&mut buffer).context("no answer to a request")?;
            ensure!(count > 0, "the flow has closed the connection of a client");
            answer.extend_from_slice(&buffer[..count]);
            if let Some(end) = end_of(&answer) {
                break end;
            }
        };
        ensure!(end == answer.len(), "more than one answer to a request");
        let text = String::from_utf8_lossy(&answer);
        ensure!(text.starts_with("HTTP/1.1 200"), "a request was not acknowledged: {text}");
        lines += LINES;
    }
    Ok(lines)
}

/// Returns the length of the first response in `bytes`; `None` if it is not complete.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let body =
        text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let end = head + body.unwrap_or(0);
    (bytes.len() >= end).then_some(end)
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
    fn response_ends_after_its_body() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(end_of(response), Some(response.len()));
        assert_eq!(end_of(&response[..response.len() - 1]), None);
        assert_eq!(end_of(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), Some(38));
    }
}
