//! `cargo xtask vanishing`: while the peer of the sink is down, log files are rotated as by logrotate with `rotate 1`,
//! and files of pods come and go. Then the peer is up, and has to receive the lines of all files that existed for long
//! enough to be found.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::process::{Process, need};
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage};

/// Time between two lines of a file.
const LINE: Duration = Duration::from_millis(20);
/// Time between two rotations.
const ROTATION: Duration = Duration::from_secs(4);
/// Number of pods.
const PODS: usize = 200;
/// Shortest life of a pod.
const SHORTEST: Duration = Duration::from_millis(500);
/// Longest life of a pod.
const LONGEST: Duration = Duration::from_secs(5);
/// Life from which the file of a pod must have been found: the source searches once a second, and may be late.
const FOUND: Duration = Duration::from_millis(1_500);
/// Life from which the file of a pod must have been found on a busy machine.
const BUSY_FOUND: Duration = Duration::from_millis(3_500);
/// Time without a line after which the peer has received all lines.
const SILENCE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Time for which the peer is down, in seconds
    #[arg(long, default_value_t = 60, value_name = "S")]
    seconds: u64,
    /// Relax the limits for a machine that is busy with other work
    #[arg(long)]
    busy: bool,
}

/// Lines of one file, and the time for which it existed.
struct Written {
    lines: Vec<String>,
    life: Duration,
}

/// Figures of a part.
pub(crate) struct Found {
    /// Numbers of lines of files that had to be found, and of those that the peer has not received.
    owed: usize,
    lost: usize,
    /// Numbers of lines of files that existed for a shorter time, and of those that the peer has not received.
    brief: usize,
    missed: usize,
    /// Number of lines that the peer has received again.
    again: usize,
    /// Losses in the log of the process.
    reports: Vec<String>,
}

impl Scenario for Arguments {
    const NAME: &'static str = "vanishing";
    const PLUGINS: &'static [&'static str] = &["connector-file", "connector-socket"];
    const PARTS: &'static [&'static str] = &["create", "copytruncate", "compress", "pods"];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let pattern = if stage.part == "pods" { "logs/*/*.log" } else { "logs/*.log*" };
        let values: [(_, &dyn std::fmt::Display); 2] = [("PATH", &pattern), ("ADDRESS", &address)];
        stage.flow("vanishing.yaml", include_str!("flows/vanishing.yaml"), &values)?;
        let logs = stage.folder.join("logs");
        fs::create_dir(&logs)?;
        let mut process = stage.start("tremor", &["vanishing.yaml"])?;
        process.until("an attempt to connect", PATIENCE, |process| {
            Ok(process.log()?.contains("refused").then_some(()))
        })?;
        let outage = Duration::from_secs(self.seconds);
        let written = match stage.part {
            "pods" => pods(&logs, outage)?,
            rotation => vec![rotated(&logs, rotation, outage)?],
        };
        process.expect_alive()?;
        let received = received(address)?;
        self.compare(&written, &received, &mut process)
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let Found { owed, lost, brief, missed, again, reports } = found;
        let mut judgement = Judgement::default();
        judgement.add(
            "lost",
            format!("{lost} of {owed} lines, 0 allowed"),
            *lost == 0 && *owed > 0,
        );
        let text = format!(
            "{missed} of {brief} lines of files that existed for less than {:?}",
            self.found()
        );
        judgement.add("missed", text, true);
        judgement.add(
            "again",
            format!("{again} lines were received again, 0 allowed"),
            *again == 0,
        );
        judgement.add(
            "reported",
            format!("{} losses: {}", reports.len(), reports.join("; ")),
            true,
        );
        Ok(judgement)
    }
}

impl Arguments {
    /// Returns the time of existence after which a file must have been found.
    fn found(&self) -> Duration {
        if self.busy { BUSY_FOUND } else { FOUND }
    }

    fn compare(
        &self,
        written: &[Written],
        received: &[String],
        process: &mut Process,
    ) -> Result<Found> {
        let unique: HashSet<&str> = received.iter().map(String::as_str).collect();
        let missing =
            |lines: &[String]| lines.iter().filter(|line| !unique.contains(line.as_str())).count();
        let mut found =
            Found { owed: 0, lost: 0, brief: 0, missed: 0, again: 0, reports: Vec::new() };
        for Written { lines, life } in written {
            let (all, without) = if *life >= self.found() {
                (&mut found.owed, &mut found.lost)
            } else {
                (&mut found.brief, &mut found.missed)
            };
            *all += lines.len();
            *without += missing(lines);
        }
        found.again = received.len() - unique.len();
        let log = process.stop(PATIENCE)?;
        found.reports =
            log.lines().filter(|it| it.contains("are lost:")).map(str::to_owned).collect();
        Ok(found)
    }
}

/// Writes a log and rotates it, until `outage` is over.
fn rotated(logs: &Path, rotation: &str, outage: Duration) -> Result<Written> {
    need("gzip", "the package gzip")?;
    let (path, old) = (logs.join("app.log"), logs.join("app.log.1"));
    let open = || File::options().create(true).append(true).open(&path);
    let (mut file, mut lines) = (open()?, Vec::new());
    let start = Instant::now();
    let mut rotate_at = start + ROTATION;
    while start.elapsed() < outage {
        let line = format!("{rotation} line {}", lines.len());
        writeln!(file, "{line}")?;
        lines.push(line);
        if Instant::now() >= rotate_at {
            rotate_at += ROTATION;
            if rotation == "copytruncate" {
                // The copy is a new file, as logrotate makes it.
                fs::remove_file(&old).or_else(ignore_missing)?;
                fs::copy(&path, &old)?;
                file.set_len(0)?;
            } else {
                fs::rename(&path, &old)?;
                file = open()?;
            }
            if rotation == "compress" {
                ensure!(
                    Command::new("gzip").arg("--force").arg(&old).status()?.success(),
                    "gzip failed"
                );
            }
        }
        thread::sleep(LINE);
    }
    Ok(Written { lines, life: outage })
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// A pod whose file exists.
struct Pod {
    folder: PathBuf,
    file: File,
    born: Instant,
    dies: Instant,
    lines: Vec<String>,
}

/// Creates pods in equal intervals, writes to the file of each, and deletes each at the end of its life.
fn pods(logs: &Path, outage: Duration) -> Result<Vec<Written>> {
    let start = Instant::now();
    let pods = u32::try_from(PODS)?;
    let pause = outage.saturating_sub(LONGEST) / pods;
    let (mut alive, mut written) = (Vec::<Pod>::new(), Vec::new());
    let mut number = 0;
    while number < pods || !alive.is_empty() {
        let now = Instant::now();
        if number < pods && now >= start + pause * number {
            let folder = logs.join(format!("pod-{number}"));
            fs::create_dir(&folder)?;
            let file = File::create(folder.join("0.log"))?;
            // Lives of all lengths occur in each part of the outage.
            let share = f64::from(number * 37 % pods) / f64::from(pods);
            let dies = now + SHORTEST + LONGEST.saturating_sub(SHORTEST).mul_f64(share);
            alive.push(Pod { folder, file, born: now, dies, lines: Vec::new() });
            number += 1;
        }
        for pod in &mut alive {
            let line = format!("{} line {}", pod.folder.display(), pod.lines.len());
            writeln!(pod.file, "{line}")?;
            pod.lines.push(line);
        }
        for pod in alive.extract_if(.., |pod| pod.dies <= now) {
            let life = pod.born.elapsed();
            fs::remove_dir_all(&pod.folder)?;
            written.push(Written { lines: pod.lines, life });
        }
        thread::sleep(LINE);
    }
    Ok(written)
}

/// Starts the peer, and returns the lines that it receives until none arrives for [`SILENCE`].
fn received(address: SocketAddr) -> Result<Vec<String>> {
    let (peer, _) = TcpListener::bind(address).context("the peer cannot start")?.accept()?;
    peer.set_read_timeout(Some(SILENCE))?;
    let mut lines = Vec::new();
    for line in BufReader::new(peer).lines() {
        match line {
            Ok(line) => lines.push(line),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(change: fn(&mut Found)) -> usize {
        let mut found =
            Found { owed: 9, lost: 0, brief: 2, missed: 1, again: 0, reports: Vec::new() };
        change(&mut found);
        let arguments = Arguments { seconds: 60, busy: false };
        arguments.judge(&found).expect("there is no table").broken
    }

    #[test]
    fn each_guarantee_is_broken_by_its_own_fault() {
        for (name, change, expected) in [
            ("nothing", (|_| {}) as fn(&mut Found), 0),
            ("a lost line", |found| found.lost = 1, 1),
            ("no line at all", |found| found.owed = 0, 1),
            ("a line that is received again", |found| found.again = 1, 1),
            ("a file that could not be found", |found| found.missed = 2, 0),
        ] {
            assert_eq!(broken(change), expected, "{name}");
        }
    }
}
