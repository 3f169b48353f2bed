//! Rules about wording: openings of doc comments, long names, and words that this project no longer uses.

use std::collections::BTreeMap;

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

/// Beginning of the messages about openings, by which their exceptions are counted.
pub(super) const OPENING: &str = "a doc comment begins with";
/// First words of doc comments that leave out the subject of the sentence.
const OPENINGS: &str =
    " What How Where Who It Its Of One As Those There So Such None Nothing All Another ";
/// Maximum length of the name of a function or test, in characters.
const NAME: usize = 60;
/// Words that are not used in identifiers and comments, one per line, each with its replacement.
/// Among them are macros for missing code and for debug output.
const REPLACED: &str = include_str!("../words.txt");
/// Words that may follow "is no".
const COMPARATIVES: [&str; 6] = ["longer", "later", "more", "less", "larger", "smaller"];

pub(super) fn doc_comment_names_its_subject(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.rust() {
        let before = [""].into_iter().chain(file.text.lines());
        for ((line, text), before) in file.lines().zip(before) {
            let Some(doc) = doc(text).filter(|_| doc(before).is_none()) else { continue };
            let word = doc.split([' ', ',', ':', '.', ';']).next().unwrap_or_default();
            if OPENINGS.contains(&format!(" {word} ")) && !word.is_empty() {
                let message = format!("{OPENING} `{word}`, not with its verb or noun: {doc}");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// Returns the text of a doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

pub(super) fn function_name_is_short(repository: &Repository) -> Vec<Violation> {
    let functions = repository.pairs().filter(|(_, keyword, _)| keyword.is("fn"));
    let long = functions.filter(|(_, _, name)| name.text.len() > NAME);
    let message = |name: &str| format!("`{name}` has more than {NAME} characters");
    long.map(|(file, _, name)| Violation::at(&file.path, name.line, message(&name.text))).collect()
}

/// Identifiers and comments use none of the words in `words.txt`. Code in comments is not searched.
pub(super) fn word_is_in_use(repository: &Repository) -> Vec<Violation> {
    let replaced = REPLACED.lines().filter_map(|line| line.split_once(": "));
    let replaced: Vec<_> = replaced.map(|(word, by)| (word, format!(" {word} "), by)).collect();
    let mut violations = Vec::new();
    for file in repository.rust() {
        let names = file.tokens.iter().map(|token| (&*token.text, token.line));
        let is_name = |name: &str| name.chars().all(|it| it.is_alphanumeric() || it == '_');
        // The map reports each name once, at its first line.
        let names: BTreeMap<_, _> = names.rev().filter(|(name, _)| is_name(name)).collect();
        let names = names.into_iter().map(|(name, line)| (line, name.to_owned()));
        let comments = file.lines().filter(|(_, text)| text.trim_start().starts_with("//"));
        let comments = comments.map(|(line, text)| (line, text.split('`').step_by(2).collect()));
        for (line, text) in names.chain(comments) {
            let words = words(&text);
            for (word, _, by) in replaced.iter().filter(|(_, spaced, _)| words.contains(spaced)) {
                let message = format!("`{word}` is not used here: write {by}");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// Returns the words of an identifier or a sentence in lower case, with one space before and after each.
fn words(text: &str) -> String {
    let mut words = " ".to_owned();
    for letter in text.chars() {
        let is_break = !letter.is_alphanumeric() || letter.is_uppercase();
        if is_break && !words.ends_with(' ') {
            words.push(' ');
        }
        words.extend(letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()));
    }
    words.push(' ');
    words.replace(" in place ", " ").replace(" on unimplemented ", " ")
}

/// Messages and comments say "is not a mode" and not "is no mode".
pub(super) fn noun_is_negated_by_not(repository: &Repository) -> Vec<Violation> {
    let is_bad = |text: &str, at: usize| {
        let next = text[at..].split(|it: char| !it.is_alphanumeric()).nth(3).unwrap_or_default();
        !next.is_empty() && !COMPARATIVES.contains(&next) && !text[..at].ends_with("here")
    };
    let lines = repository.lines().filter(|(file, ..)| file.is("rs") || file.is("sh"));
    let bad =
        lines.filter(|(_, _, text)| text.match_indices(" is no ").any(|it| is_bad(text, it.0)));
    let message = "write \"X is not a Y\" or \"invalid Y X\" instead of \"X is no\" with a noun";
    bad.map(|(file, line, _)| Violation::at(&file.path, line, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&Repository) -> Vec<Violation>, source: &str) -> Vec<usize> {
        let repository = Repository::of(&[("a.rs", source)]);
        let mut lines: Vec<_> = rule(&repository).iter().filter_map(|it| it.line).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn opening_without_subject_is_found() {
        let source =
            "//! What a is.\n\n/// Its name.\n/// It is short.\nfn a() {}\n    //! All: of them.";
        assert_eq!(lines(doc_comment_names_its_subject, source), [1, 3, 6]);
    }

    #[test]
    fn opening_with_subject_is_accepted() {
        let source =
            "/// One-line text.\n///\n/// It is short.\n// What\n/// `What`\n/// Iterates\n///";
        assert_eq!(lines(doc_comment_names_its_subject, source), [0; 0]);
    }

    #[test]
    fn function_name_over_the_limit_is_found() {
        let source = format!("fn {}() {{}}\nfn {}() {{}}", "a".repeat(NAME), "b".repeat(NAME + 1));
        assert_eq!(lines(function_name_is_short, &source), [2]);
    }

    #[test]
    fn word_is_found_in_names_and_comments() {
        let source = "// So many events are under way.\nfn let_go() {}\nstruct FreePlaces;";
        assert_eq!(lines(word_is_in_use, source), [1, 1, 2, 3]);
        let source = ["fn a() {\n", "to", "do!()\n}\nfn b() { un", "implemented!(); d", "bg!(1) }"];
        assert_eq!(lines(word_is_in_use, &source.concat()), [2, 4, 4]);
    }

    #[test]
    fn word_in_code_text_and_longer_words_is_accepted() {
        let source = "// `let_go` sorts in place.\nfn replace() {}\nconst A: &str = \"under way\";";
        assert_eq!(lines(word_is_in_use, source), [0; 0]);
    }

    #[test]
    fn noun_that_is_negated_by_no_is_found() {
        let source = ["// `a` is no", " mode.\n\"{a} is no", " mode\""].concat();
        assert_eq!(lines(noun_is_negated_by_not, &source), [1, 2]);
    }

    #[test]
    fn there_is_no_and_comparatives_are_accepted() {
        let source = "// There is no file. It is no longer there.\n\"`there is no file`\"";
        assert_eq!(lines(noun_is_negated_by_not, source), [0; 0]);
    }
}
