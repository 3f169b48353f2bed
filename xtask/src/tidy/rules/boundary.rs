//! A crate that we may have to leave one day is used in one place.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

/// A crate as it is written in Rust, and the files or folders that may use it.
struct Home {
    crates: &'static [&'static str],
    paths: &'static [&'static str],
}

const HOMES: [Home; 2] = [
    Home {
        crates: &["abi_stable"],
        paths: &[
            "tremor-pdk/abi/",
            "tremor-pdk/src/ffi/",
            // A test host stands in for the runtime's half of the boundary.
            "tremor-pdk/src/testing/",
            "runtime/src/plugin/",
            // Benches measure its types against others.
            "bench/micro/benches/",
            "bench/boundary-plugin/src/",
        ],
    },
    Home {
        crates: &["async_std", "async_io", "async_global_executor", "async_task"],
        paths: &["runtime/src/executor/", "runtime/src/executor.rs"],
    },
];

pub(super) fn crates_in_their_modules(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.rust() {
        for home in HOMES {
            if home.paths.iter().any(|path| file.path.starts_with(path)) {
                continue;
            }
            let used = file.tokens.iter().find(|token| home.crates.contains(&token.text.as_str()));
            if let Some(token) = used {
                let message = format!("{} is used in {} alone", token.text, home.paths.join(", "));
                violations.push(Violation::at(&file.path, token.line, message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_elsewhere_is_found() {
        let repository = Repository::of(&[
            ("tremor-pdk/src/ffi/root.rs", "use abi_stable::StableAbi;"),
            ("tremor-pdk/src/event.rs", "//! Not abi_stable.\nuse abi_stable::std_types::RVec;"),
            ("runtime/src/executor.rs", "use async_std::task;"),
            ("runtime/src/flow.rs", "fn a() { async_std::task::spawn(b); }"),
        ]);
        let violations = crates_in_their_modules(&repository);
        let places: Vec<_> =
            violations.iter().map(|found| (found.path.as_str(), found.line)).collect();
        assert_eq!(
            places,
            [("tremor-pdk/src/event.rs", Some(2)), ("runtime/src/flow.rs", Some(1))]
        );
    }
}
