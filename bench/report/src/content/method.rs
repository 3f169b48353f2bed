//! On what and how it was measured, and what else was written.

use std::collections::BTreeSet;

use crate::document::{Block, Cell, Table};
use crate::experiment::{Experiment, Finding};
use crate::sample::Library;

pub(super) fn blocks(experiment: &Experiment) -> Vec<Block> {
    let mut blocks = profiles(experiment);
    blocks.push(heading("Subjects"));
    blocks.push(subjects(experiment));
    blocks.extend(table_of_libraries(experiment));
    blocks.push(heading("Machine"));
    blocks.push(facts(experiment, "machine"));
    blocks.push(heading("Method"));
    blocks.push(Block::Paragraph(
        "Every run is a process of its own. A round runs every subject on every flow once, in random \
         order, the subjects of a flow one after the other. Ratios are made within a round, so that \
         what slows the machine down slows both sides. Confidence intervals are percentile bootstraps \
         of logarithms with 10,000 resamples, widened by √(n / (n - 1)) for n rounds. Profiles come \
         from runs of their own, in no figure."
            .to_owned(),
    ));
    blocks.push(facts(experiment, "method"));
    blocks.push(Block::Paragraph(
        "All runs are in [samples.csv](samples.csv); what each subject wrote, and what failed ones said, \
         is in `samples/`."
            .to_owned(),
    ));
    blocks
}

fn heading(text: &str) -> Block {
    Block::Heading(2, text.to_owned())
}

fn texts(headings: &[&str], rows: Vec<Vec<Cell>>) -> Block {
    let headings = headings.iter().map(ToString::to_string).collect();
    Block::Table(Table { headings, rows, is_text: true })
}

/// What was measured: the command, and the first digits of the SHA-256 of its program.
fn subjects(experiment: &Experiment) -> Block {
    let rows = experiment.facts("subject").map(|subject| {
        let mut programs = experiment.facts("binary").filter(|fact| fact.name == subject.name);
        let hash = programs.next().map_or_else(String::new, |fact| format!("`{}`", fact.value));
        vec![
            Cell::plain(&subject.name),
            Cell::plain(format!("`{}`", subject.value)),
            Cell::plain(hash),
        ]
    });
    texts(&["subject", "command", "SHA-256 of the program"], rows.collect())
}

fn facts(experiment: &Experiment, kind: &str) -> Block {
    let rows =
        experiment.facts(kind).map(|fact| vec![Cell::plain(&fact.name), Cell::plain(&fact.value)]);
    texts(&["", ""], rows.collect())
}

/// Which plugins the subjects ran, as they said. Two hashes of one are two libraries.
pub(super) fn libraries(experiment: &Experiment) -> BTreeSet<(&str, &Library)> {
    let samples = experiment.runs.iter().filter_map(|run| Some((run, run.sample.as_ref()?)));
    let libraries = samples.flat_map(|(run, sample)| {
        sample.libraries.iter().map(|library| (run.subject.as_str(), library))
    });
    libraries.collect()
}

fn table_of_libraries(experiment: &Experiment) -> Option<Block> {
    let rows = libraries(experiment).into_iter().map(|(subject, library)| {
        let texts = [subject, &library.name, &library.version, &format!("`{}`", library.hash)];
        texts.map(Cell::plain).into()
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| texts(&["subject", "library", "version", "hash"], rows))
}

fn profiles(experiment: &Experiment) -> Vec<Block> {
    if experiment.findings.is_empty() {
        return Vec::new();
    }
    let rows = experiment.findings.iter().map(|Finding { flow, subject, what, value, file }| {
        let name = file.rsplit('/').next().unwrap_or(file);
        let texts = [flow, subject, what, value, &format!("[{name}]({file})")];
        texts.map(Cell::plain).into()
    });
    vec![heading("Profiles"), texts(&["flow", "subject", "what", "found", "file"], rows.collect())]
}
