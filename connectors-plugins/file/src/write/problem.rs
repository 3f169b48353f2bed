//! A problem that several files of one sink may have.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use tremor_pdk::{Host, Problem, Result, lock};

/// A problem of a sink, which exists while at least one of its files has it.
#[derive(Debug)]
pub(super) struct SharedProblem {
    problem: Problem,
    /// Number of files that have the problem.
    files: Mutex<usize>,
}

impl SharedProblem {
    pub(super) fn new(host: &Host, name: &str) -> Self {
        Self { problem: host.problem(name), files: Mutex::new(0) }
    }

    /// Reports whether a file has the problem. `has_problem` is the last report for this file.
    pub(super) fn update(&self, has_problem: &AtomicBool, result: &Result<()>) {
        let mut files = lock(&self.files);
        let had_problem = has_problem.swap(result.is_err(), Ordering::Relaxed);
        *files = *files + usize::from(result.is_err()) - usize::from(had_problem);
        match result {
            Err(error) => self.problem.set(error),
            Ok(()) if *files == 0 => self.problem.clear(),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use tremor_pdk::{Error, testing::TestHost};

    use super::SharedProblem;

    #[test]
    fn problem_exists_until_no_file_has_it() {
        let host = TestHost::new();
        let problem = SharedProblem::new(&host.host(), "rotation");
        let (one, other) = (AtomicBool::new(false), AtomicBool::new(false));
        problem.update(&one, &Err(Error::full("one")));
        problem.update(&one, &Err(Error::full("one again")));
        problem.update(&other, &Err(Error::full("other")));
        problem.update(&one, &Ok(()));
        assert!(host.problem("rotation").unwrap().contains("other"));
        problem.update(&other, &Ok(()));
        problem.update(&other, &Ok(()));
        assert_eq!(host.problem("rotation"), None);
    }
}
