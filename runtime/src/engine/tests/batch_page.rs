//! Tests that the page which describes the path of a batch names only functions that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const PAGE: &str = include_str!("../../../../docs/batch.md");

fn engine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine")
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the functions that a text names, each as its type and its name.
fn functions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let names = text.split(|it: char| !it.is_alphanumeric() && it != '_' && it != ':');
    let pairs = names.filter_map(|name| name.split_once("::"));
    pairs.filter(|(_, function)| function.starts_with(|it: char| it.is_ascii_lowercase()))
}

/// Returns whether an `impl` of the type in the source has the function.
fn has(source: &str, of: &str, function: &str) -> bool {
    let names = |header: &str| header.split(|it: char| !it.is_alphanumeric()).any(|it| it == of);
    let definition = [format!("fn {function}("), format!("fn {function}<")];
    let mut is_inside = false;
    source.lines().any(|line| {
        if line.starts_with("impl") {
            is_inside = names(line);
        }
        is_inside &= !line.starts_with('}');
        is_inside && definition.iter().any(|it| line.contains(it))
    })
}

fn read(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, into);
        } else if path.extension().is_some_and(|it| it == "rs") {
            into.push(fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn table_names_functions_of_at_most_ten_files() {
    let (mut files, mut steps) = (BTreeSet::new(), 0);
    for row in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, number, names, _, paths, _] = cells[..] else { panic!("{row}") };
        if number.parse::<usize>().is_err() {
            continue;
        }
        steps += 1;
        let paths: Vec<&str> = quoted(paths).collect();
        let sources: Vec<String> =
            paths.iter().map(|it| fs::read_to_string(engine().join(it)).unwrap()).collect();
        for (of, function) in functions(names) {
            let is_there = sources.iter().any(|source| has(source, of, function));
            assert!(is_there, "{paths:?} has no `{of}::{function}`");
        }
        files.extend(paths);
    }
    assert!(steps > 10 && files.len() <= 10, "{steps} steps in {files:?}");
}

#[test]
fn every_function_on_the_page_exists() {
    let mut sources = Vec::new();
    read(&engine(), &mut sources);
    read(&engine().join("../../../tremor-pdk/abi/src/batch"), &mut sources);
    for (of, function) in functions(PAGE) {
        let is_there = sources.iter().any(|source| has(source, of, function));
        assert!(is_there, "there is no `{of}::{function}`");
    }
}
