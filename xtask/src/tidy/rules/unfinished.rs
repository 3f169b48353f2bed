//! Nothing is left to do: no macro that stands for missing code or prints for its author alone.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

pub(super) fn nothing_is_left_to_do(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.rust() {
        for pair in file.tokens.windows(2) {
            if MACROS.contains(&pair[0].text.as_str()) && pair[1].is("!") {
                let message = format!("{}! is not for committed code", pair[0].text);
                violations.push(Violation::at(&file.path, pair[0].line, message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_macros_is_found() {
        let source = "fn a() {\n    todo!()\n}\nfn b() { unimplemented!() }\nfn c() { dbg!(1); }";
        let violations = nothing_is_left_to_do(&Repository::of(&[("a.rs", source)]));
        let lines: Vec<_> = violations.iter().filter_map(|violation| violation.line).collect();
        assert_eq!(lines, [2, 4, 5]);
    }

    #[test]
    fn a_comment_may_name_them() {
        let repository = Repository::of(&[("a.rs", "// todo!()\nfn todo() -> bool { !dbg }")]);
        assert_eq!(nothing_is_left_to_do(&repository), []);
    }
}
