//! A tool of `scripts/boundary.sh`: collects the samples of a criterion run, one line per benchmark, and creates tables
//! of them.
//!
//! ```text
//! criterion_samples collect CRITERION_FOLDER EXPERIMENT ROUND    lines of JSON to stdout
//! criterion_samples tables FILE                                  Markdown to stdout
//! ```
//!
//! A line is `{"experiment": …, "round": …, "id": "GROUP/SUBJECT", "ns": […]}`, with samples in ns per event.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::{Write, stdout},
    path::Path,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The samples of one benchmark in one round.
#[derive(Serialize, Deserialize)]
struct Line {
    experiment: String,
    round: u32,
    id: String,
    ns: Vec<f64>,
}

/// The file in which criterion describes a benchmark.
#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
    throughput: Option<Throughput>,
}

#[derive(Deserialize)]
enum Throughput {
    Elements(u32),
}

/// The file with the samples of a benchmark: numbers of iterations, and their times in ns.
#[derive(Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["collect", folder, experiment, round] => {
            let round = round.parse()?;
            let mut lines = Vec::new();
            collect(Path::new(folder), experiment, round, &mut lines)?;
            lines.sort_by(|a, b| a.id.cmp(&b.id));
            let mut out = stdout().lock();
            for line in lines {
                writeln!(out, "{}", serde_json::to_string(&line)?)?;
            }
            Ok(())
        }
        ["tables", file] => {
            let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            let lines = text.lines().map(serde_json::from_str);
            tables(lines.collect::<serde_json::Result<Vec<Line>>>()?, &mut stdout().lock())
        }
        _ => Err("expected `collect CRITERION_FOLDER EXPERIMENT ROUND` or `tables FILE`".into()),
    }
}

/// Adds the samples of all benchmarks in a folder and its subfolders to `lines`.
fn collect(folder: &Path, experiment: &str, round: u32, lines: &mut Vec<Line>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        if path.ends_with("new") {
            lines.push(line(&path, experiment, round)?);
        } else if path.is_dir() {
            collect(&path, experiment, round, lines)?;
        }
    }
    Ok(())
}

fn line(folder: &Path, experiment: &str, round: u32) -> Result<Line> {
    let benchmark: Benchmark = read(&folder.join("benchmark.json"))?;
    let sample: Sample = read(&folder.join("sample.json"))?;
    let events = match benchmark.throughput {
        Some(Throughput::Elements(events)) => f64::from(events),
        None => 1.0,
    };
    let ns = sample.times.iter().zip(&sample.iters).map(|(took, iterations)| {
        // The time per event is rounded to 1 ps. Whole ns would be too coarse, because a batch has many events.
        (took / iterations / events * 1000.0).round() / 1000.0
    });
    let id = benchmark.full_id;
    Ok(Line { experiment: experiment.to_owned(), round, id, ns: ns.collect() })
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let parsed = fs::read(path).map_err(Box::<dyn Error>::from);
    let parsed = parsed.and_then(|text| Ok(serde_json::from_slice(&text)?));
    parsed.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The samples of one benchmark, with a list for each round.
type Rounds = Vec<Vec<f64>>;

/// Writes a table for each experiment with its groups, in which the fastest subject comes first.
fn tables(lines: Vec<Line>, out: &mut impl Write) -> Result<()> {
    let mut experiments: BTreeMap<String, BTreeMap<String, Vec<(String, Rounds)>>> =
        BTreeMap::new();
    for line in lines {
        let (group, subject) = line.id.rsplit_once('/').unwrap_or(("", &line.id));
        let groups = experiments.entry(line.experiment).or_default();
        let subjects = groups.entry(group.to_owned()).or_default();
        match subjects.iter_mut().find(|(known, _)| known == subject) {
            Some((_, rounds)) => rounds.push(line.ns),
            None => subjects.push((subject.to_owned(), vec![line.ns])),
        }
    }
    for (experiment, groups) in experiments {
        writeln!(out, "\n## {experiment}\n")?;
        writeln!(out, "| | subject | median, ns per event | medians of the rounds | fastest |")?;
        writeln!(out, "|---|---|--:|--:|--:|")?;
        for (group, mut subjects) in groups {
            subjects.sort_by(|(_, a), (_, b)| median(&a.concat()).total_cmp(&median(&b.concat())));
            for (subject, rounds) in subjects {
                let all = rounds.concat();
                let medians: Vec<_> = rounds.iter().map(|round| median(round)).collect();
                let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
                let high = medians.iter().copied().fold(0.0, f64::max);
                let fastest = all.iter().copied().fold(f64::INFINITY, f64::min);
                writeln!(
                    out,
                    "| {group} | {subject} | {} | {} to {} | {} |",
                    shown(median(&all)),
                    shown(low),
                    shown(high),
                    shown(fastest),
                )?;
            }
        }
    }
    Ok(())
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Formats a number with three digits, or as a whole number from 100 on.
fn shown(ns: f64) -> String {
    let decimals = match ns {
        ns if ns < 9.995 => 2,
        ns if ns < 99.95 => 1,
        _ => 0,
    };
    format!("{ns:.decimals$}")
}
