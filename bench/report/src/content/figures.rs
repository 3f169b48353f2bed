//! Absolute figures, flow by flow.

use anyhow::Result;

use crate::analysis::Flow;
use crate::document::{Block, Cell, Figure, Table};
use crate::experiment::Experiment;
use crate::format::{three_digits, whole, with_interval};
use crate::histogram::Histogram;
use crate::plots;
use crate::sample::{Latency, Sample};
use crate::statistics::{geometric_mean, median};

pub(super) fn blocks(experiment: &Experiment, flows: &[Flow<'_>]) -> Result<Vec<Block>> {
    let mut blocks = vec![Block::Heading(2, "Figures".to_owned())];
    for flow in flows {
        blocks.push(Block::Heading(3, flow.name.to_owned()));
        blocks.push(throughput(experiment, flow));
        let title = format!(
            "`{}`: throughput; mean with its 95 % confidence interval, and each round from top to bottom.",
            flow.name
        );
        let svg = plots::throughput(&title, flow)?;
        blocks.push(figure(flow, "throughput", title, svg));
        blocks.extend(latencies(experiment, flow));
        blocks.extend(distributions(experiment, flow)?);
        let title =
            format!("`{}`: throughput from round to round, in events per second.", flow.name);
        let svg = plots::rounds(&title, flow)?;
        blocks.push(figure(flow, "rounds", title, svg));
    }
    Ok(blocks)
}

fn figure(flow: &Flow<'_>, kind: &str, title: String, svg: String) -> Block {
    Block::Figure(Figure { name: format!("{}-{kind}", flow.name), title, svg })
}

fn throughput(experiment: &Experiment, flow: &Flow<'_>) -> Block {
    let headings = ["subject", "events/s", "MB/s", "CPU, ns/event", "rounds"];
    let rows = flow.subjects.iter().map(|subject| {
        let samples = experiment.samples(flow.name, subject.name);
        // As that of the events, or the figures of a row would not fit together.
        let mean = |of: fn(&Sample) -> Option<f64>| {
            let values: Vec<_> = samples.iter().filter_map(|(_, sample)| of(sample)).collect();
            geometric_mean(&values).map(|interval| interval.estimate)
        };
        let megabytes = mean(|sample| sample.bytes_per_second).map(|bytes| bytes / 1e6);
        let cpu = mean(|sample| sample.cpu_ns_per_event);
        let events = subject.throughput.map(|interval| with_interval(interval, whole));
        let rounds = subject.throughputs.len().to_string();
        let texts = [events, megabytes.map(three_digits), cpu.map(three_digits), Some(rounds)];
        row(subject.name, texts)
    });
    let rows = rows.collect();
    Block::Table(Table { headings: headings.map(str::to_owned).into(), rows, is_text: false })
}

/// Medians of the rounds.
fn latencies(experiment: &Experiment, flow: &Flow<'_>) -> Vec<Block> {
    let of: [fn(&Latency) -> Option<f64>; 5] =
        [|l| l.p50, |l| l.p90, |l| l.p99, |l| l.p999, |l| l.max];
    let values = |subject: &str, of: fn(&Latency) -> Option<f64>| -> Vec<f64> {
        let samples = experiment.samples(flow.name, subject);
        samples.iter().filter_map(|(_, sample)| of(sample.latency_ns.as_ref()?)).collect()
    };
    if flow.subjects.iter().all(|subject| values(subject.name, |l| l.p99).is_empty()) {
        return Vec::new();
    }
    let rows = flow.subjects.iter().map(|subject| {
        let cells = of.map(|of| {
            let median = median(&values(subject.name, of))?;
            let microseconds = median.scaled(1e-3);
            Some(with_interval(microseconds, three_digits))
        });
        row(subject.name, cells)
    });
    let headings = ["subject", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned).into();
    vec![
        Block::Paragraph(
            "Latency in µs: the median of the rounds, and the smallest and largest of them."
                .to_owned(),
        ),
        Block::Table(Table { headings, rows: rows.collect(), is_text: false }),
    ]
}

fn row<const N: usize>(name: &str, texts: [Option<String>; N]) -> Vec<Cell> {
    let cells = texts.into_iter().map(|text| Cell::plain(text.unwrap_or_else(|| "–".to_owned())));
    std::iter::once(Cell::plain(name)).chain(cells).collect()
}

/// The distributions of all rounds together, of subjects that wrote them.
fn distributions(experiment: &Experiment, flow: &Flow<'_>) -> Result<Option<Block>> {
    let mut subjects = Vec::new();
    for (index, subject) in flow.subjects.iter().enumerate() {
        let files = experiment
            .samples(flow.name, subject.name)
            .into_iter()
            .map(|(run, _)| experiment.folder.join(format!("samples/{}.hgrm", run.name)));
        let rounds: Result<Vec<_>> =
            files.filter(|file| file.exists()).map(|file| Histogram::read(&file)).collect();
        let all = Histogram::merge(rounds?);
        if !all.is_empty() {
            subjects.push((index, subject.name, all));
        }
    }
    if subjects.is_empty() {
        return Ok(None);
    }
    let title = format!("`{}`: latency by percentile, all rounds together.", flow.name);
    let svg = plots::latency(&title, &subjects)?;
    Ok(Some(figure(flow, "latency", title, svg)))
}
