//! A run in `bench/runs` is a few files: samples are packed, and what was made of them is one report.

use std::collections::BTreeMap;

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const RUNS: &str = "bench/runs/";
/// Files of one run.
const MOST: usize = 7;

pub(super) fn run_is_packed(repository: &Repository) -> Vec<Violation> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &repository.files {
        if let Some((name, _)) = file.path.strip_prefix(RUNS).and_then(|rest| rest.split_once('/'))
        {
            *runs.entry(name).or_default() += 1;
        }
    }
    let large = runs.into_iter().filter(|(_, files)| *files > MOST);
    let violation = |(name, files)| {
        let message = format!(
            "has {files} files, {MOST} are the most: scripts/pack-run.sh packs a run of scripts/bench.sh"
        );
        Violation::in_file(&format!("{RUNS}{name}"), message)
    };
    large.map(violation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_many_files_is_found() {
        let names: Vec<_> =
            (0..8).map(|at| format!("bench/runs/loose/samples/{at}.json")).collect();
        let mut files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        files.push(("bench/runs/packed/samples.tar.xz", ""));
        let violations = run_is_packed(&Repository::of(&files));
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "bench/runs/loose");
    }
}
