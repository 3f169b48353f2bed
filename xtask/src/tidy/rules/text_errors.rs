//! A library's errors are typed: no function of one has text for its error.

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};
use crate::tidy::tokens::Token;

/// Where libraries lie.
const LIBRARIES: [&str; 5] =
    ["codecs-plugins/", "connectors-plugins/", "operators-plugins/", "runtime/src/", "tremor-pdk/"];

/// Files that cannot do without, and why.
const EXCEPTIONS: [(&str, &str); 1] =
    [("operators-plugins/vrl/src/target.rs", "the trait `Target` of VRL has text for its errors")];

pub(super) fn error_is_typed(repository: &Repository) -> Vec<Violation> {
    typed_except(&EXCEPTIONS, repository)
}

fn typed_except(exceptions: &[(&str, &str)], repository: &Repository) -> Vec<Violation> {
    let is_excepted = |file: &File| exceptions.iter().any(|(path, _)| *path == file.path);
    let is_library = |file: &&File| LIBRARIES.iter().any(|folder| file.path.starts_with(folder));
    let mut violations = Vec::new();
    for file in repository.rust().filter(is_library).filter(|file| !is_excepted(file)) {
        violations.extend(text_errors(file).map(|line| {
            let message = "the error of this result is text: an enum, or the kit's `Error`, has a kind to \
                           act on";
            Violation::at(&file.path, line, message)
        }));
    }
    let unused = exceptions.iter().filter(|(path, _)| {
        !repository.rust().any(|file| file.path == *path && text_errors(file).next().is_some())
    });
    violations.extend(unused.map(|(path, _)| {
        Violation::in_file(path, "is excepted in text_errors.rs and has no text for errors")
    }));
    violations
}

/// The lines, outside of tests, with a result whose error is text.
fn text_errors(file: &File) -> impl Iterator<Item = usize> {
    let starts = file.tokens.windows(2).enumerate();
    let results = starts.filter(|(_, pair)| pair[0].is("Result") && pair[1].is("<"));
    results
        .filter(|(at, _)| error_of(&file.tokens[at + 2..]).is_some_and(|it| it.is("String")))
        .map(|(_, pair)| pair[0].line)
        .filter(|line| !file.is_test(*line))
}

/// The last token of the second of the arguments that begin here.
fn error_of(arguments: &[Token]) -> Option<&Token> {
    let (mut depth, mut commas) = (0_usize, 0);
    for (at, token) in arguments.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &arguments[before]);
        match token.text.as_str() {
            "<" | "(" | "[" | "{" => depth += 1,
            // That of an arrow closes nothing.
            ">" if before.is_some_and(|before| before.is("-")) => {}
            ">" if depth == 0 => return before.filter(|_| commas > 0),
            ">" | ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            // After the last argument a comma may follow.
            "," if depth == 0 && !arguments.get(at + 1)?.is(">") => commas += 1,
            "," if depth == 0 => return before.filter(|_| commas > 0),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        let repository = Repository::of(&[("runtime/src/a.rs", source)]);
        typed_except(&[], &repository).iter().filter_map(|violation| violation.line).collect()
    }

    #[test]
    fn text_is_found_as_the_error_of_a_result_however_that_is_written() {
        let source = "fn a() -> Result<(), String> {}\n\
                      type A = std::result::Result<Vec<(u8, u8)>, std::string::String>;\n\
                      fn b() -> Option<Result<\nfn(u8) -> u8,\nString,\n>> {}\n";
        assert_eq!(lines(source), [1, 2, 3]);
    }

    #[test]
    fn text_that_is_no_error_is_not_found() {
        let source = "fn a() -> Result<String> {}\n\
                      fn b() -> Result<String, Error> {}\n\
                      fn c() -> Result<(u8, String), Error<String>> {}\n\
                      // Result<(), String>\n\
                      fn d(result: Result<HashMap<u8, String>>) {}\n";
        assert_eq!(lines(source), [0; 0]);
    }

    #[test]
    fn tests_and_programs_may_have_text() {
        let function = "fn a() -> Result<(), String> {}";
        let tests = format!("#[cfg(test)]\nmod tests {{\n{function}\n}}");
        let files = [
            ("runtime/src/lib.rs", "#[cfg(test)]\nmod testing;"),
            ("runtime/src/testing.rs", function),
            ("runtime/src/other.rs", &tests),
            ("runtime/tests/all.rs", function),
            ("bench/floor/src/main.rs", function),
        ];
        assert_eq!(typed_except(&[], &Repository::of(&files)), []);
    }

    #[test]
    fn an_exception_without_need_is_found() {
        let excepted = [("tremor-pdk/src/a.rs", "a trait of others")];
        let needed = Repository::of(&[("tremor-pdk/src/a.rs", "fn a() -> Result<(), String> {}")]);
        assert_eq!(typed_except(&excepted, &needed), []);
        let not_needed = Repository::of(&[("tremor-pdk/src/a.rs", "fn a() {}")]);
        assert_eq!(typed_except(&excepted, &not_needed).len(), 1);
    }
}
