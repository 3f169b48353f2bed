//! What the report says.

mod figures;
mod method;

use anyhow::Result;

use crate::analysis::{Flow, PAIRS_NEEDED, Verdict, average, flows};
use crate::document::{Block, Cell, Figure, Table, Tone};
use crate::experiment::{Experiment, Run};
use crate::format::{percent, with_interval};
use crate::plots;
use crate::sample::Library;

pub(crate) const TITLE: &str = "Benchmark";

pub(crate) fn report(experiment: &Experiment) -> Result<Vec<Block>> {
    let flows = flows(experiment);
    let mut blocks = vec![Block::Heading(1, TITLE.to_owned())];
    blocks.push(summary(experiment));
    blocks.extend(failures(experiment));
    blocks.extend(experiment.facts("notice").map(|fact| Block::Notice(fact.value.clone())));
    blocks.extend(changed_libraries(experiment));
    blocks.extend(verdicts(experiment, &flows));
    blocks.extend(relative(experiment, &flows)?);
    blocks.extend(figures::blocks(experiment, &flows)?);
    blocks.extend(method::blocks(experiment));
    Ok(blocks)
}

fn summary(experiment: &Experiment) -> Block {
    let machine = |name: &str| {
        let mut facts = experiment.facts("machine");
        facts.find(|fact| fact.name == name).map_or("unknown", |fact| fact.value.as_str())
    };
    let (flows, subjects) = (experiment.flows().len(), experiment.subjects().len() - 1);
    let rounds = experiment.runs.iter().map(|run| run.round).max().unwrap_or_default();
    let runs = experiment.runs.len();
    Block::Paragraph(format!(
        "{}, {}, {}: {}. Commit `{}`; {}.",
        counted(subjects, "subject"),
        counted(flows, "flow"),
        counted(rounds as usize, "round"),
        counted(runs, "run"),
        short(machine("commit")),
        machine("processor"),
    ))
}

/// Twelve digits of a commit, and whether files were changed.
fn short(commit: &str) -> String {
    let (hash, dirty) =
        commit.split_once("-dirty").map_or((commit, ""), |(hash, _)| (hash, "-dirty"));
    format!("{}{dirty}", hash.get(..12).unwrap_or(hash))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Which runs failed, and why: a line for each reason of a subject on a flow.
fn failures(experiment: &Experiment) -> Vec<Block> {
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
        let said = experiment.last_words(first).map_or_else(String::new, |words| {
            format!("; run {} last said: `{}`", first.number, words.replace('`', "'"))
        });
        let Run { subject, flow, reason, .. } = first;
        Some(format!("`{subject}` on `{flow}`, run {}: {reason}{said}", numbers.join(", ")))
    });
    let (count, runs) = (failed.len(), experiment.runs.len());
    let text = format!("{count} of {runs} runs failed; they are in no figure below.");
    vec![Block::Notice(text), Block::List(items.collect())]
}

/// A subject whose plugin was built anew on the way has figures of two.
fn changed_libraries(experiment: &Experiment) -> Vec<Block> {
    let libraries: Vec<_> = method::libraries(experiment).into_iter().collect();
    let pairs = libraries.windows(2).filter(|pair| {
        let [(subject, library), (next_subject, next)] = [pair[0], pair[1]];
        (subject, &library.name) == (next_subject, &next.name)
    });
    let text = |(subject, library): (&str, &Library)| {
        let name = &library.name;
        format!(
            "The library {name} of {subject} changed while the benchmark ran: its figures are of two."
        )
    };
    pairs.map(|pair| Block::Notice(text(pair[0]))).collect()
}

fn verdicts(experiment: &Experiment, flows: &[Flow<'_>]) -> Vec<Block> {
    let baseline = &experiment.baseline;
    let mut rows = Vec::new();
    for flow in flows {
        for subject in &flow.subjects {
            if matches!(subject.verdict, Verdict::Baseline | Verdict::Noise) {
                continue;
            }
            let floor = flow.floor.map_or("unknown".to_owned(), |f| format!("±{} %", percent(f)));
            let verdict = Cell { text: subject.verdict.to_string(), tone: tone(subject.verdict) };
            rows.push(vec![
                Cell::plain(flow.name),
                Cell::plain(subject.name),
                verdict,
                Cell::plain(floor),
            ]);
        }
    }
    let heading = Block::Heading(2, "Verdict".to_owned());
    if rows.is_empty() {
        let text =
            format!("`{baseline}` is the only subject: this benchmark shows the noise alone.");
        return vec![heading, Block::Paragraph(text)];
    }
    let headings = ["flow", "subject", "throughput", "noise floor"].map(str::to_owned).into();
    vec![
        heading,
        Block::Paragraph(format!("Compared with `{baseline}`, in throughput.")),
        Block::Table(Table { headings, rows, is_text: true }),
        Block::Paragraph(format!(
            "`{baseline}` ran twice in each round, the second time as `{}`. The noise floor is how far \
             the ratio of the two is from 1, or may be (the further end of its 95 % confidence \
             interval). A difference is called if it is beyond the floor, its own interval does not \
             contain 1, and at least {PAIRS_NEEDED} rounds are complete. Brackets are 95 % confidence \
             intervals.",
            experiment.again
        )),
    ]
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Faster(_) => Tone::Better,
        Verdict::Slower(_) => Tone::Worse,
        Verdict::Baseline | Verdict::WithinNoise(_) => Tone::Plain,
        Verdict::Noise | Verdict::Uncertain(_) | Verdict::TooFewRounds(_) => Tone::Quiet,
    }
}

fn relative(experiment: &Experiment, flows: &[Flow<'_>]) -> Result<Vec<Block>> {
    let subjects = experiment.subjects();
    let mut headings = vec!["flow".to_owned()];
    headings.extend(subjects.iter().map(ToString::to_string));
    let mut rows: Vec<_> = flows.iter().map(relative_row).collect();
    if flows.len() > 1 {
        let mut cells = vec![Cell::plain("average")];
        cells.extend((0..subjects.len()).map(|index| {
            let text = match (index, average(flows, index)) {
                (0, Some(_)) => "100".to_owned(),
                (_, average) => average.map_or("–".to_owned(), percent),
            };
            Cell { text, tone: Tone::Quiet }
        }));
        rows.push(cells);
    }
    let title = "Throughput in per cent of the baseline, with 95 % confidence intervals. \
        Grey bands: the noise floor.";
    let svg = plots::relative(title, flows)?;
    Ok(vec![
        Block::Heading(2, "Relative throughput".to_owned()),
        Block::Paragraph(format!(
            "Throughput in per cent of `{}`: geometric means of the ratios of each round. The average is \
             the arithmetic mean of the column.",
            experiment.baseline
        )),
        Block::Table(Table { headings, rows, is_text: false }),
        Block::Figure(Figure { name: "relative".to_owned(), title: title.to_owned(), svg }),
    ])
}

fn relative_row(flow: &Flow<'_>) -> Vec<Cell> {
    let mut cells = vec![Cell::plain(flow.name)];
    cells.extend(flow.subjects.iter().map(|subject| {
        let text = match (subject.verdict, subject.ratio) {
            (Verdict::Baseline, Some(_)) => "100".to_owned(),
            (_, Some(ratio)) => with_interval(ratio, percent),
            (_, None) => "–".to_owned(),
        };
        let tone = match subject.verdict {
            verdict if verdict.is_difference() => tone(verdict),
            Verdict::Noise => Tone::Quiet,
            _ => Tone::Plain,
        };
        Cell { text, tone }
    }));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::experiment;
    use crate::render::markdown;

    fn text(flows: &[(&str, &[[u32; 3]])]) -> String {
        let (_folder, experiment) = experiment(flows);
        markdown(&report(&experiment).unwrap())
    }

    #[test]
    fn the_relative_table_has_flows_as_rows_and_subjects_as_columns() {
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
    fn what_failed_is_said_once_for_each_reason() {
        let text = text(&[("json", &[[1_000, 0, 1_000]; 6])]);
        assert!(text.contains("> **6 of 18 runs failed; they are in no figure below.**"), "{text}");
        let line = "- `plugin` on `json`, run 2, 5, 8, 11, 14, 17: exit status 139; \
            run 2 last said: `assertion 'a' failed`\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("| json | 100 | – | 100.0"), "{text}");
        assert!(text.contains("nothing is called: 0 complete rounds"), "{text}");
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
