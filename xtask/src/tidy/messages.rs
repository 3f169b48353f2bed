//! The list of messages: texts in the shipped source files that an operator or the author of a plugin can see.
//!
//! The list is committed, so that a review shows each change of a message. A string literal is a
//! message if it contains a word and a space. A doc comment is a message if it becomes help or the
//! description of a configuration key. Tests, reasons of lint exceptions and texts of panics are
//! left out.

use std::{collections::BTreeSet, env, fs};

use anyhow::{Context, Result};

use super::Violation;
use super::repository::{File, Repository, is_library};
use super::tokens::Token;
use crate::project::root;

/// Path of the list.
const LIST: &str = "tests/messages.txt";

const HEADER: &str = "\
Messages of the product, by source file: log lines, errors, help, and descriptions of configuration keys.
`UPDATE_EXPECT=1 cargo xtask tidy` writes this file. Read the difference before you commit it.
";

/// Derives and attributes of types whose doc comments users see.
const SHOWN: [&str; 6] = ["Args", "JsonSchema", "Parser", "Subcommand", "ValueEnum", "config"];

/// Attributes whose texts only readers of the code see.
const SILENT: [&str; 6] = ["allow", "cfg", "cfg_attr", "expect", "ignore", "warn"];

/// Macros and methods whose texts are seen only if the program has a bug. The ends `_eq` and `_ne` are left out.
const PANICS: [&str; 6] =
    ["assert", "debug_assert", "expect", "expect_err", "panic", "unreachable"];

/// Compares the committed list with the source files. With `UPDATE_EXPECT` in the environment, writes the list.
///
/// # Errors
/// The list cannot be written.
pub(super) fn check(repository: &Repository) -> Result<Option<Violation>> {
    let found = list(repository);
    let path = root().join(LIST);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, found).with_context(|| format!("cannot write {LIST}"))?;
        return Ok(None);
    }
    let is_current = fs::read_to_string(path).is_ok_and(|committed| committed == found);
    let message = "differs from the messages in the source files: run `UPDATE_EXPECT=1 cargo xtask tidy` and read \
                   the difference";
    Ok((!is_current).then(|| Violation::in_file(LIST, message)))
}

/// Returns the list, with files and messages sorted.
fn list(repository: &Repository) -> String {
    let is_shipped = |path: &str| path.starts_with("brokers/") || is_library(path);
    let mut list = HEADER.to_owned();
    let shipped = repository.rust().filter(|it| it.path.contains("/src/") && is_shipped(&it.path));
    for file in shipped.filter(|file| !file.is_test(1)) {
        let mut messages = Messages { file, found: BTreeSet::new() };
        messages.read(&file.tokens, false);
        if !messages.found.is_empty() {
            list.extend(["\n", &file.path, "\n"]);
            messages.found.iter().for_each(|message| list.extend(["  ", message, "\n"]));
        }
    }
    list
}

/// The messages of a file.
struct Messages<'r> {
    file: &'r File,
    found: BTreeSet<String>,
}

/// The attributes in front of an item, a field or a variant.
#[derive(Default)]
struct Attributes {
    /// Lines of the doc comment.
    doc: Vec<String>,
    /// `true` if users see the doc comments of the item.
    are_shown: bool,
    is_test: bool,
}

impl Messages<'_> {
    /// Collects the messages of `rest`. `are_shown` is `true` within a type whose doc comments users see.
    fn read(&mut self, mut rest: &[Token], are_shown: bool) {
        let mut item = Attributes::default();
        while let [token, after @ ..] = rest {
            let inside = group(rest);
            rest = inside.map_or(after, |(_, after)| after);
            let (is_marked, marked) = after_mark(after);
            let attribute = if token.is("#") { group(marked) } else { None };
            if let Some((attribute, after)) = attribute {
                rest = after;
                // An attribute of the whole module contains nothing that users see.
                if !is_marked {
                    self.read_attribute(attribute, &mut item);
                }
                continue;
            }
            let name = token.text.trim_end_matches("_eq").trim_end_matches("_ne");
            if PANICS.contains(&name) {
                let has_arguments = is_marked || after.first().is_some_and(|it| it.is("("));
                let arguments = group(marked).filter(|_| has_arguments);
                rest = arguments.map_or(after, |(_, after)| after);
            } else if let (Some((inside, _)), false) = (inside, item.is_test) {
                self.read(inside, are_shown || item.are_shown);
            } else if !item.is_test {
                let message = text(token).filter(|text| is_message(text));
                self.found.extend(message.filter(|_| !self.file.is_test(token.line)));
            }
            let doc = std::mem::take(&mut item.doc);
            if (are_shown || item.are_shown) && !item.is_test {
                self.add_doc(&doc);
            }
            if ["{", ";", ","].iter().any(|end| token.is(end)) {
                item = Attributes::default();
            }
        }
    }

    fn read_attribute(&mut self, tokens: &[Token], item: &mut Attributes) {
        let Some(name) = tokens.first().filter(|it| text(it).is_none()) else { return };
        if name.is("doc") {
            return item.doc.extend(tokens.get(2).filter(|_| tokens.len() == 3).and_then(text));
        }
        let is_silent = SILENT.contains(&&*name.text);
        let is_break = |it: char| !it.is_alphanumeric() && it != '_';
        let mut words = tokens.iter().flat_map(|token| token.text.split(is_break));
        item.is_test |= name.is("cfg") && words.clone().any(|it| it == "test");
        item.are_shown |= !is_silent && words.any(|it| SHOWN.contains(&it));
        if !is_silent {
            self.read(tokens, false);
        }
    }

    /// Adds a doc comment, whose paragraphs are separated by empty lines.
    fn add_doc(&mut self, lines: &[String]) {
        let lines: Vec<_> = lines.iter().map(|line| line.trim()).collect();
        let paragraphs = lines.split(|line| line.is_empty()).map(|lines| lines.join(" "));
        self.found.extend(paragraphs.filter(|text| !text.is_empty()));
    }
}

/// Returns whether tokens start with an exclamation mark, and the tokens after such a mark.
fn after_mark(tokens: &[Token]) -> (bool, &[Token]) {
    match tokens {
        [mark, after @ ..] if mark.is("!") => (true, after),
        _ => (false, tokens),
    }
}

/// Returns the tokens inside of brackets and those after them, if `tokens` start with a bracket.
fn group(tokens: &[Token]) -> Option<(&[Token], &[Token])> {
    let mut depth = 0_usize;
    let end = tokens.iter().position(|token| {
        match token.text.as_bytes() {
            [b'(' | b'[' | b'{'] => depth += 1,
            [b')' | b']' | b'}'] => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    end.filter(|end| *end > 0).map(|end| (&tokens[1..end], &tokens[end + 1..]))
}

/// Returns the text of a string literal on one line: as in the source, but quotes are not escaped and no line
/// is continued.
fn text(token: &Token) -> Option<String> {
    let text = token.text.trim_start_matches(['b', 'c', 'r']).trim_matches('#');
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let joined = lines.fold(first, |joined, line| joined + line.trim_start());
    Some(joined.replace("\\\"", "\"").replace('\n', "\\n"))
}

/// Returns whether `text` contains a space, and a word outside of placeholders.
fn is_message(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut letters = 0;
    for character in text.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && character.is_alphabetic() => letters += 1,
            _ if letters < 2 => letters = 0,
            _ => {}
        }
    }
    letters >= 2 && text.trim().contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the messages of a source file of the runtime.
    fn messages(source: &str) -> Vec<String> {
        let repository = Repository::of(&[("runtime/src/a.rs", source)]);
        list(&repository)
            .lines()
            .filter_map(|line| line.strip_prefix("  ").map(str::to_owned))
            .collect()
    }

    #[test]
    fn literal_with_words_is_message() {
        let source = r#"
            #[error("no file")] fn a() { warn!(%path, "cannot read \
                `{path}`"); b("say \"hello\"", r"one two", "word", "{first} {second}", b"in bytes"); }
        "#;
        let expected = ["cannot read `{path}`", "in bytes", "no file", "one two", "say \"hello\""];
        assert_eq!(messages(source), expected);
    }

    #[test]
    fn doc_comment_is_message_if_users_see_it() {
        let source = "/// Not shown.\nstruct A { /// Nor this.\n a: u8 }\n\
                      /// A first\n/// line.\n///\n/// More.\n#[derive(Clone, Args)]\nstruct B {\n\
                      /// A key.\n #[arg(long)] pub b: Vec<u8>,\n/// Last key.\n c: u8 }\n\
                      /// Not shown.\nfn c() {}\n#[config] struct D(/** Only key. */ u8);\n";
        assert_eq!(
            messages(source),
            ["A first line.", "A key.", "Last key.", "More.", "Only key."]
        );
    }

    #[test]
    fn tests_panics_and_lints_have_no_messages() {
        let source = "//! Of a module.\n#[expect(dead_code, reason = \"no use\")]\nfn a() {\n\
                      panic!(\"a bug\"); b.expect(\"two words\"); assert!(c, \"must hold\") }\n\
                      #[cfg(all(test, unix))]\nfn d() { e(\"a test\") }\n\
                      #[cfg(test)]\nmod tests { const E: &str = \"a test\"; }\n";
        assert_eq!(messages(source), [""; 0]);
    }

    #[test]
    fn list_is_sorted_by_file_and_without_tests_and_tools() {
        let source =
            "const A: &str = \"it is\"; const B: &str = \"a word\"; const C: &str = \"it is\";";
        let repository = Repository::of(&[
            ("brokers/tests/src/lib.rs", source),
            ("brokers/nats/src/lib.rs", source),
            ("tremor-pdk/build.rs", source),
            ("tremor-pdk/src/lib.rs", "const A: &str = \"word\";"),
            ("xtask/src/main.rs", source),
        ]);
        assert_eq!(
            list(&repository).strip_prefix(HEADER),
            Some("\nbrokers/nats/src/lib.rs\n  a word\n  it is\n")
        );
    }
}
