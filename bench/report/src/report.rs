//! The files report.md and samples.csv in the folder of a benchmark.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::experiment::{Experiment, Run};
use crate::page;
use crate::sample::{Latency, Sample};

pub(crate) fn write(folder: &Path) -> Result<()> {
    let experiment = Experiment::read(folder)?;
    put(&folder.join("report.md"), page::markdown(&experiment))?;
    put(&folder.join("samples.csv"), table(&experiment.runs)?)
}

fn put(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

const HEADINGS: &str = "number,round,flow,subject,status,started,seconds,load,mhz,celsius,events,\
    events_per_second,bytes_per_second,latency_mean_ns,latency_stdev_ns,latency_p50_ns,latency_p90_ns,\
    latency_p99_ns,latency_p999_ns,latency_max_ns,cpu_s,cpu_ns_per_event,reason";

/// Returns a table with a line for each run. Figures that a subject did not write are empty.
fn table(runs: &[Run]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADINGS.split(','))?;
    for run in runs {
        let mut record = vec![
            run.number.to_string(),
            run.round.to_string(),
            run.flow.clone(),
            run.subject.clone(),
            run.status.clone(),
            run.started.clone(),
            run.seconds.to_string(),
            run.load.to_string(),
            run.mhz.clone(),
            run.celsius.clone(),
        ];
        record.extend(
            figures(run.sample.as_ref())
                .map(|figure| figure.map(|value| value.to_string()).unwrap_or_default()),
        );
        record.push(run.reason.clone());
        writer.write_record(&record)?;
    }
    writer.into_inner().context("cannot write the table of samples")
}

fn figures(sample: Option<&Sample>) -> [Option<f64>; 12] {
    let latency = sample.and_then(|sample| sample.latency_ns.clone()).unwrap_or_default();
    let Latency { mean, stdev, p50, p90, p99, p999, max } = latency;
    let [events, throughput, bytes, cpu, each] = sample.map_or([None; 5], |sample| {
        let Sample { events, events_per_second, bytes_per_second, .. } = *sample;
        [events, Some(events_per_second), bytes_per_second, sample.cpu_s, sample.cpu_ns_per_event]
    });
    [events, throughput, bytes, mean, stdev, p50, p90, p99, p999, max, cpu, each]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::experiment;

    #[test]
    fn report_and_samples_are_written() {
        let (folder, _) = experiment(&[("json", &[[1_000, 970, 1_001]; 10])]);
        write(folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("report.md").contains("**slower by 3.0 %"));
        let csv = read("samples.csv");
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines.len(), 31);
        assert!(lines.iter().all(|line| line.split(',').count() == 23), "{csv}");
        let first =
            "1,1,json,static,ok,2026-05-01T12:00:00Z,12.5,0.25,,,,1000,1000000,,,1000,,2500.5";
        assert!(lines[1].starts_with(first), "{}", lines[1]);
    }

    #[test]
    fn report_is_written_if_all_runs_failed() {
        let (folder, _) = experiment(&[("json", &[[0, 0, 0]; 2])]);
        write(folder.path()).unwrap();
        let report = fs::read_to_string(folder.path().join("report.md")).unwrap();
        assert!(report.contains("6 of 6 runs failed"), "{report}");
    }

    #[test]
    fn same_samples_give_the_same_report() {
        let (folder, _) = experiment(&[("json", &[[1_000, 970, 1_001], [990, 980, 985]])]);
        let report = || {
            write(folder.path()).unwrap();
            fs::read_to_string(folder.path().join("report.md")).unwrap()
        };
        assert_eq!(report(), report());
    }
}
