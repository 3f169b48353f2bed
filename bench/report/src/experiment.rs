//! The folder of a benchmark, as `scripts/bench.sh` writes it.
//!
//! | file | a line, with columns separated by tabs |
//! |---|---|
//! | `facts.tsv` | kind, name, value: settings, subjects, machine and method |
//! | `runs.tsv` | a finished run, below a heading; see [`Run`] |
//! | `profile.tsv` | flow, subject, name of the finding, value, file; missing without `--profile` |
//!
//! `samples/<run>.json` and `samples/<run>.hgrm` are the files that the subjects wrote.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::sample::Sample;

/// The files of a benchmark.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) folder: PathBuf,
    pub(crate) facts: Vec<Fact>,
    pub(crate) runs: Vec<Run>,
    pub(crate) findings: Vec<Finding>,
    /// Name of the subject with which the others are compared.
    pub(crate) baseline: String,
    /// Name of the second run of the baseline.
    pub(crate) again: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fact {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A finished run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Run {
    /// Position in the order of all runs, from 1.
    pub(crate) number: u32,
    pub(crate) round: u32,
    pub(crate) flow: String,
    pub(crate) subject: String,
    /// `ok` or `failed`.
    pub(crate) status: String,
    /// Name of the run's files in `samples`, without extension.
    pub(crate) name: String,
    /// Time of the start, in ISO 8601.
    pub(crate) started: String,
    /// Duration of the process, in seconds.
    pub(crate) seconds: f64,
    /// Load average of the machine over the minute before the run.
    pub(crate) load: f64,
    /// Clock of the first processor before the run, in MHz; empty if it cannot be read.
    pub(crate) mhz: String,
    /// Temperature of the hottest thermal zone before the run, in °C; empty if none can be read.
    pub(crate) celsius: String,
    /// Reason of the failure; empty if the run did not fail.
    pub(crate) reason: String,
    #[serde(skip)]
    pub(crate) sample: Option<Sample>,
}

/// A finding of a profiler.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Finding {
    pub(crate) flow: String,
    pub(crate) subject: String,
    pub(crate) what: String,
    /// Figure of the finding; empty if the finding is only the file.
    pub(crate) value: String,
    /// Path of the profile, relative to the folder.
    pub(crate) file: String,
}

impl Experiment {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let facts: Vec<Fact> = rows(&folder.join("facts.tsv"), false)?;
        let mut runs: Vec<Run> = rows(&folder.join("runs.tsv"), true)?;
        for run in runs.iter_mut().filter(|run| run.status == "ok") {
            run.sample = Some(Sample::read(&folder.join(format!("samples/{}.json", run.name)))?);
        }
        let profile = folder.join("profile.tsv");
        let findings = if profile.exists() { rows(&profile, false)? } else { Vec::new() };
        let setting = |name: &str| {
            let mut settings = facts.iter().filter(|fact| fact.kind == "setting");
            let found = settings.find(|fact| fact.name == name).map(|fact| fact.value.clone());
            found.with_context(|| format!("facts.tsv has no setting {name}"))
        };
        let (baseline, again) = (setting("baseline")?, setting("again")?);
        let experiment = Self { folder: folder.to_owned(), runs, findings, baseline, again, facts };
        ensure!(!experiment.flows().is_empty(), "facts.tsv names no flow");
        Ok(experiment)
    }

    pub(crate) fn facts(&self, kind: &str) -> impl Iterator<Item = &Fact> {
        self.facts.iter().filter(move |fact| fact.kind == kind)
    }

    pub(crate) fn flows(&self) -> Vec<&str> {
        self.facts("flow").map(|fact| fact.name.as_str()).collect()
    }

    /// Returns the baseline, the other subjects in their order, and the second run of the baseline.
    pub(crate) fn subjects(&self) -> Vec<&str> {
        let others = self.facts("subject").map(|fact| fact.name.as_str());
        let others = others.filter(|name| *name != self.baseline);
        let first = std::iter::once(self.baseline.as_str());
        first.chain(others).chain(std::iter::once(self.again.as_str())).collect()
    }

    /// Returns the last line that a run wrote to stderr, if the file was kept.
    pub(crate) fn last_line(&self, run: &Run) -> Option<String> {
        let path = self.folder.join(format!("samples/{}.err", run.name));
        let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
        text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
    }

    /// Returns the runs of a subject that did not fail, in the order of their rounds.
    pub(crate) fn samples(&self, flow: &str, subject: &str) -> Vec<(&Run, &Sample)> {
        let runs = self.runs.iter().filter(|run| run.flow == flow && run.subject == subject);
        let mut samples: Vec<_> =
            runs.filter_map(|run| Some((run, run.sample.as_ref()?))).collect();
        samples.sort_by_key(|(run, _)| run.round);
        samples
    }
}

/// Reads the rows of a table with tabs between columns. Without headings, columns are assigned to fields by position.
pub(crate) fn rows<T: DeserializeOwned>(path: &Path, has_headings: bool) -> Result<Vec<T>> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {name}; expected the folder of a benchmark"))?;
    let mut builder = csv::ReaderBuilder::new();
    let mut reader = builder
        .delimiter(b'\t')
        .quoting(false)
        .has_headers(has_headings)
        .from_reader(text.as_bytes());
    let rows = reader.deserialize().collect::<Result<_, _>>();
    rows.with_context(|| format!("{name} is not a table of a benchmark"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Creates a benchmark of `static`, `plugin` and `static-again` with these throughputs in each round. 0 stands for
    /// a failed run.
    pub(crate) fn experiment(flows: &[(&str, &[[u32; 3]])]) -> (tempfile::TempDir, Experiment) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("samples")).unwrap();
        let mut facts = "setting\tbaseline\tstatic\nsetting\tagain\tstatic-again\n\
            machine\tprocessor\ta quick one\nmethod\trounds\t10\nnotice\t\tno turbo\n\
            subject\tstatic\ttremor bench {flow} | cat\nsubject\tplugin\ttremor bench {flow}\n\
            binary\tplugin\t0a1b\n"
            .to_owned();
        let mut runs = "number\tround\tflow\tsubject\tstatus\tname\tstarted\tseconds\tload\tmhz\t\
            celsius\treason\n"
            .to_owned();
        let mut number = 0;
        for (flow, rounds) in flows {
            writeln!(facts, "flow\t{flow}\tflows/{flow}.yaml").unwrap();
            for (round, figures) in (1..).zip(*rounds) {
                for (subject, figure) in ["static", "plugin", "static-again"].iter().zip(figures) {
                    number += 1;
                    let name = format!("{number:04}");
                    let (status, reason) =
                        if *figure > 0 { ("ok", "") } else { ("failed", "exit status 139") };
                    writeln!(
                        runs,
                        "{number}\t{round}\t{flow}\t{subject}\t{status}\t{name}\t\
                         2026-05-01T12:00:00Z\t12.5\t0.25\t\t\t{reason}"
                    )
                    .unwrap();
                    let sample = format!(
                        r#"{{"events_per_second": {figure}, "bytes_per_second": {figure}000,
                            "latency_ns": {{"p50": 1000, "p99": 2500.5}}, "cpu_ns_per_event": 7}}"#
                    );
                    let hgrm = " 1.0 0.0 50 1.0\n 5.0 0.9 90 10\n 9.0 1.0 100 inf\n";
                    fs::write(path.join(format!("samples/{name}.json")), sample).unwrap();
                    fs::write(path.join(format!("samples/{name}.hgrm")), hgrm).unwrap();
                    if *figure == 0 {
                        let err = format!("run {number}\nassertion `a` failed\n\n");
                        fs::write(path.join(format!("samples/{name}.err")), err).unwrap();
                    }
                }
            }
        }
        fs::write(path.join("facts.tsv"), facts).unwrap();
        fs::write(path.join("runs.tsv"), runs).unwrap();
        let experiment = Experiment::read(path).unwrap();
        (folder, experiment)
    }

    #[test]
    fn baseline_is_first_and_its_second_run_last() {
        let (_folder, experiment) = experiment(&[("json", &[[100, 97, 101]])]);
        assert_eq!(experiment.subjects(), ["static", "plugin", "static-again"]);
        assert_eq!(experiment.flows(), ["json"]);
    }

    #[test]
    fn failed_run_has_no_sample() {
        let (_folder, experiment) = experiment(&[("json", &[[100, 0, 101], [100, 97, 99]])]);
        let rounds: Vec<_> =
            experiment.samples("json", "plugin").iter().map(|(run, _)| run.round).collect();
        assert_eq!(rounds, [2]);
    }

    #[test]
    fn folder_without_a_benchmark_is_refused() {
        let error = Experiment::read(Path::new("src")).unwrap_err().to_string();
        assert!(error.contains("expected the folder of a benchmark"), "{error}");
    }
}
