//! What the YAML parser says, in the words of somebody who wants to mend a flow file.

use saphyr_parser::ScanError;

use super::super::{
    diagnostic::Diagnostic,
    source::{Source, Span},
};
use std::sync::Arc;

/// Part of the parser's message, our message, what to do about it. The first that fits is taken.
const WORDS: &[(&str, &str, &str)] = &[
    ("tab", "a tab stands where YAML allows only spaces", "indent with spaces"),
    (
        "mapping values are not allowed",
        "a `:` stands where no key can be",
        "quote a text that contains `: `, and check how far this line is indented",
    ),
    (
        "illegal placement of ':'",
        "a `:` stands where no key can be",
        "quote a text that contains `: `, and check how far this line is indented",
    ),
    (
        "simple key expect ':'",
        "a `:` is missing after this key",
        "write `key: value`; a text over several lines starts with `|` or `>`",
    ),
    (
        "block mapping, did not find expected key",
        "expected a key of the map above, found something else",
        "indent all keys of one map alike, and write each as `key: value`",
    ),
    (
        "did not find expected '-' indicator",
        "expected another `- item` of the list above, found something else",
        "indent all items of one list alike, each with its `-`",
    ),
    (
        "flow mapping, did not find expected ',' or '}'",
        "expected `,` or `}` in a map that `{` opened",
        "close the map with `}`, put `,` between its entries, and quote texts with special characters",
    ),
    (
        "flow sequence, expected ',' or ']'",
        "expected `,` or `]` in a list that `[` opened",
        "close the list with `]`, and put `,` between its items",
    ),
    ("unexpected end of stream", "a quotation mark is never closed", "close the quotes"),
    ("unexpected document indicator", "a quotation mark is never closed", "close the quotes"),
    (
        "invalid indentation in flow construct",
        "what `{` or `[` opened is not closed before the next line of the outer map",
        "close it, or indent its further lines",
    ),
    (
        "invalid indentation",
        "this line is indented differently from its neighbours",
        "indent keys that belong together alike",
    ),
    (
        "unknown escape character",
        "this escape is not known in double quotes",
        "write `\\\\` for a backslash, or use single quotes, in which nothing is escaped",
    ),
    (
        "unknown anchor",
        "this alias names an anchor that is not defined above it",
        "define it with `&name`, or quote a text that starts with `*`",
    ),
    ("unexpected character", "no text can start with this character", "quote the text"),
    (
        "recursion limit",
        "lists and maps are nested too deep",
        "a flow needs a few levels; check for brackets that are never closed",
    ),
    (
        "block sequence entries are not allowed",
        "a `-` stands where no list can start",
        "put the list on lines of its own, below its key",
    ),
    (
        "did not find expected node content",
        "expected a value, found something else",
        "quote texts that contain `,`, `[`, `]`, `{`, `}`, `&`, `*`, `!` or `%`",
    ),
    (
        "unprintable",
        "a control character stands here",
        "remove it, or write it as an escape in double quotes",
    ),
];

pub(super) fn explain(source: &Arc<Source>, error: &ScanError) -> Diagnostic {
    let mark = error.marker();
    // The parser may find out only behind the last line that something is missing.
    let mut line = mark.line().max(1);
    let mut column = mark.col() + 1;
    while line > 1 && source.line(line).trim().is_empty() {
        line -= 1;
        column = source.line(line).trim_end().chars().count() + 1;
    }
    let at = Span { line, column, width: 1 };
    match WORDS.iter().find(|(part, ..)| error.info().contains(part)) {
        Some((_, message, help)) => Diagnostic::error(Arc::clone(source), at, *message).help(*help),
        None => {
            Diagnostic::error(Arc::clone(source), at, format!("not valid YAML: {}", error.info()))
                .help("check the indentation, and quote texts with special characters")
        }
    }
}
