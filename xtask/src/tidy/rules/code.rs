//! Rules about Rust code.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;
use crate::tidy::tokens::Token;

/// Crates that may have to be replaced one day, by their names in Rust, one per line, each with the
/// files or folders that may use it.
const HOMES: &str = include_str!("../homes.txt");

/// Crates that may have to be replaced one day are used in few files.
pub(super) fn crates_in_their_modules(repository: &Repository) -> Vec<Violation> {
    let homes = HOMES.lines().filter_map(|line| line.split_once(": "));
    let outside = |(name, paths): (&'static str, &'static str)| {
        repository.rust().filter_map(move |file| {
            let is_home = paths.split(' ').any(|path| file.path.starts_with(path));
            let used = file.tokens.iter().find(|token| token.is(name) && !is_home)?;
            let message = format!("{name} may only be used in {paths}");
            Some(Violation::at(&file.path, used.line, message))
        })
    };
    homes.flat_map(outside).collect()
}

/// Maximum number of lines of code between the comment and the keyword.
const REACH: usize = 3;

/// A comment directly above `unsafe { … }` or `unsafe impl` gives the reason why it is sound.
pub(super) fn unsafe_has_a_reason(repository: &Repository) -> Vec<Violation> {
    let is_unsafe =
        |first: &Token, next: &Token| first.is("unsafe") && (next.is("{") || next.is("impl"));
    let found = repository.pairs().filter(|(_, first, next)| is_unsafe(first, next));
    let bad = found.filter(|(file, first, _)| !has_reason(&file.text, first.line));
    let message = "unsafe without a `SAFETY:` comment directly above it";
    bad.map(|(file, first, _)| Violation::at(&file.path, first.line, message)).collect()
}

/// Returns whether a comment with a reason is at most [`REACH`] lines of code above the line. Lines of comments do not
/// count.
fn has_reason(text: &str, line: usize) -> bool {
    let lines: Vec<_> = text.lines().take(line).collect();
    let mut code = 0;
    let mut near = lines.iter().rev().take_while(|text| {
        code += usize::from(!text.trim_start().starts_with("//"));
        code <= REACH
    });
    near.any(|text| text.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_in_another_file_is_found() {
        let repository = Repository::of(&[
            ("tremor-pdk/src/ffi/root.rs", "use abi_stable::StableAbi;"),
            ("tremor-pdk/src/event.rs", "//! Not abi_stable.\nuse abi_stable::std_types::RVec;"),
            ("runtime/src/executor.rs", "use async_std::task;"),
            ("runtime/src/flow.rs", "fn a() { async_std::task::spawn(b); }"),
        ]);
        let violations = crates_in_their_modules(&repository);
        let found: Vec<_> = violations.iter().map(|it| (it.path.as_str(), it.line)).collect();
        assert_eq!(found, [("tremor-pdk/src/event.rs", Some(2)), ("runtime/src/flow.rs", Some(1))]);
    }

    fn lines_without_reason(source: &str) -> Vec<usize> {
        let violations = unsafe_has_a_reason(&Repository::of(&[("a.rs", source)]));
        violations.iter().filter_map(|violation| violation.line).collect()
    }

    #[test]
    fn block_and_impl_without_a_reason_are_found() {
        let source = "fn a() {\n    unsafe { b() }\n}\nunsafe impl Send for A {}";
        assert_eq!(lines_without_reason(source), [2, 4]);
    }

    #[test]
    fn reason_far_above_does_not_count() {
        let source = "// SAFETY: for a\nfn a() {\n    b();\n    c();\n    unsafe { d() }\n}";
        assert_eq!(lines_without_reason(source), [5]);
    }

    #[test]
    fn long_reason_is_accepted() {
        let source = "fn a() {\n    // SAFETY: one,\n    // two,\n    // three,\n    // four.\n    unsafe { b() }\n}";
        assert_eq!(lines_without_reason(source), [0; 0]);
    }

    #[test]
    fn unsafe_functions_and_traits_need_no_reason() {
        assert_eq!(lines_without_reason("unsafe fn a() {}\nunsafe trait B {}"), [0; 0]);
    }
}
