//! Selection of the rows of the table of bombs that run.
//!
//! With `TREMOR_BOMBS=all` all rows run, and with `TREMOR_BOMBS='NAME'` the row with this name. Otherwise each test runs the
//! rows that have found a fault or that represent others, and a random sample of the remaining ones.

use std::{
    env,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use fastrand::Rng;

/// Runs rows, which have names. Unless `TREMOR_BOMBS` says otherwise, these are the rows in `always` and `count` others.
/// The names of rows that do not run are written to standard error, also where the test harness captures what tests
/// print.
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
            let is_sampled = |(name, _): &mut (String, R)| !always.contains(&&**name);
            let mut others: Vec<_> = rows.extract_if(.., is_sampled).collect();
            Rng::new().shuffle(&mut others);
            let skipped = others.split_off(count.min(others.len()));
            rows.append(&mut others);
            skipped
        }
    };
    if !skipped.is_empty() {
        let names: Vec<_> = skipped.iter().map(|(name, _)| &**name).collect();
        let (count, names) = (names.len(), names.join("; "));
        let text = format!("SKIPPED: {count} bombs, which TREMOR_BOMBS=all runs: {names}\n");
        // Nobody has to read it.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    for (name, row) in rows {
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| run(&name, row))) {
            eprintln!("a bomb failed; TREMOR_BOMBS='{name}' repeats it");
            resume_unwind(failure);
        }
    }
}
