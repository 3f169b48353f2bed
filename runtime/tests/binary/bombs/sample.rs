//! Selects the rows of the table of bombs that run.
//!
//! With `TREMOR_BOMBS=all` all rows run, and with `TREMOR_BOMBS='NAME'` the row with this name. Otherwise each test
//! runs the rows that found a fault before or that represent others, and a random sample of the remaining rows.

use std::{
    env,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use fastrand::Rng;

/// Runs the rows whose names are in `always` and `count` other rows, unless `TREMOR_BOMBS` selects other rows. The
/// names of rows that do not run are written directly to standard error, because the test harness would capture printed
/// text.
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
