//! The cases `kafka` and `nats`: messages of a broker through flows, in turn with programs that only copy or receive
//! them.
//!
//! Each turn starts a new broker with the same messages and settings. The measured time begins with the start of the
//! processes, and ends when the broker has all records or acknowledgements. The processor time of the processes and of
//! the broker is measured as well.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{path::Path, thread};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Bench, KCAT, NATS, NATS_JSON};
use crate::broker::{self, Cluster};
use crate::process::{Process, Program, exchange, wait};
use crate::project::text;
use crate::samples::{Figures, Samples};
use crate::scenario::PATIENCE;

/// Number of records for Kafka. A record is a generated log event of about 600 bytes.
const RECORDS: u64 = 1_000_000;
/// Number of messages for NATS. A message is a generated log event of about 600 bytes.
const MESSAGES: u64 = 300_000;
/// Number of partitions of a topic.
const PARTITIONS: u16 = 4;
/// Topic from which records are read.
const FROM: &str = "from";
/// Name of the topic to which records are written, and of the consumer of NATS.
const TO: &str = "to";
/// Name of the stream of NATS.
const STREAM: &str = "messages";
/// Settings of kcat that `kafka_producer` also uses: acknowledgements of all replicas, idempotence.
const SETTINGS: &str =
    "-X enable.idempotence=true -X acks=all -X queue.buffering.max.messages=1000000";
/// Time between two checks of the processes.
const CHECK: Duration = Duration::from_millis(50);
/// Time before the first check of a topic, because each check starts a process.
const FIRST_CHECK: Duration = Duration::from_secs(1);

/// Copies all records of a topic to another topic with `kcat -C | kcat -P`, or with a flow that decodes, filters and
/// encodes them.
pub(super) fn kafka(bench: &Bench<'_>, way: &'static str, _: &Samples) -> Result<Figures> {
    let lines = bench.stage.folder.join("lines.json");
    sample_logs::write_lines(RECORDS, 42, &mut File::create(&lines)?)?;
    // Records do not include the line feed of their line.
    let bytes = fs::metadata(&lines)?.len() - RECORDS;
    let folder = bench.stage.folder.join("kafka");
    let cluster = broker::kafka(&folder, &[&format!("num.partitions={PARTITIONS}")])?;
    let broker = cluster.address("plain").context("the broker has no address")?;
    let kcat = |log: &str, arguments: &[&str]| {
        let program = Program::new(KCAT, log, &bench.stage.folder);
        program.arguments(["-b", broker]).arguments(arguments)
    };
    let writes = |log: &str, to: &str| kcat(log, &["-P", "-t", to]).arguments(SETTINGS.split(' '));
    writes("kcat-fills", FROM).argument("-l").argument(lines.display()).start()?.finish()?;
    ensure!(records(broker, FROM)? == RECORDS, "the topic does not have all records");
    // Reading the number of records creates the topic, so that its creation is not measured.
    records(broker, TO)?;
    let (before, start) = (cluster.processor_time()?, Instant::now());
    let mut processes = if way == KCAT {
        let mut reads = kcat("kcat-reads", &["-C", "-t", FROM, "-o", "beginning", "-e", "-q"]);
        let mut reads = reads.spawn(Stdio::null(), Some(Stdio::piped()))?;
        let read = reads.child.stdout.take().context("the reading process has no output")?;
        vec![reads, writes("kcat-writes", TO).spawn(read.into(), None)?]
    } else {
        let flow = bench.program("bench/kafka/forward.yaml").variable("BROKER", broker);
        vec![flow.variable("FROM", FROM).variable("TO", TO).start()?]
    };
    let (wall, processor) = timed(&mut processes, |has_ended| {
        let is_time = has_ended || start.elapsed() > FIRST_CHECK;
        Ok(is_time && records(broker, TO)? >= RECORDS)
    })?;
    let broker = cluster.processor_time()?.saturating_sub(before);
    end(cluster, &folder, &lines)?;
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
    let (bytes, records) = (bytes as f64, RECORDS as f64);
    Ok(vec![
        ("MB/s", bytes / 1e6 / wall.as_secs_f64()),
        ("µs of processor time per record", processor.as_secs_f64() * 1e6 / records),
        ("µs of the broker's processor time per record", broker.as_secs_f64() * 1e6 / records),
    ])
}

/// Returns the number of records that were written to a topic. Creates the topic if it does not exist.
fn records(broker: &str, topic: &str) -> Result<u64> {
    let mut command = Command::new(KCAT);
    command.args(["-Q", "-b", broker]).stdin(Stdio::null());
    for partition in 0..PARTITIONS {
        command.args(["-t", &format!("{topic}:{partition}:-1")]);
    }
    Ok(ends(&text(&mut command)?))
}

/// Returns the sum of the offsets in the output of `kcat -Q`, whose lines have the form `topic [0] offset 7`.
fn ends(lines: &str) -> u64 {
    lines.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Receives all messages of a stream, and acknowledges each of them, until the server has all acknowledgements.
pub(super) fn nats(bench: &Bench<'_>, way: &'static str, _: &Samples) -> Result<Figures> {
    let lines = bench.stage.folder.join("lines.json");
    sample_logs::write_lines(MESSAGES, 42, &mut File::create(&lines)?)?;
    let folder = bench.stage.folder.join("nats");
    let cluster = broker::nats(&folder)?;
    let server = cluster.address("plain").context("the server has no address")?;
    let monitor = cluster.address("monitor").context("the server has no monitoring endpoint")?;
    let bare = |role: &str| {
        let program =
            Program::new(bench.stage.built.plugins.join("bare"), role, &bench.stage.folder);
        program.arguments([role, server, STREAM])
    };
    let flow = |file: &str| {
        let flow = bench.program(file).variable("SERVER", server);
        flow.variable("STREAM", STREAM).variable("NAME", TO)
    };
    bare("fill").argument(lines.display()).start()?.finish()?;
    let mut program = match way {
        NATS => flow("bench/nats/string.yaml"),
        NATS_JSON => flow("bench/nats/json.yaml"),
        _ => bare("consume").argument(TO).argument(MESSAGES),
    };
    let (wall, processor) =
        timed(&mut [program.start()?], |_| Ok(acknowledged(monitor, TO)? >= MESSAGES))?;
    end(cluster, &folder, &lines)?;
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
    let messages = MESSAGES as f64;
    Ok(vec![
        ("messages/s", messages / wall.as_secs_f64()),
        ("µs of processor time per message", processor.as_secs_f64() * 1e6 / messages),
    ])
}

/// Returns the number of the message up to which the server has all acknowledgements of a consumer, or 0.
fn acknowledged(monitor: &str, consumer: &str) -> Result<u64> {
    let request = "GET /jsz?accounts=true&streams=true&consumers=true HTTP/1.0\r\n\r\n";
    let (_, body) = exchange(monitor, request)?;
    Ok(floor(&serde_json::from_str(&body)?, consumer).unwrap_or(0))
}

/// Returns the acknowledgement floor of a consumer of the only stream in `/jsz`; `None` if there is no such consumer.
fn floor(answer: &Value, consumer: &str) -> Option<u64> {
    let stream = &answer["account_details"][0]["stream_detail"][0];
    let mut consumers = stream["consumer_detail"].as_array()?.iter();
    consumers.find(|it| it["name"] == consumer)?["ack_floor"]["stream_seq"].as_u64()
}

/// Waits until `is_all` returns `true`. The argument of `is_all` is `true` once all processes have ended. Returns the
/// time since the start of the processes, and their processor time.
fn timed(
    processes: &mut [Process],
    mut is_all: impl FnMut(bool) -> Result<bool>,
) -> Result<(Duration, Duration)> {
    let begun = processes[0].begun;
    let mut processor = Duration::ZERO;
    let wall = wait("all messages", PATIENCE, || {
        thread::sleep(CHECK);
        // The times of a process that has ended cannot be read, so the last known sum counts.
        let now = processes.iter().map(Process::processor_time).sum::<Result<Duration>>();
        processor = processor.max(now.unwrap_or_default());
        let mut has_ended = true;
        for process in processes.iter_mut() {
            let status = process.ended()?;
            ensure!(status.is_none_or(|it| it.success()), "a process failed: {status:?}");
            has_ended &= status.is_some();
        }
        Ok(is_all(has_ended)?.then(|| begun.elapsed()))
    })?;
    Ok((wall, processor))
}

/// Ends the broker, and removes its files, which are large.
fn end(cluster: Cluster, folder: &Path, lines: &Path) -> Result<()> {
    drop(cluster);
    fs::remove_file(lines)?;
    Ok(fs::remove_dir_all(folder)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_of_all_partitions_are_summed() {
        assert_eq!(ends("t [0] offset 7\nt [1] offset 5\nt [2] offset -1001\n"), 12);
        assert_eq!(ends(""), 0);
    }

    #[test]
    fn acknowledgement_floor_of_a_consumer_is_found() {
        let consumer =
            |name: &str, floor: u64| json!({ "name": name, "ack_floor": { "stream_seq": floor } });
        let streams = json!([{ "name": "messages", "consumer_detail": [consumer("a", 7), consumer("b", 5)] }]);
        let answer = json!({ "account_details": [{ "name": "$G", "stream_detail": streams }] });
        assert_eq!(floor(&answer, "b"), Some(5));
        assert_eq!(floor(&answer, "c"), None);
        assert_eq!(floor(&json!({}), "a"), None);
    }
}
