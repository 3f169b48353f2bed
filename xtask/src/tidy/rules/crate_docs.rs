//! A crate opens with what it is for.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

pub(super) fn crate_has_docs(repository: &Repository) -> Vec<Violation> {
    let roots = repository
        .rust()
        .filter(|file| file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs"));
    let bare = roots.filter(|file| !file.text.starts_with("//! "));
    bare.map(|file| Violation::in_file(&file.path, "does not open with `//!` docs")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_opens_with_code_is_found() {
        let repository = Repository::of(&[
            ("good/src/lib.rs", "//! What this is for.\n\nmod a;"),
            ("bad/src/lib.rs", "mod a;\n"),
            ("good/src/a.rs", "fn a() {}"),
        ]);
        let violations = crate_has_docs(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "bad/src/lib.rs");
    }
}
