//! The rules, by subject, and the exceptions.

mod clock;
mod code;
mod dependencies;
mod files;
mod import_circles;
mod methods;
mod pages;
mod runs;
mod text_errors;
mod unsafe_files;
mod wording;

use super::Violation;
use super::repository::Repository;

const RULES: [fn(&Repository) -> Vec<Violation>; 24] = [
    clock::time_is_that_of_the_clock,
    code::crates_in_their_modules,
    code::unsafe_has_a_reason,
    dependencies::pdk_is_free_of_the_runtime,
    dependencies::plugin_depends_only_on_the_pdk,
    files::crate_has_docs,
    files::merge_is_finished,
    files::path_exists_on_every_machine,
    files::source_is_short,
    import_circles::imports_go_one_way,
    methods::method_is_shown,
    pages::link_resolves,
    pages::page_is_in_the_summary,
    pages::prose_is_wrapped,
    pages::record_has_its_headings,
    pages::shown_rust_is_compiled,
    runs::cited_run_exists,
    runs::run_is_packed,
    text_errors::error_is_typed,
    unsafe_files::unsafe_is_confined,
    wording::doc_comment_names_its_subject,
    wording::function_name_is_short,
    wording::noun_is_negated_by_not,
    wording::word_is_in_use,
];

/// Violations that are accepted, one per line as `PATH: MESSAGE`. An entry for a violation that no longer exists is
/// itself a violation, so that the list only becomes shorter.
const EXCEPTIONS: &str = include_str!("../exceptions.txt");
/// Maximum number of entries about doc comments in the list.
const MAX_OPENINGS: usize = 40;

/// Returns every violation of every rule that is not excepted, in the order of files and lines.
pub(super) fn violations(repository: &Repository) -> Vec<Violation> {
    let found = RULES.iter().flat_map(|rule| rule(repository)).collect();
    let mut violations = except(found, EXCEPTIONS);
    violations.sort();
    violations
}

/// Removes the violations that `list` excepts, and adds one for each entry of the list that excepts nothing.
fn except(found: Vec<Violation>, list: &str) -> Vec<Violation> {
    let entries = || list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_entry = |it: &Violation, entry: &str| entry == format!("{}: {}", it.path, it.message);
    let (excepted, mut left): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|it| entries().any(|entry| is_entry(it, entry)));
    let mut add = |message| left.push(Violation::in_file("xtask/src/tidy/exceptions.txt", message));
    for entry in entries().filter(|entry| !excepted.iter().any(|it| is_entry(it, entry))) {
        add(format!("remove the exception, because nothing violates the rule any more: {entry}"));
    }
    let openings = excepted.iter().filter(|it| it.message.starts_with(wording::OPENING)).count();
    if openings > MAX_OPENINGS {
        add(format!("excepts {openings} openings of doc comments, the maximum is {MAX_OPENINGS}"));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exception_accepts_its_violation_and_no_other() {
        let found = ["a", "b"].map(|message| Violation::at("src/a.rs", 1, message));
        let list = "# A comment.\nsrc/a.rs: a\n";
        assert_eq!(except(found.to_vec(), list), found[1..]);
    }

    #[test]
    fn exception_without_violation_is_found() {
        let left = except(Vec::new(), "src/a.rs: a");
        assert_eq!(left.len(), 1);
        assert!(left[0].message.ends_with(": src/a.rs: a"), "{}", left[0].message);
    }

    #[test]
    fn too_many_excepted_openings_are_found() {
        let opening = |line| Violation::at("a.rs", line, format!("{} `It`", wording::OPENING));
        let list = format!("a.rs: {} `It`", wording::OPENING);
        assert_eq!(except((0..MAX_OPENINGS).map(opening).collect(), &list), []);
        assert_eq!(except((0..=MAX_OPENINGS).map(opening).collect(), &list).len(), 1);
    }
}
