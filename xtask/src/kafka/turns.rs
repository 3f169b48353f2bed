//! The ways from one topic to another.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::broker::Cluster;
use crate::built::Built;
use crate::project::{root, run};
use crate::running::processor_time;

/// How often is looked whether all records are there.
const LOOK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_mins(5);
/// As `kafka_producer` has it: acknowledgements of all replicas, numbered records.
const SETTINGS: [&str; 6] = [
    "-X",
    "enable.idempotence=true",
    "-X",
    "acks=all",
    "-X",
    "queue.buffering.max.messages=1000000",
];

/// A way from one topic to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// `kcat -C | kcat -P`.
    Kcat,
    /// A flow.
    Tremor,
}

/// One turn of a way.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) way: Way,
    /// The topic, with the number of the round.
    pub(super) to: String,
    pub(super) wall: Duration,
    pub(super) processor: Duration,
    /// Processor time of the broker meanwhile.
    pub(super) broker: Duration,
}

impl Sample {
    /// The number of the round.
    pub(super) fn round_of(&self) -> &str {
        self.to.rsplit('-').next().unwrap_or_default()
    }
}

/// A process whose time is known. Dropped, it is ended.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Way {
    pub(super) const ALL: [Self; 2] = [Self::Kcat, Self::Tremor];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kcat => "kcat",
            Self::Tremor => "tremor",
        }
    }

    /// All records from the topic `from` to another, until they are there.
    pub(super) fn turn(
        self,
        built: &Built,
        cluster: &Cluster,
        to: &str,
        records: u64,
        partitions: u16,
        folder: &Path,
    ) -> Result<Sample> {
        let broker = cluster.address("plain").context("the broker has an address")?;
        // It makes the topic, so that no turn waits for that.
        self::records(broker, to, partitions)?;
        let (before, start) = (cluster.processor_time()?, Instant::now());
        let mut processes = match self {
            Self::Kcat => pipe(broker, to, folder)?,
            Self::Tremor => vec![flow(built, broker, to, folder)?],
        };
        let mut processor = Duration::ZERO;
        let wall = loop {
            thread::sleep(LOOK);
            // Of a process that has ended nothing is known any more.
            let now =
                processes.iter().map(|it| processor_time(it.0.id())).sum::<Result<Duration>>();
            processor = processor.max(now.unwrap_or_default());
            // To ask takes a process, which takes time from those that are measured.
            let ended = processes.iter_mut().all(|it| matches!(it.0.try_wait(), Ok(Some(_))));
            if ended || start.elapsed() > Duration::from_secs(1) {
                if self::records(broker, to, partitions)? >= records {
                    break start.elapsed();
                }
                ensure!(!ended, "it has ended before all records were there");
                ensure!(start.elapsed() < PATIENCE, "not all records are there");
            }
        };
        let broker = cluster.processor_time()?.saturating_sub(before);
        Ok(Sample { way: self, to: to.to_owned(), wall, processor, broker })
    }
}

fn pipe(broker: &str, to: &str, folder: &Path) -> Result<Vec<Process>> {
    let mut reads = Command::new("kcat");
    reads.args(["-C", "-b", broker, "-t", "from", "-o", "beginning", "-e", "-q"]);
    reads.stdout(Stdio::piped());
    reads.stderr(File::create(folder.join("kcat-reads.log"))?);
    let mut reads = reads.spawn().context("cannot start kcat")?;
    let read = reads.stdout.take().context("it has an output")?;
    let mut writes = Command::new("kcat");
    writes.args(["-P", "-b", broker, "-t", to]).args(SETTINGS).stdin(read);
    writes.stderr(File::create(folder.join("kcat-writes.log"))?);
    let writes = writes.spawn();
    let reads = Process(reads);
    Ok(vec![reads, Process(writes.context("cannot start kcat")?)])
}

fn flow(built: &Built, broker: &str, to: &str, folder: &Path) -> Result<Process> {
    let mut command = Command::new(&built.tremor);
    command.arg("run").arg(root().join("bench/kafka/forward.yaml"));
    command.env("TREMOR_PLUGIN_PATH", &built.plugins);
    command.env("BROKER", broker).env("FROM", "from").env("TO", to);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(folder.join("tremor.log"))?);
    command.spawn().map(Process).context("cannot start tremor")
}

/// Writes the lines of a file to a topic.
pub(super) fn fill(broker: &str, topic: &str, lines: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new("kcat");
    command.args(["-P", "-b", broker, "-t", topic]).args(SETTINGS).arg("-l").arg(lines);
    command.stderr(File::create(folder.join("kcat-fills.log"))?);
    run(command)
}

/// How many records a topic has had. It is made if it is not there.
pub(super) fn records(broker: &str, topic: &str, partitions: u16) -> Result<u64> {
    let mut command = Command::new("kcat");
    command.args(["-Q", "-b", broker]);
    for partition in 0..partitions {
        command.args(["-t", &format!("{topic}:{partition}:-1")]);
    }
    let output = command.stdin(Stdio::null()).output().context("cannot start kcat")?;
    Ok(ends(&String::from_utf8_lossy(&output.stdout)))
}

/// The sum of the offsets in lines of `kcat -Q`: `topic [0] offset 7`.
fn ends(lines: &str) -> u64 {
    lines.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::ends;

    #[test]
    fn the_records_of_all_partitions_are_added_up() {
        assert_eq!(ends("t [0] offset 7\nt [1] offset 5\nt [2] offset -1001\n"), 12);
        assert_eq!(ends(""), 0);
    }
}
