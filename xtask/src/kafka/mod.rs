//! `cargo xtask kafka`: records of one topic to another, by turns through `kcat -C | kcat -P`, which only moves
//! bytes, and through a flow that decodes, filters and encodes them.
//!
//! All have the same broker, records and settings: acknowledgements of all replicas, numbered records. The time
//! is that from the start of the processes to the last record in the topic. The processor time is that of the
//! processes, and, apart, that of the broker meanwhile.

mod turns;

use std::fs::{self, File};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::turns::{Sample, Way};
use crate::broker;
use crate::built;
use crate::running::{empty_folder, load, write};

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
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Where to write samples.csv, summary.txt and logs
    #[arg(long, default_value = "target/kafka", value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    broker::need("kcat", "-V", "`apt-get install kcat`")?;
    let folder = absolute(&arguments.output)?;
    empty_folder(&folder)?;
    let built = built::build_brokers(arguments.release, &folder.join("bin"))?;
    let lines = folder.join("records.jsonl");
    sample_logs::write_lines(arguments.records, 42, &mut File::create(&lines)?)?;
    let bytes = fs::metadata(&lines)?.len();
    // What was generated ends in a line feed, which no record has.
    let bytes = bytes - arguments.records;
    let partitions = format!("num.partitions={}", arguments.partitions);
    let broker = broker::kafka(&folder.join("broker"), &[&partitions])?;
    let address = broker.address("plain").context("the broker has an address")?;
    turns::fill(address, "from", &lines, &folder)?;
    ensure!(
        turns::records(address, "from", arguments.partitions)? == arguments.records,
        "the topic does not have all records"
    );
    let mut samples = Vec::new();
    for round in 0..arguments.rounds {
        for way in Way::ALL {
            let to = format!("{}-{round}", way.name());
            let sample = way
                .turn(&built, &broker, &to, arguments.records, arguments.partitions, &folder)
                .with_context(|| format!("{}: see {}", way.name(), folder.display()))?;
            eprintln!("{}", sentence(&sample, arguments.records, bytes));
            samples.push(sample);
        }
    }
    drop(broker);
    let summary = summary(&samples, arguments, bytes);
    eprint!("{summary}");
    write(&folder.join("samples.csv"), &table(&samples))?;
    write(&folder.join("summary.txt"), &summary)?;
    clean(&folder)
}

/// What takes much room, and says nothing.
fn clean(folder: &Path) -> Result<()> {
    fs::remove_file(folder.join("records.jsonl"))?;
    fs::remove_dir_all(folder.join("broker"))?;
    fs::remove_dir_all(folder.join("bin"))?;
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // some gigabytes
fn megabytes_a_second(sample: &Sample, bytes: u64) -> f64 {
    bytes as f64 / 1e6 / sample.wall.as_secs_f64()
}

#[allow(clippy::cast_precision_loss)] // some millions
fn microseconds_a_record(processor: Duration, records: u64) -> f64 {
    processor.as_secs_f64() * 1e6 / records as f64
}

fn sentence(sample: &Sample, records: u64, bytes: u64) -> String {
    format!(
        "round {}, {}: {:.1} MB/s, {:.2} µs of processor a record, {:.2} of the broker's; load {}",
        sample.round_of(),
        sample.way.name(),
        megabytes_a_second(sample, bytes),
        microseconds_a_record(sample.processor, records),
        microseconds_a_record(sample.broker, records),
        load()
    )
}

fn table(samples: &[Sample]) -> String {
    let header = "way,to,wall_seconds,processor_seconds,broker_seconds\n".to_owned();
    let row = |it: &Sample| {
        let [wall, processor, broker] =
            [it.wall, it.processor, it.broker].map(|it| it.as_secs_f64());
        format!("{},{},{wall:.3},{processor:.2},{broker:.2}\n", it.way.name(), it.to)
    };
    std::iter::once(header).chain(samples.iter().map(row)).collect()
}

fn summary(samples: &[Sample], arguments: &Arguments, bytes: u64) -> String {
    let median = |way: Way, of: &dyn Fn(&Sample) -> f64| {
        let mut all: Vec<_> = samples.iter().filter(|it| it.way == way).map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let speed = |it: &Sample| megabytes_a_second(it, bytes);
    let cost = |it: &Sample| microseconds_a_record(it.processor, arguments.records);
    let of_broker = |it: &Sample| microseconds_a_record(it.broker, arguments.records);
    let mut text = format!(
        "{} records, {} bytes, {} partitions; medians of {} rounds\n",
        arguments.records, bytes, arguments.partitions, arguments.rounds
    );
    let kcat = median(Way::Kcat, &speed);
    text.extend(Way::ALL.map(|way| {
        let (speed, cost) = (median(way, &speed), median(way, &cost));
        let of_broker = median(way, &of_broker);
        format!(
            "{:<8} {speed:>8.1} MB/s  {:>5.0} % of kcat  {cost:>6.2} µs of processor a record  \
             {of_broker:>6.2} of the broker's\n",
            way.name(),
            speed / kcat * 100.0
        )
    }));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_compares_medians_with_kcat() {
        let sample = |way, seconds| Sample {
            way,
            to: "t-0".to_owned(),
            wall: Duration::from_secs(seconds),
            processor: Duration::from_secs(1),
            broker: Duration::from_secs(2),
        };
        let samples = [(Way::Kcat, 2), (Way::Kcat, 9), (Way::Kcat, 1), (Way::Tremor, 4)]
            .map(|(way, s)| sample(way, s));
        let arguments = Arguments {
            rounds: 3,
            records: 1_000_000,
            partitions: 4,
            release: true,
            output: PathBuf::new(),
        };
        let summary = summary(&samples, &arguments, 600_000_000);
        let lines: Vec<_> = summary.lines().collect();
        assert_eq!(
            lines[1],
            "kcat        300.0 MB/s    100 % of kcat    1.00 µs of processor a record    2.00 of the broker's"
        );
        assert_eq!(
            lines[2],
            "tremor      150.0 MB/s     50 % of kcat    1.00 µs of processor a record    2.00 of the broker's"
        );
    }
}
