//! The measurements of the parts.

use std::fmt::Display;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tremor_log::Inspection;

use super::{Arguments, Sample};
use crate::outage::peer::{Behaviour, Pace, Peer};
use crate::outage::received::{Form, Received};
use crate::poster::{Poster, address};
use crate::process::{Api, Process, Program};
use crate::project::empty_folder;
use crate::scenario::{PATIENCE, Stage, spread};

/// A file system in memory.
const MEMORY: &str = "/dev/shm";
/// Number of acknowledgements of a sample.
const ACKNOWLEDGEMENTS: usize = 200;
/// Bytes of a write of the loop: the least commit of a log.
const COMMIT: usize = 4_096;
/// Bytes of the file of the loop, which is written before, so that no write makes it longer.
const LOOP: u64 = 4 << 20;
/// Number of events in the file that is replayed.
const LINES: u64 = 10_000;

/// Writes the events that sources replay.
fn events(stage: &Stage<'_>, count: u64) -> Result<()> {
    let mut lines = Vec::new();
    sample_logs::write_lines(count, 42, &mut lines)?;
    fs::write(stage.folder.join("events.json"), lines).context("cannot write the events")
}

/// Measures the flow `passthrough-json` without a queue and with one in the memory of the machine, in events/s.
pub(super) fn throughput(arguments: &Arguments, stage: &Stage<'_>, round: u64) -> Result<Sample> {
    events(stage, LINES)?;
    let folder = tempfile::Builder::new().prefix("queue-").tempdir_in(MEMORY);
    let folder = folder.with_context(|| format!("the part needs a file system in {MEMORY}"))?;
    let queue =
        format!("queue: {{ disk: {{ path: '{}', max_bytes: 1GiB }} }}", folder.path().display());
    let measure = |queue: &str| {
        let values: [(_, &dyn Display); 2] = [("QUEUE", &queue), ("SECONDS", &arguments.seconds)];
        stage.flow("flow.yaml", include_str!("../flows/disk_queue_bench.yaml"), &values)?;
        stage.start("throughput", &["flow.yaml"])?.finish()?;
        let report =
            fs::read(stage.folder.join("report.json")).context("cannot read the report")?;
        let report: Value = serde_json::from_slice(&report)?;
        report["events_per_second"].as_f64().context("the report has no throughput")
    };
    let (other, queue) = (measure("")?, measure(&queue)?);
    Ok(Sample { round, queue, other, remark: String::new() })
}

/// Starts a flow to a peer that is down, with a queue on the disk of the target folder.
fn start_down(stage: &Stage<'_>, source: &str) -> Result<Process> {
    let values: [(_, &dyn Display); 2] = [("SOURCE", &source), ("PATH", &"queue")];
    stage.flow("flow.yaml", include_str!("../flows/disk_queue_down.yaml"), &values)?;
    stage.start(stage.part, &["--api", "127.0.0.1:0", "flow.yaml"])
}

/// Returns the number of events on disk, which is 0 until the flow has started.
fn stored(api: &Api) -> Result<u64> {
    let (status, flow) = api.ask("GET", "/v1/flows/flow")?;
    if status == 503 {
        return Ok(0);
    }
    let flow: Value = serde_json::from_str(&flow).with_context(|| format!("{status}: {flow}"))?;
    let components = flow["components"].as_array().map_or(&[][..], Vec::as_slice);
    let stored = components.iter().find_map(|it| it["stored"]["now"].as_u64());
    stored.with_context(|| format!("the flow has no queue: {flow}"))
}

/// Returns the sum of the values of a metric.
fn metric(api: &Api, name: &str) -> Result<f64> {
    let (_, text) = api.ask("GET", "/metrics")?;
    let values = text.lines().filter(|line| line.starts_with(name));
    Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Returns the number of records in a queue, and of their bytes.
fn records(queue: &Path) -> Result<(u64, u64)> {
    let mut inspection = Inspection::open(queue)?;
    let (mut count, mut bytes) = (0, 0);
    while let Some(segment) = inspection.next_segment() {
        for record in segment?.records {
            (count, bytes) = (count + 1, bytes + record.len);
        }
    }
    Ok((count, bytes))
}

/// Measures a flow that fills a queue, and the log alone with as many records of the same mean length, in MB/s.
#[allow(clippy::cast_precision_loss)] // fewer than 2^53 bytes
pub(super) fn commits(arguments: &Arguments, stage: &Stage<'_>, round: u64) -> Result<Sample> {
    events(stage, LINES)?;
    for folder in ["queue", "alone"] {
        empty_folder(&stage.folder.join(folder))?;
    }
    let iterations = arguments.events.div_ceil(LINES);
    let source = format!(
        "{{ type: bench, codec: json, config: {{ file: events.json, iterations: {iterations} }} }}"
    );
    let mut process = start_down(stage, &source)?;
    let api = process.api()?;
    let first =
        process.until("an event", PATIENCE, |_| Ok(Some(stored(&api)?).filter(|it| *it > 0)))?;
    let start = Instant::now();
    let all = iterations * LINES;
    process.until("all events", PATIENCE, |_| Ok((stored(&api)? >= all).then_some(())))?;
    let seconds = start.elapsed().as_secs_f64();
    let syncs = metric(&api, "tremor_stored_sync_seconds_count")?;
    process.stop(PATIENCE)?;
    let (count, bytes) = records(&stage.folder.join("queue"))?;
    // The first events were stored before the time was taken.
    let measured = bytes as f64 * (all - first) as f64 / all as f64;
    let alone = Program::new(stage.built.plugins.join("commits"), "alone", &stage.folder);
    let mut alone = alone
        .arguments(["alone".to_owned(), (bytes / count.max(1)).to_string(), count.to_string()])
        .start()?;
    alone.finish()?;
    let printed = alone.log()?;
    let mut words = printed.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(time)), Some(Ok(alone_syncs))) = (words.next(), words.next()) else {
        anyhow::bail!("the log alone has printed `{printed}`");
    };
    Ok(Sample {
        round,
        queue: measured / seconds / 1e6,
        other: bytes as f64 / time / 1e6,
        remark: format!("({count} records, {bytes} bytes, {syncs} and {alone_syncs} syncs)"),
    })
}

/// Measures the time from a request to its answer with `respond: delivered`, and that of a write and a sync, in
/// microseconds at p50.
pub(super) fn acknowledgement(_: &Arguments, stage: &Stage<'_>, round: u64) -> Result<Sample> {
    empty_folder(&stage.folder.join("queue"))?;
    let source =
        "{ type: http_server, codec: json, config: { listen: '127.0.0.1:0', respond: delivered } }";
    let mut process = start_down(stage, source)?;
    let (address, mut poster) = (address(&mut process)?, Poster::new(PATIENCE));
    let file =
        File::options().create(true).truncate(true).write(true).open(stage.folder.join("loop"))?;
    file.write_all_at(&vec![0; usize::try_from(LOOP)?], 0)?;
    file.sync_all()?;
    let (mut answers, mut writes) = (Vec::new(), Vec::new());
    let time =
        |times: &mut Vec<f64>, begun: Instant| times.push(begun.elapsed().as_secs_f64() * 1e6);
    for index in 0..ACKNOWLEDGEMENTS as u64 {
        let begun = Instant::now();
        ensure!(poster.send(&address, "{\"n\":1}")?, "the server refuses an event");
        time(&mut answers, begun);
        let begun = Instant::now();
        file.write_all_at(&[1; COMMIT], index * COMMIT as u64 % LOOP)?;
        file.sync_data()?;
        time(&mut writes, begun);
    }
    process.stop(PATIENCE)?;
    let [queue, other] = [answers, writes].map(|it| spread(it)[1]);
    Ok(Sample { round, queue, other, remark: String::new() })
}

/// Measures the time from the start of the process to the first event of a queue that was there, in milliseconds.
pub(super) fn start(arguments: &Arguments, stage: &Stage<'_>, round: u64) -> Result<Sample> {
    const PACE: Pace = Pace { usual: Duration::ZERO, slow: Duration::ZERO };
    let nothing = "{ type: file, codec: json, preprocessors: [lines], \
                   config: { path: nothing, mode: read, follow: true } }";
    if round == 0 {
        events(stage, LINES)?;
        stage.write("nothing", "")?;
        let iterations = arguments.events.div_ceil(LINES);
        let source = format!(
            "{{ type: bench, codec: json, config: {{ file: events.json, iterations: {iterations} }} }}"
        );
        let mut process = start_down(stage, &source)?;
        let (api, all) = (process.api()?, iterations * LINES);
        process.until("all events", PATIENCE, |_| Ok((stored(&api)? >= all).then_some(())))?;
        process.stop(PATIENCE)?;
    }
    let mut peer = Peer::new(&stage.folder.join("peer"), PACE, Received::new(Form::Lines, 1));
    peer.turn(Behaviour::Answers)?;
    let mut process = start_down(stage, nothing)?;
    let first = process.until("an event", PATIENCE, |_| Ok(peer.first()))?;
    let queue = (first - process.begun).as_secs_f64() * 1e3;
    process.kill()?;
    let (count, bytes) = records(&stage.folder.join("queue"))?;
    Ok(Sample {
        round,
        queue,
        other: 0.0,
        remark: format!("({count} records, {bytes} bytes remain)"),
    })
}
