//! The rule that the runtime takes the time from its clock.

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};
use crate::tidy::tokens::Token;

/// Folders and files of the runtime that may read the system's clock: the clock and the executor that it is built on;
/// busy waiting, which takes the time of a processor; the limit for a child process; the age of a library; and the
/// program, whose threads wait for the system.
const EXEMPT: [&str; 6] = [
    "runtime/src/clock.rs",
    "runtime/src/executor",
    "runtime/src/engine/spin.rs",
    "runtime/src/plugin/describe/process.rs",
    "runtime/src/plugin/library.rs",
    "runtime/src/cli/",
];

/// Ways to take the time, or to wait, that do not use the runtime's clock.
const FORBIDDEN: [&[&str]; 5] = [
    &["Instant", ":", ":", "now"],
    &["SystemTime", ":", ":", "now"],
    &[".", "elapsed", "(", ")"],
    &["executor", ":", ":", "sleep"],
    &["thread", ":", ":", "sleep"],
];

/// The beginning of a module with tests.
const TESTS: &[&str] = &["#", "[", "cfg", "(", "test", ")", "]", "mod"];

/// Code of the runtime takes the time from `Clock`, so that tests control it. A test may use `Instant::now` as an
/// arbitrary point in time.
pub(super) fn time_is_that_of_the_clock(repository: &Repository) -> Vec<Violation> {
    let of_runtime = |file: &&File| {
        file.path.starts_with("runtime/src/") && !EXEMPT.iter().any(|it| file.path.starts_with(it))
    };
    repository.rust().filter(of_runtime).flat_map(violations).collect()
}

fn violations(file: &File) -> Vec<Violation> {
    let positions = |way: &'static [&'static str]| {
        let is_way =
            move |tokens: &[Token]| tokens.iter().map(|it| &*it.text).eq(way.iter().copied());
        file.tokens
            .windows(way.len())
            .enumerate()
            .filter(move |(_, it)| is_way(it))
            .map(|(at, _)| at)
    };
    let is_test_file = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let first_test = if is_test_file { Some(0) } else { positions(TESTS).next() };
    let is_allowed = |way: &[&str], at| way[0] == "Instant" && first_test.is_some_and(|it| at > it);
    let found = FORBIDDEN.into_iter().flat_map(|way| positions(way).map(move |at| (way, at)));
    let found = found.filter(|(way, at)| !is_allowed(way, *at));
    let violation = |(way, at): (&[&str], usize)| {
        let message =
            format!("`{}` does not use the runtime's clock: take a `Clock`", way.concat());
        Violation::at(&file.path, file.tokens[at].line, message)
    };
    found.map(violation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_clocks_are_found_and_tests_have_points_in_time() {
        let tests = "\n#[cfg(test)]\nmod tests {\n    fn a() { Instant::now(); }\n    fn b() { at.elapsed(); }\n}";
        let product = "fn a() { Instant::now(); self.clock.elapsed(at); }";
        let repository = Repository::of(&[
            ("runtime/src/engine/sink.rs", &format!("{product}{tests}")),
            (
                "runtime/src/engine/tests/a.rs",
                "fn a() { Instant::now(); }\nfn b() { executor::sleep(c); }",
            ),
            ("runtime/src/engine/spin.rs", "fn a() { Instant::now(); }"),
            ("xtask/src/main.rs", "fn a() { Instant::now(); }"),
        ]);
        let mut found: Vec<_> = time_is_that_of_the_clock(&repository)
            .into_iter()
            .map(|it| (it.path, it.line))
            .collect();
        found.sort();
        let expected = [("sink.rs", 1), ("sink.rs", 5), ("tests/a.rs", 2)]
            .map(|(path, line)| (format!("runtime/src/engine/{path}"), Some(line)));
        assert_eq!(found, expected);
    }
}
