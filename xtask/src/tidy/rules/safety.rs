//! Whoever writes `unsafe { … }` or `unsafe impl` says just above it why that is sound.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

/// How many lines of code may lie between the comment and the keyword.
const REACH: usize = 3;

pub(super) fn unsafe_says_why(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.rust() {
        let lines: Vec<_> = file.text.lines().collect();
        for pair in file.tokens.windows(2) {
            let needs_reason = pair[0].is("unsafe") && (pair[1].is("{") || pair[1].is("impl"));
            if needs_reason && !has_reason(&lines, pair[0].line) {
                let message = "unsafe without a `SAFETY:` comment just above it";
                violations.push(Violation::at(&file.path, pair[0].line, message));
            }
        }
    }
    violations
}

/// A comment counts as one line, however long it is: it is searched up to where it starts.
fn has_reason(lines: &[&str], line: usize) -> bool {
    let mut code = 0;
    for text in lines[..line].iter().rev() {
        if text.contains("SAFETY:") {
            return true;
        }
        if !text.trim_start().starts_with("//") {
            code += 1;
            if code > REACH {
                return false;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_without_reason(source: &str) -> Vec<usize> {
        let violations = unsafe_says_why(&Repository::of(&[("a.rs", source)]));
        violations.iter().filter_map(|violation| violation.line).collect()
    }

    #[test]
    fn a_block_and_an_impl_without_a_reason_are_found() {
        let source = "fn a() {\n    unsafe { b() }\n}\nunsafe impl Send for A {}";
        assert_eq!(lines_without_reason(source), [2, 4]);
    }

    #[test]
    fn a_reason_far_above_is_none() {
        let source = "// SAFETY: for a\nfn a() {\n    b();\n    c();\n    unsafe { d() }\n}";
        assert_eq!(lines_without_reason(source), [5]);
    }

    #[test]
    fn a_reason_may_be_long() {
        let source = "fn a() {\n    // SAFETY: one,\n    // two,\n    // three,\n    // four.\n    unsafe { b() }\n}";
        assert_eq!(lines_without_reason(source), [0; 0]);
    }

    #[test]
    fn the_contract_of_an_unsafe_function_is_for_its_documentation() {
        assert_eq!(lines_without_reason("unsafe fn a() {}\nunsafe trait B {}"), [0; 0]);
    }
}
