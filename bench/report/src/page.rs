//! The report of a benchmark as a page of Markdown.

use std::collections::BTreeSet;

use crate::analysis::{Flow, PAIRS_NEEDED, Verdict, average, flows};
use crate::experiment::{Experiment, Finding, Run};
use crate::format::{percent, three_digits, whole, with_interval};
use crate::sample::{Latency, Library, Sample};
use crate::statistics::{geometric_mean, median};

const MISSING: &str = "–";

pub(crate) fn markdown(experiment: &Experiment) -> String {
    let flows = flows(experiment);
    let mut blocks = vec!["# Benchmark".to_owned(), summary(experiment)];
    blocks.extend(failures(experiment));
    blocks.extend(experiment.facts("notice").map(|fact| notice(&fact.value)));
    blocks.extend(changed_libraries(experiment));
    blocks.extend(verdicts(experiment, &flows));
    blocks.extend(relative(experiment, &flows));
    blocks.push("## Figures".to_owned());
    blocks.push(
        "Throughput is the geometric mean of the rounds, with its 95 % confidence interval. Latency in µs is \
         the median of the rounds, with the smallest and largest of them."
            .to_owned(),
    );
    for flow in &flows {
        blocks.extend([format!("### {}", flow.name), figures(experiment, flow)]);
    }
    blocks.extend(profiles(experiment));
    blocks.extend(method(experiment));
    blocks.join("\n\n") + "\n"
}

fn notice(text: &str) -> String {
    format!("> **{text}**")
}

/// Returns a table. `align` is the alignment of all columns but the first: `---` or `---:`.
fn table<'a>(
    headings: impl IntoIterator<Item = &'a str>,
    align: &str,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let headings: Vec<_> = headings.into_iter().collect();
    let mut lines = vec![
        format!("| {} |", headings.join(" | ")),
        format!("|---|{}", format!("{align}|").repeat(headings.len() - 1)),
    ];
    // A bar ends the cell even within code.
    let escaped = |cell: &String| cell.replace('|', "\\|");
    lines.extend(rows.into_iter().map(|row| {
        let cells: Vec<_> = row.iter().map(escaped).collect();
        format!("| {} |", cells.join(" | "))
    }));
    lines.join("\n")
}

fn summary(experiment: &Experiment) -> String {
    let machine = |name: &str| {
        let mut facts = experiment.facts("machine");
        facts.find(|fact| fact.name == name).map_or("unknown", |fact| fact.value.as_str())
    };
    let rounds = experiment.runs.iter().map(|run| run.round).max().unwrap_or_default();
    format!(
        "{}, {}, {}: {}. Commit `{}`; {}.",
        counted(experiment.subjects().len() - 1, "subject"),
        counted(experiment.flows().len(), "flow"),
        counted(rounds as usize, "round"),
        counted(experiment.runs.len(), "run"),
        machine("commit"),
        machine("processor"),
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Lists the failed runs, with one line for each flow, subject and reason.
fn failures(experiment: &Experiment) -> Vec<String> {
    let failed: Vec<_> = experiment.runs.iter().filter(|run| run.sample.is_none()).collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let mut kinds: Vec<Vec<&Run>> = Vec::new();
    for run in &failed {
        let kind = |run: &Run| (run.subject.clone(), run.flow.clone(), run.reason.clone());
        match kinds.iter_mut().find(|runs| runs.iter().any(|known| kind(known) == kind(run))) {
            Some(runs) => runs.push(run),
            None => kinds.push(vec![run]),
        }
    }
    let items = kinds.iter().filter_map(|runs| {
        let first = runs.first()?;
        let numbers: Vec<_> = runs.iter().map(|run| run.number.to_string()).collect();
        let last = experiment.last_line(first).map_or_else(String::new, |line| {
            format!("; last line of run {}: `{}`", first.number, line.replace('`', "'"))
        });
        let Run { subject, flow, reason, .. } = first;
        Some(format!("- `{subject}` on `{flow}`, run {}: {reason}{last}", numbers.join(", ")))
    });
    let (count, runs) = (failed.len(), experiment.runs.len());
    let text = format!("{count} of {runs} runs failed; they are not included in any figure.");
    vec![notice(&text), items.collect::<Vec<_>>().join("\n")]
}

/// Returns a notice for each plugin that was rebuilt during the benchmark, because its figures are those of two builds.
fn changed_libraries(experiment: &Experiment) -> Vec<String> {
    let libraries: Vec<_> = libraries(experiment).into_iter().collect();
    let pairs = libraries.windows(2).filter(|pair| {
        let [(subject, library), (next_subject, next)] = [pair[0], pair[1]];
        (subject, &library.name) == (next_subject, &next.name)
    });
    let text = |(subject, Library { name, .. }): (&str, &Library)| {
        format!(
            "The library {name} of {subject} changed during the benchmark: its figures mix two builds."
        )
    };
    pairs.map(|pair| notice(&text(pair[0]))).collect()
}

fn verdicts(experiment: &Experiment, flows: &[Flow<'_>]) -> Vec<String> {
    let baseline = &experiment.baseline;
    let mut rows = Vec::new();
    for flow in flows {
        let floor = flow.floor.map_or("unknown".to_owned(), |f| format!("±{} %", percent(f)));
        for subject in &flow.subjects {
            if matches!(subject.verdict, Verdict::Baseline | Verdict::Noise) {
                continue;
            }
            let verdict = emphasised(subject.verdict, subject.verdict.to_string());
            rows.push(vec![flow.name.into(), subject.name.into(), verdict, floor.clone()]);
        }
    }
    let heading = "## Verdict".to_owned();
    if rows.is_empty() {
        let text =
            format!("`{baseline}` is the only subject: this benchmark only shows the noise.");
        return vec![heading, text];
    }
    vec![
        heading,
        format!("Compared with `{baseline}`, in throughput."),
        table(["flow", "subject", "throughput", "noise floor"], "---", rows),
        format!(
            "`{baseline}` ran twice in each round, the second time as `{}`. The noise floor is the \
             distance from 1 of the ratio of both runs, or of the further end of its 95 % confidence \
             interval. A difference is reported if it exceeds the floor, its own interval does not \
             contain 1, and at least {PAIRS_NEEDED} rounds are complete. Brackets contain 95 % \
             confidence intervals.",
            experiment.again
        ),
    ]
}

fn emphasised(verdict: Verdict, text: String) -> String {
    if verdict.is_difference() { format!("**{text}**") } else { text }
}

fn relative(experiment: &Experiment, flows: &[Flow<'_>]) -> Vec<String> {
    let subjects = experiment.subjects();
    let mut rows: Vec<_> = flows.iter().map(relative_row).collect();
    if flows.len() > 1 {
        let averages = (0..subjects.len()).map(|index| match (index, average(flows, index)) {
            (0, Some(_)) => "100".to_owned(),
            (_, average) => average.map_or(MISSING.to_owned(), percent),
        });
        rows.push(std::iter::once("average".to_owned()).chain(averages).collect());
    }
    vec![
        "## Relative throughput".to_owned(),
        format!(
            "Throughput in per cent of `{}`: geometric means of the ratios of each round. The average is \
             the arithmetic mean of the column.",
            experiment.baseline
        ),
        table(std::iter::once("flow").chain(subjects), "---:", rows),
    ]
}

fn relative_row(flow: &Flow<'_>) -> Vec<String> {
    let cells = flow.subjects.iter().map(|subject| match (subject.verdict, subject.ratio) {
        (Verdict::Baseline, Some(_)) => "100".to_owned(),
        (verdict, Some(ratio)) => emphasised(verdict, with_interval(ratio, percent)),
        (_, None) => MISSING.to_owned(),
    });
    std::iter::once(flow.name.to_owned()).chain(cells).collect()
}

/// Returns a table with the absolute figures of a flow.
fn figures(experiment: &Experiment, flow: &Flow<'_>) -> String {
    let headings = ["subject", "rounds", "events/s", "MB/s", "CPU, ns/event"];
    let percentiles = ["p50", "p90", "p99", "p99.9", "max"];
    let rows = flow.subjects.iter().map(|subject| {
        let samples = experiment.samples(flow.name, subject.name);
        // Every mean is geometric, so that the figures of a row are consistent.
        let mean = |of: fn(&Sample) -> Option<f64>| {
            let values: Vec<_> = samples.iter().filter_map(|(_, sample)| of(sample)).collect();
            geometric_mean(&values).map(|interval| interval.estimate)
        };
        let latency = |of: fn(&Latency) -> Option<f64>| {
            let latencies = samples.iter().filter_map(|(_, sample)| sample.latency_ns.as_ref());
            let values: Vec<_> = latencies.filter_map(of).collect();
            Some(with_interval(median(&values)?.scaled(1e-3), three_digits))
        };
        let cells = [
            Some(subject.name.to_owned()),
            Some(subject.throughputs.len().to_string()),
            subject.throughput.map(|interval| with_interval(interval, whole)),
            mean(|sample| sample.bytes_per_second).map(|bytes| three_digits(bytes / 1e6)),
            mean(|sample| sample.cpu_ns_per_event).map(three_digits),
            latency(|it| it.p50),
            latency(|it| it.p90),
            latency(|it| it.p99),
            latency(|it| it.p999),
            latency(|it| it.max),
        ];
        cells.map(|cell| cell.unwrap_or_else(|| MISSING.to_owned())).into()
    });
    table(headings.into_iter().chain(percentiles), "---:", rows)
}

fn profiles(experiment: &Experiment) -> Vec<String> {
    if experiment.findings.is_empty() {
        return Vec::new();
    }
    let rows = experiment.findings.iter().map(|Finding { flow, subject, what, value, file }| {
        let name = file.rsplit('/').next().unwrap_or(file);
        [flow, subject, what, value, &format!("[{name}]({file})")].map(String::clone).into()
    });
    let headings = ["flow", "subject", "finding", "value", "file"];
    vec!["## Profiles".to_owned(), table(headings, "---", rows)]
}

/// Returns the sections about subjects, machine and method.
fn method(experiment: &Experiment) -> Vec<String> {
    let subjects = experiment.facts("subject").map(|subject| {
        let mut programs = experiment.facts("binary").filter(|fact| fact.name == subject.name);
        let hash = programs.next().map_or_else(String::new, |fact| format!("`{}`", fact.value));
        vec![subject.name.clone(), format!("`{}`", subject.value), hash]
    });
    let libraries: Vec<_> = libraries(experiment)
        .into_iter()
        .map(|(subject, Library { name, version, hash })| {
            vec![subject.to_owned(), name.clone(), version.clone(), format!("`{hash}`")]
        })
        .collect();
    let facts = |kind: &str| {
        let rows = experiment.facts(kind).map(|fact| vec![fact.name.clone(), fact.value.clone()]);
        table(["", ""], "---", rows)
    };
    let headings = ["subject", "command", "SHA-256 of the program"];
    let mut blocks = vec!["## Subjects".to_owned(), table(headings, "---", subjects)];
    if !libraries.is_empty() {
        blocks.push(table(["subject", "library", "version", "hash"], "---", libraries));
    }
    blocks.extend(["## Machine".to_owned(), facts("machine"), "## Method".to_owned()]);
    blocks.push(
        "Every run is a process of its own. A round runs every subject on every flow once, in random \
         order, the subjects of a flow one after the other. Ratios are computed within a round, so \
         that a slower machine affects both sides. Confidence intervals are percentile bootstraps of \
         logarithms with 10,000 resamples, widened by √(n / (n - 1)) for n rounds. Profiles are from \
         separate runs, which are not included in any figure."
            .to_owned(),
    );
    blocks.push(facts("method"));
    blocks.push(
        "All runs are in [samples.csv](samples.csv). The folder `samples/` has the results of subjects, and \
         the output of failed runs."
            .to_owned(),
    );
    blocks
}

/// Returns the plugins that subjects report. If a plugin was rebuilt, its name has two hashes.
fn libraries(experiment: &Experiment) -> BTreeSet<(&str, &Library)> {
    let samples = experiment.runs.iter().filter_map(|run| Some((run, run.sample.as_ref()?)));
    let libraries = samples.flat_map(|(run, sample)| {
        sample.libraries.iter().map(|library| (run.subject.as_str(), library))
    });
    libraries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::experiment;

    fn text(flows: &[(&str, &[[u32; 3]])]) -> String {
        let (_folder, experiment) = experiment(flows);
        markdown(&experiment)
    }

    #[test]
    fn relative_table_has_flows_as_rows() {
        let text =
            text(&[("json", &[[1_000, 900, 1_000]; 6]), ("msgpack", &[[1_000, 700, 1_000]; 6])]);
        let expected = "| flow | static | plugin | static-again |\n|---|---:|---:|---:|\n\
            | json | 100 | **90.0 [90.0, 90.0]** | 100.0 [100.0, 100.0] |\n\
            | msgpack | 100 | **70.0 [70.0, 70.0]** | 100.0 [100.0, 100.0] |\n\
            | average | 100 | 80.0 | 100.0 |\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("**slower by 30.0 % [30.0, 30.0]**"), "{text}");
    }

    #[test]
    fn failures_are_listed_once_for_each_reason() {
        let text = text(&[("json", &[[1_000, 0, 1_000]; 6])]);
        assert!(
            text.contains("> **6 of 18 runs failed; they are not included in any figure.**"),
            "{text}"
        );
        let line = "- `plugin` on `json`, run 2, 5, 8, 11, 14, 17: exit status 139; \
            last line of run 2: `assertion 'a' failed`\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("| json | 100 | – | 100.0"), "{text}");
        assert!(text.contains("no verdict: 0 of at least 5 rounds"), "{text}");
    }

    #[test]
    fn notices_and_the_machine_are_in_the_report() {
        let text = text(&[("json", &[[1_000, 1_000, 1_000]; 6])]);
        assert!(
            text.contains("> **no turbo**") && text.contains("| processor | a quick one |"),
            "{text}"
        );
        assert!(text.contains("| plugin | `tremor bench {flow}` | `0a1b` |"), "{text}");
    }
}
