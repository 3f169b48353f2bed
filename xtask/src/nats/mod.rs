//! `cargo xtask nats`: messages of a stream of NATS, by turns through a bare consumer on `nats.go`, which
//! acknowledges each and does nothing else, and through flows.
//!
//! All have the same server, messages and settings, and acknowledge each message by itself. The time is that from
//! the start of the process until the server has all acknowledgements. The processor time is that of the process,
//! without the server's.

mod turns;

use std::fs::{self, File};
use std::path::{PathBuf, absolute};

use anyhow::{Context, Result};

use self::turns::{Bare, Sample, Way};
use crate::broker;
use crate::built;
use crate::running::{empty_folder, load, write};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each way has its turn
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// How many messages there are, generated log events of some 600 bytes
    #[arg(long, default_value_t = 300_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Where to write samples.csv, summary.txt and logs
    #[arg(long, default_value = "target/nats", value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    broker::need("go", "version", "`apt-get install golang`")?;
    let folder = absolute(&arguments.output)?;
    empty_folder(&folder)?;
    let bin = folder.join("bin");
    let built =
        built::build_broker("connector-nats", &["connector-null"], arguments.release, &bin)?;
    let bare = Bare::build(&bin)?;
    let lines = folder.join("messages.jsonl");
    sample_logs::write_lines(arguments.messages, 42, &mut File::create(&lines)?)?;
    let server = broker::nats(&folder.join("server"))?;
    let address = server.address("plain").context("the server has an address")?;
    let monitor = server.address("monitor").context("the server says how it is")?;
    bare.fill(address, &lines)?;
    let mut samples = Vec::new();
    for round in 0..arguments.rounds {
        for way in Way::ALL {
            let sample = way
                .turn(&built, &bare, address, monitor, round, arguments.messages, &folder)
                .with_context(|| format!("{}: see {}", way.name(), folder.display()))?;
            eprintln!("{}", sentence(&sample, arguments.messages));
            samples.push(sample);
        }
    }
    drop(server);
    let summary = summary(&samples, arguments);
    eprint!("{summary}");
    write(&folder.join("samples.csv"), &table(&samples))?;
    write(&folder.join("summary.txt"), &summary)?;
    // What takes much room, and says nothing.
    fs::remove_file(&lines)?;
    fs::remove_dir_all(folder.join("server"))?;
    fs::remove_dir_all(bin)?;
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // some millions
fn messages_a_second(sample: &Sample, messages: u64) -> f64 {
    messages as f64 / sample.wall.as_secs_f64()
}

#[allow(clippy::cast_precision_loss)] // some millions
fn microseconds_a_message(sample: &Sample, messages: u64) -> f64 {
    sample.processor.as_secs_f64() * 1e6 / messages as f64
}

fn sentence(sample: &Sample, messages: u64) -> String {
    format!(
        "round {}, {}: {:.0} messages/s, {:.2} µs of processor a message; load {}",
        sample.round,
        sample.way.name(),
        messages_a_second(sample, messages),
        microseconds_a_message(sample, messages),
        load()
    )
}

fn table(samples: &[Sample]) -> String {
    let header = "way,round,wall_seconds,processor_seconds\n".to_owned();
    let row = |it: &Sample| {
        let (wall, processor) = (it.wall.as_secs_f64(), it.processor.as_secs_f64());
        format!("{},{},{wall:.3},{processor:.2}\n", it.way.name(), it.round)
    };
    std::iter::once(header).chain(samples.iter().map(row)).collect()
}

fn summary(samples: &[Sample], arguments: &Arguments) -> String {
    let median = |way: Way, of: &dyn Fn(&Sample) -> f64| {
        let mut all: Vec<_> = samples.iter().filter(|it| it.way == way).map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let speed = |it: &Sample| messages_a_second(it, arguments.messages);
    let cost = |it: &Sample| microseconds_a_message(it, arguments.messages);
    let mut text =
        format!("{} messages; medians of {} rounds\n", arguments.messages, arguments.rounds);
    let bare = median(Way::Bare, &speed);
    text.extend(Way::ALL.map(|way| {
        let (speed, cost) = (median(way, &speed), median(way, &cost));
        format!(
            "{:<12} {speed:>8.0} messages/s  {:>5.0} % of nats.go  {cost:>6.2} µs of processor a message\n",
            way.name(),
            speed / bare * 100.0
        )
    }));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_summary_compares_medians_with_the_bare_consumer() {
        let sample = |way, seconds| Sample {
            way,
            round: 0,
            wall: Duration::from_secs(seconds),
            processor: Duration::from_secs(1),
        };
        let samples =
            [(Way::Bare, 2), (Way::Bare, 9), (Way::Bare, 1), (Way::Text, 4), (Way::Json, 8)]
                .map(|(way, seconds)| sample(way, seconds));
        let output = PathBuf::new();
        let arguments = Arguments { rounds: 3, messages: 1_000_000, release: true, output };
        let summary = summary(&samples, &arguments);
        let lines: Vec<_> = summary.lines().collect();
        let expected = [
            "1000000 messages; medians of 3 rounds",
            "nats.go        500000 messages/s    100 % of nats.go    1.00 µs of processor a message",
            "tremor         250000 messages/s     50 % of nats.go    1.00 µs of processor a message",
            "tremor-json    125000 messages/s     25 % of nats.go    1.00 µs of processor a message",
        ];
        assert_eq!(lines, expected);
    }
}
