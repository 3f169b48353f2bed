//! Every folder beside this file is a case: a `flow.yaml`, and in `expected` what a user gets to
//! see for it: the errors, or the graph and the warnings.
//!
//! `UPDATE_EXPECT=1 cargo test -p tremor-runtime --test flow_files` writes the expectations anew;
//! read the difference before you commit it.

mod artefacts;

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use tremor_runtime::flow;

use artefacts::Artefacts;

/// What `tremor check` has to say about a flow file.
fn outcome(path: &Path) -> String {
    let flow = match flow::load(path) {
        Ok(flow) => flow,
        Err(error) => return error.to_string(),
    };
    if let Err(error) = flow::check(&flow, &Artefacts) {
        return error.to_string();
    }
    let mut out = format!("flow {}\n{}", flow.name(), flow.graph);
    for warning in &flow.warnings {
        write!(out, "\n{warning}").unwrap();
    }
    out
}

fn check(case: &Path) -> Result<(), String> {
    let found = outcome(&case.join("flow.yaml"));
    let file = case.join("expected");
    if env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(&file, found).map_err(|error| format!("{}: {error}", file.display()));
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(format!("{}\n--- expected\n{expected}--- found\n{found}", case.display()))
}

#[test]
fn flow_files() {
    // Tests run in the folder of their package, so paths in messages are the same everywhere.
    let mut cases: Vec<PathBuf> = fs::read_dir("tests/flow_files")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "there are no cases");
    let failed: Vec<_> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}
