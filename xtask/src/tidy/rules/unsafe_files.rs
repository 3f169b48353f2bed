//! Only listed files contain `unsafe` code, and every listed file does.

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};

/// Files, or folders with a slash at the end, one per line, each with the code that needs `unsafe`.
const ALLOWED: &str = include_str!("../unsafe.txt");

pub(super) fn unsafe_is_confined(repository: &Repository) -> Vec<Violation> {
    confined_to(ALLOWED, repository)
}

fn confined_to(allowed: &str, repository: &Repository) -> Vec<Violation> {
    let first_unsafe =
        |file: &File| file.tokens.iter().find(|it| it.is("unsafe")).map(|it| it.line);
    let found: Vec<_> =
        repository.rust().filter_map(|file| Some((&*file.path, first_unsafe(file)?))).collect();
    let allowed = allowed.lines().filter_map(|line| line.split_once(": "));
    let allowed: Vec<_> = allowed.map(|(entry, _)| entry).collect();
    let covers = |entry: &str, path: &str| {
        path == entry || (entry.ends_with('/') && path.starts_with(entry))
    };
    let others = found.iter().filter(|(path, _)| !allowed.iter().any(|it| covers(it, path)));
    let message = "unsafe code in a file that is not on the list xtask/src/tidy/unsafe.txt";
    let mut violations: Vec<_> =
        others.map(|(path, line)| Violation::at(path, *line, message)).collect();
    let unused = allowed.iter().filter(|entry| !found.iter().any(|it| covers(entry, it.0)));
    let message = "is on the list xtask/src/tidy/unsafe.txt, but has no unsafe code";
    violations.extend(unused.map(|entry| Violation::in_file(entry, message)));
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const FFI: &str = "# A comment.\nsrc/ffi/: calls across the boundary\n";

    #[test]
    fn unsafe_code_in_another_file_is_found() {
        let repository = Repository::of(&[
            ("src/ffi/call.rs", "unsafe fn a() {}"),
            ("src/lib.rs", "//! No unsafe here.\nunsafe fn b() {}"),
        ]);
        let violations = confined_to(FFI, &repository);
        assert_eq!(violations.len(), 1);
        assert_eq!((violations[0].path.as_str(), violations[0].line), ("src/lib.rs", Some(2)));
    }

    #[test]
    fn entry_without_unsafe_code_is_found() {
        let violations = confined_to(FFI, &Repository::of(&[("src/ffi/call.rs", "fn a() {}")]));
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "src/ffi/");
    }
}
