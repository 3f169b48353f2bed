//! `cargo xtask messages`: texts in the shipped source files that an operator or the author of a plugin can see, for
//! reviews of these texts.
//!
//! A string literal is a message if it contains a word and a space. A doc comment is a message if it becomes help or
//! the description of a configuration key. Tests, reasons of lint exceptions and texts of panics are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use anyhow::{Context, Result};

use super::repository::{File, Repository, is_library};
use super::tokens::Token;

/// Derives and attributes of types whose doc comments users see.
const SHOWN: [&str; 6] = ["Args", "JsonSchema", "Parser", "Subcommand", "ValueEnum", "config"];

/// Attributes whose texts only readers of the code see.
const SILENT: [&str; 6] = ["allow", "cfg", "cfg_attr", "expect", "ignore", "warn"];

/// Macros and methods whose texts are seen only if the program has a bug. The ends `_eq` and `_ne` are left out.
const PANICS: [&str; 6] =
    ["assert", "debug_assert", "expect", "expect_err", "panic", "unreachable"];

/// The messages of each source file that has any, by path.
type Messages = BTreeMap<String, BTreeSet<String>>;

/// Prints all messages of the product by source file. With `since`, prints only what has changed since that commit:
/// messages that were removed after `-`, and those that were added after `+`.
pub(crate) fn print(since: Option<&str>) -> Result<()> {
    let now = messages(&Repository::read()?);
    let text = match since {
        None => changes(&Messages::new(), &now, "  ", "  "),
        Some(commit) => changes(&messages(&Repository::read_commit(commit)?), &now, "- ", "+ "),
    };
    io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// Returns the differences of two lists by source file. A removed message follows `removed`, and an added one `added`.
fn changes(before: &Messages, now: &Messages, removed: &str, added: &str) -> String {
    let none = BTreeSet::new();
    let files: BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let mut text = String::new();
    for file in files {
        let [old, new] = [before, now].map(|it| it.get(file).unwrap_or(&none));
        let lines = old.difference(new).map(|message| (removed, message));
        let lines: Vec<_> =
            lines.chain(new.difference(old).map(|message| (added, message))).collect();
        if !lines.is_empty() {
            text.extend([file, "\n"]);
            lines.iter().for_each(|(sign, message)| text.extend([sign, message.as_str(), "\n"]));
        }
    }
    text
}

fn messages(repository: &Repository) -> Messages {
    let is_shipped = |path: &str| path.starts_with("brokers/") || is_library(path);
    let shipped = repository.rust().filter(|it| it.path.contains("/src/") && is_shipped(&it.path));
    let of_file = |file: &File| {
        let mut reader = Reader { file, found: BTreeSet::new() };
        reader.read(&file.tokens, false);
        (file.path.clone(), reader.found)
    };
    let all = shipped.filter(|file| !file.is_test(1)).map(of_file);
    all.filter(|(_, messages)| !messages.is_empty()).collect()
}

/// Collects the messages of a file.
struct Reader<'r> {
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

impl Reader<'_> {
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
        let found = super::messages(&Repository::of(&[("runtime/src/a.rs", source)]));
        found.into_values().flatten().collect()
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
    fn tests_and_tools_have_no_messages() {
        let source =
            "const A: &str = \"it is\"; const B: &str = \"a word\"; const C: &str = \"it is\";";
        let repository = Repository::of(&[
            ("brokers/tests/src/lib.rs", source),
            ("brokers/nats/src/lib.rs", source),
            ("tremor-pdk/build.rs", source),
            ("tremor-pdk/src/lib.rs", "const A: &str = \"word\";"),
            ("xtask/src/main.rs", source),
        ]);
        let list = changes(&Messages::new(), &super::messages(&repository), "- ", "+ ");
        assert_eq!(list, "brokers/nats/src/lib.rs\n+ a word\n+ it is\n");
    }

    #[test]
    fn changed_messages_are_shown_by_file() {
        let list = |files: &[(&str, &str)]| super::messages(&Repository::of(files));
        let before = list(&[
            ("runtime/src/a.rs", "const A: &str = \"the same\"; const B: &str = \"old text\";"),
            ("runtime/src/gone.rs", "const A: &str = \"a message\";"),
            ("runtime/src/same.rs", "const A: &str = \"no change\";"),
        ]);
        let now = list(&[
            ("runtime/src/a.rs", "const A: &str = \"the same\"; const B: &str = \"new text\";"),
            ("runtime/src/same.rs", "const A: &str = \"no change\";"),
        ]);
        let expected =
            "runtime/src/a.rs\n- old text\n+ new text\nruntime/src/gone.rs\n- a message\n";
        assert_eq!(changes(&before, &now, "- ", "+ "), expected);
    }
}
