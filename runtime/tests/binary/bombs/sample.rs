//! Selects the rows of the table of bombs that run.
//!
//! With `TREMOR_BOMBS=all` all rows run, and with `TREMOR_BOMBS='NAME'` the row with this name. Otherwise each test
//! runs the rows that found a fault before or that represent others, and a sample of the remaining rows, which is the
//! same in each run.

use std::{
    collections::HashSet,
    env,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use fastrand::Rng;

/// Seed of the order in which [`select`] considers the rows.
const SEED: u64 = 1;

/// Runs the rows whose names are in `always` and at least `count` other rows, unless `TREMOR_BOMBS` selects other rows.
/// The names of rows that do not run are written directly to standard error, because the test harness would capture
/// printed text.
pub(super) fn run<R>(
    rows: impl IntoIterator<Item = (String, R)>,
    always: &[&str],
    count: usize,
    run: impl Fn(&str, R),
) {
    let mut rows: Vec<_> = rows.into_iter().collect();
    let missing = always.iter().find(|name| rows.iter().all(|(it, _)| it != **name));
    assert!(missing.is_none(), "there is no row {missing:?}");
    let skipped = match env::var("TREMOR_BOMBS").ok().as_deref() {
        Some("all") => Vec::new(),
        Some(name) => {
            rows.retain(|(it, _)| it == name);
            Vec::new()
        }
        None => {
            let selected = select(rows.iter().map(|(name, _)| &**name), always, count);
            let mut selected = selected.into_iter();
            rows.extract_if(.., |_| !selected.next().unwrap()).collect()
        }
    };
    if !skipped.is_empty() {
        let names: Vec<_> = skipped.iter().map(|(name, _)| &**name).collect();
        let (count, names) = (names.len(), names.join("; "));
        let text = format!("SKIPPED: {count} bombs, which TREMOR_BOMBS=all runs: {names}\n");
        // Ignore the error, which means that standard error is closed.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    for (name, row) in rows {
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| run(&name, row))) {
            eprintln!("a bomb failed; TREMOR_BOMBS='{name}' repeats it");
            resume_unwind(failure);
        }
    }
}

/// Returns whether each row is selected: the rows in `always`, and at least `count` others. For each component that a
/// row has in its name, at least one row is selected.
fn select<'n>(names: impl Iterator<Item = &'n str>, always: &[&str], count: usize) -> Vec<bool> {
    let names: Vec<_> = names.collect();
    let mut selected: Vec<_> = names.iter().map(|name| always.contains(name)).collect();
    let mut others: Vec<_> = (0..names.len()).filter(|at| !selected[*at]).collect();
    Rng::with_seed(SEED).shuffle(&mut others);
    let mut covered: HashSet<_> = always.iter().flat_map(|name| components(name)).collect();
    for number in 0.. {
        let uncovered = |at: &usize| {
            let components: HashSet<_> = components(names[*at]).collect();
            components.difference(&covered).count()
        };
        let next = others.iter().copied().max_by_key(uncovered);
        let Some(next) = next.filter(|next| number < count || uncovered(next) > 0) else { break };
        selected[next] = true;
        covered.extend(components(names[next]));
        others.retain(|at| *at != next);
    }
    selected
}

/// Returns the names of components in the name of a row, which are the words before the first comma.
fn components(name: &str) -> impl Iterator<Item = &str> {
    name.split(',').next().unwrap_or_default().split(' ')
}

#[test]
fn sample_has_every_component_and_the_required_rows() {
    let names = ["a b", "a c", "b c", "d d", "e, large", "e, small", "f, one", "f, two"];
    let select = |always: &[&str], count| {
        let selected = select(names.into_iter(), always, count);
        names
            .into_iter()
            .zip(selected)
            .filter_map(|(name, is)| is.then_some(name))
            .collect::<Vec<_>>()
    };
    let few = select(&["a b", "e, small"], 1);
    assert!(["a b", "e, small", "d d"].iter().all(|name| few.contains(name)), "{few:?}");
    assert_eq!(few.len(), 5, "one row with `c` and one with `f` as well: {few:?}");
    assert_eq!(select(&[], 8), names);
    assert_eq!(select(&[], 5), select(&[], 5));
}
