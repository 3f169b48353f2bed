//! The chart of a run in `bench/runs`, which shows the flows of one subject from `samples.csv`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::experiment::{Fact, rows};
use crate::overview::{FlowFigures, overview};
use crate::statistics::{geometric_mean, median};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder of the run
    run: PathBuf,
    /// Name of the subject to draw
    #[arg(long)]
    subject: String,
    /// SVG file to write
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Deserialize)]
struct Sample {
    flow: String,
    subject: String,
    status: String,
    events_per_second: Option<f64>,
    latency_p50_ns: Option<f64>,
    latency_p99_ns: Option<f64>,
    latency_p999_ns: Option<f64>,
}

pub(crate) fn write(Arguments { run, subject, output }: &Arguments) -> Result<()> {
    let picture = draw(run, subject)?;
    fs::write(output, picture).with_context(|| format!("cannot write {}", output.display()))
}

fn draw(run: &Path, subject: &str) -> Result<String> {
    let facts: Vec<Fact> = rows(&run.join("facts.tsv"), false)?;
    let path = run.join("samples.csv");
    let reader = csv::Reader::from_path(&path);
    let mut reader = reader.with_context(|| format!("cannot read {}", path.display()))?;
    let samples: Vec<Sample> = reader.deserialize().collect::<csv::Result<_>>()?;
    let samples: Vec<_> = samples
        .iter()
        .filter(|sample| sample.subject == subject && sample.status == "ok")
        .collect();
    ensure!(!samples.is_empty(), "{} has no sample of a subject `{subject}`", path.display());
    let names = facts.iter().filter(|fact| fact.kind == "flow").map(|fact| &fact.name);
    let flows = names.map(|name| flow(name, &samples)).collect::<Result<Vec<_>>>()?;
    let fact = |kind: &str, name: &str| {
        let found = facts.iter().find(|fact| fact.kind == kind && fact.name == name);
        found.map(|fact| fact.value.as_str()).with_context(|| format!("facts.tsv has no {name}"))
    };
    let started = fact("machine", "before")?;
    let source = format!(
        "{}, a virtual machine; {} rounds of {}; {}, {}",
        fact("machine", "processor")?,
        fact("method", "rounds")?,
        fact("method", "measured")?,
        started.split('T').next().unwrap_or(started),
        run.display()
    );
    overview(&flows, &source)
}

fn flow(name: &str, samples: &[&Sample]) -> Result<FlowFigures> {
    let values = |of: fn(&Sample) -> Option<f64>| -> Vec<f64> {
        samples
            .iter()
            .filter(|sample| sample.flow == name)
            .filter_map(|sample| of(sample))
            .collect()
    };
    let latency = |of: fn(&Sample) -> Option<f64>| Some(median(&values(of))?.estimate / 1e3);
    let figures =
        geometric_mean(&values(|sample| sample.events_per_second)).and_then(|throughput| {
            let latencies = [
                latency(|sample| sample.latency_p50_ns)?,
                latency(|sample| sample.latency_p99_ns)?,
                latency(|sample| sample.latency_p999_ns)?,
            ];
            Some(FlowFigures { name: name.to_owned(), throughput, latencies })
        });
    figures.with_context(|| format!("the flow {name} has no throughput or no latency"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_has_the_figures_and_the_source_of_its_subject() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put(
            "facts.tsv",
            "flow\tjson\tjson.yaml\nmethod\trounds\t2\nmethod\tmeasured\t1 s\n\
             machine\tprocessor\ta quick one\nmachine\tbefore\t2026-05-01T12:00:00Z, load 1\n",
        );
        put(
            "samples.csv",
            "flow,subject,status,events_per_second,latency_p50_ns,latency_p99_ns,latency_p999_ns\n\
             json,plugin,ok,2000000,1000,30000,50000\njson,plugin,ok,2000000,3000,30000,50000\n\
             json,static,ok,9000000,1,1,1\njson,plugin,failed,,,,\n",
        );
        let svg = draw(folder.path(), "plugin").unwrap();
        for part in
            ["2.00 [2.00, 2.00]", "\n2\n", "\n30\n", "a quick one", "2 rounds of 1 s; 2026-05-01"]
        {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        let error = draw(folder.path(), "other").unwrap_err();
        assert!(error.to_string().contains("no sample of a subject `other`"), "{error}");
    }
}
