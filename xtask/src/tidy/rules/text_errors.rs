//! Errors of libraries are typed: no function returns a `Result` whose error is a `String`.

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository, is_library};
use crate::tidy::tokens::Token;

pub(super) fn error_is_typed(repository: &Repository) -> Vec<Violation> {
    let message = "the error of this result is a `String`: return an enum or the kit's `Error`, which has a kind";
    let found = repository.rust().filter(|it| is_library(&it.path)).flat_map(|file| {
        text_errors(file).map(move |line| Violation::at(&file.path, line, message))
    });
    found.collect()
}

/// Returns the lines outside of tests with a result whose error is a `String`.
fn text_errors(file: &File) -> impl Iterator<Item = usize> {
    let starts = file.tokens.windows(2).enumerate();
    let results = starts.filter(|(_, pair)| pair[0].is("Result") && pair[1].is("<"));
    results
        .filter(|(at, _)| error_of(&file.tokens[at + 2..]).is_some_and(|it| it.is("String")))
        .map(|(_, pair)| pair[0].line)
        .filter(|line| !file.is_test(*line))
}

/// Returns the last token of the second generic argument. `arguments` begin after the opening `<`.
fn error_of(arguments: &[Token]) -> Option<&Token> {
    let (mut depth, mut commas) = (0_usize, 0);
    for (at, token) in arguments.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &arguments[before]);
        match token.text.as_str() {
            "<" | "(" | "[" | "{" => depth += 1,
            // The `>` of an arrow `->` does not end a list of arguments.
            ">" if before.is_some_and(|before| before.is("-")) => {}
            ">" if depth == 0 => return before.filter(|_| commas > 0),
            ">" | ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            // A trailing comma ends the arguments.
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
        error_is_typed(&repository).iter().filter_map(|violation| violation.line).collect()
    }

    #[test]
    fn string_error_is_found_in_any_notation() {
        let source = "fn a() -> Result<(), String> {}\n\
                      type A = std::result::Result<Vec<(u8, u8)>, std::string::String>;\n\
                      fn b() -> Option<Result<\nfn(u8) -> u8,\nString,\n>> {}\n";
        assert_eq!(lines(source), [1, 2, 3]);
    }

    #[test]
    fn strings_that_are_not_errors_are_accepted() {
        let source = "fn a() -> Result<String> {}\n\
                      fn b() -> Result<String, Error> {}\n\
                      fn c() -> Result<(u8, String), Error<String>> {}\n\
                      // Result<(), String>\n\
                      fn d(result: Result<HashMap<u8, String>>) {}\n";
        assert_eq!(lines(source), [0; 0]);
    }

    #[test]
    fn tests_and_programs_may_have_string_errors() {
        let function = "fn a() -> Result<(), String> {}";
        let tests = format!("#[cfg(test)]\nmod tests {{\n{function}\n}}");
        let files = [
            ("runtime/src/lib.rs", "#[cfg(test)]\nmod testing;"),
            ("runtime/src/testing.rs", function),
            ("runtime/src/other.rs", &tests),
            ("runtime/tests/all.rs", function),
            ("bench/floor/src/main.rs", function),
        ];
        assert_eq!(error_is_typed(&Repository::of(&files)), []);
    }
}
