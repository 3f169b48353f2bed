//! The habits, one module each.

mod boundary;
mod conflicts;
mod crate_docs;
mod decisions;
mod dependencies;
mod figures;
mod file_length;
mod import_circles;
mod links;
mod machine_paths;
mod methods;
mod packed_runs;
mod quotes;
mod safety;
mod summary;
mod text_errors;
mod unfinished;
mod unsafe_files;

use super::Violation;
use super::repository::Repository;

const RULES: [fn(&Repository) -> Vec<Violation>; 19] = [
    boundary::crates_in_their_modules,
    conflicts::merge_is_finished,
    crate_docs::crate_has_docs,
    decisions::record_has_its_headings,
    dependencies::plugin_depends_on_the_pdk_alone,
    dependencies::pdk_is_free_of_the_runtime,
    figures::cited_run_exists,
    file_length::source_is_short,
    import_circles::imports_go_one_way,
    links::link_resolves,
    machine_paths::path_is_no_machines_own,
    methods::method_is_shown,
    packed_runs::run_is_packed,
    quotes::shown_rust_is_compiled,
    safety::unsafe_says_why,
    summary::page_is_in_the_summary,
    text_errors::error_is_typed,
    unfinished::nothing_is_left_to_do,
    unsafe_files::unsafe_is_confined,
];

/// Every violation of every rule, in the order of their places.
pub(super) fn violations(repository: &Repository) -> Vec<Violation> {
    let mut violations: Vec<_> = RULES.iter().flat_map(|rule| rule(repository)).collect();
    violations.sort();
    violations
}
