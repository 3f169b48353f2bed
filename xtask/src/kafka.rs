//! `cargo xtask kafka`: records of one topic to another, by turns through `kcat -C | kcat -P`, which only moves
//! bytes, and through a flow that decodes, filters and encodes them.
//!
//! Both have the same broker, records and settings: acknowledgements of all replicas, numbered records. The time is
//! that from the start of the processes to the last record in the topic. The processor time is that of the
//! processes, and, apart, that of the broker meanwhile.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::broker::{self, Cluster};
use crate::built::{self, Built};
use crate::process::{Process, Program, need, wait};
use crate::project::root;
use crate::samples::{Figures, Samples};
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage};

/// The ways from one topic to another.
const KCAT: &str = "kcat";
const TREMOR: &str = "tremor";
/// The topic with all records.
const FROM: &str = "from";
const SPEED: &str = "MB/s";
/// Time between two looks at the processes.
const LOOK: Duration = Duration::from_millis(100);
/// As `kafka_producer` has it: acknowledgements of all replicas, numbered records.
const SETTINGS: &str =
    "-X enable.idempotence=true -X acks=all -X queue.buffering.max.messages=1000000";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each way has its turn
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// How many records there are, generated log events of some 600 bytes
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// How many partitions each topic has
    #[arg(long, default_value_t = 4, value_name = "N")]
    partitions: u16,
}

impl Scenario for Arguments {
    const NAME: &'static str = "kafka";
    type Found = Samples;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        need("kcat", "-V", "`apt-get install kcat`")?;
        built::build_broker("connector-kafka", &[], release, to)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Samples> {
        let lines = stage.folder.join("records.jsonl");
        sample_logs::write_lines(self.records, 42, &mut File::create(&lines)?)?;
        // A line ends in a line feed, which no record has.
        let bytes = fs::metadata(&lines)?.len() - self.records;
        let partitions = format!("num.partitions={}", self.partitions);
        let cluster = broker::kafka(&stage.folder.join("broker"), &[&partitions])?;
        let broker = cluster.address("plain").context("the broker has an address")?;
        let bench = Bench { arguments: self, stage, cluster: &cluster, broker, bytes };
        let fill = bench.kcat("kcat-fills", &["-P", "-t", FROM]).arguments(SETTINGS.split(' '));
        fill.argument("-l").argument(lines.display()).start()?.finish()?;
        ensure!(bench.records(FROM)? == self.records, "the topic does not have all records");
        let mut samples = Samples::default();
        samples.by_turns("kafka", self.rounds, &[KCAT, TREMOR], |_, round, way| {
            bench.turn(way, &format!("{way}-{round}"))
        })?;
        drop(cluster);
        // These files are large, and show nothing.
        fs::remove_file(lines)?;
        fs::remove_dir_all(stage.folder.join("broker"))?;
        fs::remove_dir_all(&stage.built.plugins)?;
        Ok(samples)
    }

    fn judge(&self, samples: &Samples) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        let (records, partitions) = (self.records, self.partitions);
        let what = format!("{records} records, {partitions} partitions; {} rounds", self.rounds);
        samples.show(&mut judgement, "kafka", &what);
        samples.compare(&mut judgement, "kafka", SPEED, KCAT);
        samples.keep(&mut judgement)?;
        Ok(judgement)
    }
}

/// A broker with all records in the topic `from`.
struct Bench<'a> {
    arguments: &'a Arguments,
    stage: &'a Stage<'a>,
    cluster: &'a Cluster,
    broker: &'a str,
    /// Size of all records.
    bytes: u64,
}

impl Bench<'_> {
    fn kcat(&self, log: &str, arguments: &[&str]) -> Program {
        let program = Program::new("kcat", log, &self.stage.folder);
        program.arguments(["-b", self.broker]).arguments(arguments)
    }

    /// Moves all records to another topic, until they are there.
    fn turn(&self, way: &str, to: &str) -> Result<Figures> {
        // This makes the topic, so that no turn waits for that.
        self.records(to)?;
        let (before, start) = (self.cluster.processor_time()?, Instant::now());
        let mut processes = if way == KCAT { self.pipe(to)? } else { vec![self.flow(to)?] };
        let mut processor = Duration::ZERO;
        let wall = wait("all records in the topic", PATIENCE, || {
            thread::sleep(LOOK);
            // A process that has ended has no times.
            let now = processes.iter().map(Process::processor_time).sum::<Result<Duration>>();
            processor = processor.max(now.unwrap_or_default());
            let has_ended = processes.iter_mut().all(|it| matches!(it.ended(), Ok(Some(_))));
            // To ask takes a process, which takes time from those that are measured.
            if !has_ended && start.elapsed() <= Duration::from_secs(1) {
                return Ok(None);
            }
            let is_all = self.records(to)? >= self.arguments.records;
            ensure!(is_all || !has_ended, "it has ended before all records were there");
            Ok(is_all.then(|| start.elapsed()))
        })?;
        let broker = self.cluster.processor_time()?.saturating_sub(before);
        #[allow(clippy::cast_precision_loss)] // some gigabytes
        let (bytes, records) = (self.bytes as f64, self.arguments.records as f64);
        Ok(vec![
            (SPEED, bytes / 1e6 / wall.as_secs_f64()),
            ("µs of processor a record", processor.as_secs_f64() * 1e6 / records),
            ("µs of the broker's", broker.as_secs_f64() * 1e6 / records),
        ])
    }

    fn pipe(&self, to: &str) -> Result<Vec<Process>> {
        let reads = ["-C", "-t", FROM, "-o", "beginning", "-e", "-q"];
        let mut reads =
            self.kcat("kcat-reads", &reads).spawn(Stdio::null(), Some(Stdio::piped()))?;
        let read = reads.child.stdout.take().context("it has an output")?;
        let mut writes = self.kcat("kcat-writes", &["-P", "-t", to]).arguments(SETTINGS.split(' '));
        let writes = writes.spawn(read.into(), None)?;
        Ok(vec![reads, writes])
    }

    fn flow(&self, to: &str) -> Result<Process> {
        let program = Program::tremor(self.stage.built, TREMOR, &self.stage.folder);
        let program = program.argument(root().join("bench/kafka/forward.yaml").display());
        let program = program.variable("BROKER", self.broker);
        program.variable("FROM", FROM).variable("TO", to).start()
    }

    /// Returns how many records a topic has had, and makes it if it is not there.
    fn records(&self, topic: &str) -> Result<u64> {
        let mut command = Command::new("kcat");
        command.args(["-Q", "-b", self.broker]);
        for partition in 0..self.arguments.partitions {
            command.args(["-t", &format!("{topic}:{partition}:-1")]);
        }
        let output = command.stdin(Stdio::null()).output().context("cannot start kcat")?;
        Ok(ends(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// Returns the sum of the offsets in lines of `kcat -Q`: `topic [0] offset 7`.
fn ends(lines: &str) -> u64 {
    lines.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::ends;

    #[test]
    fn records_of_all_partitions_are_added_up() {
        assert_eq!(ends("t [0] offset 7\nt [1] offset 5\nt [2] offset -1001\n"), 12);
        assert_eq!(ends(""), 0);
    }
}
