//! Translation of the parser's errors into messages that help to fix a flow file.

use std::sync::Arc;

use saphyr_parser::ScanError;

use super::super::{
    diagnostic::Diagnostic,
    source::{Source, Span},
};

/// A part of the parser's message, the message for the user, and the advice. The first entry that matches is used.
const WORDS: &[(&str, &str, &str)] = &[
    ("tab ", TAB, "indent with spaces"),
    ("tabs ", TAB, "indent with spaces"),
    ("mapping values are not allowed", COLON, QUOTE_COLON),
    ("illegal placement of ':'", COLON, QUOTE_COLON),
    (
        "simple key expect",
        NO_COLON,
        "write `key: value`; a text over several lines starts with `|`",
    ),
    ("simple key expected", NO_COLON, "write `key: value`; quote a text that starts with a `?`"),
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
        "close the map, put `,` between its entries, and quote texts with special characters",
    ),
    (
        "flow sequence, expected ',' or ']'",
        "expected `,` or `]` in a list that `[` opened",
        "close the list, and put `,` between its items",
    ),
    ("invalid indentation in quoted scalar", OPEN_QUOTE, "close the quotation mark"),
    ("unexpected end of stream", OPEN_QUOTE, "close the quotation mark"),
    ("unexpected document indicator", OPEN_QUOTE, "close the quotation mark"),
    (
        "invalid indentation in flow construct",
        "expected `}` or `]` before the next line of the outer map",
        "close what `{` or `[` opened, or indent its further lines",
    ),
    (
        "invalid indentation",
        "this line is indented differently from its neighbours",
        "indent keys that belong together alike",
    ),
    (
        "unknown escape character",
        "this text contains an unknown escape sequence",
        "write `\\\\` for a backslash, or use single quotes, which have no escape sequences",
    ),
    (
        "unknown anchor",
        "this alias names an anchor that is not defined above it",
        "define it with `&name`, or quote a text that starts with `*`",
    ),
    (
        "document start",
        "expected another key or the end of the file, found something else",
        "check the indentation, and for a bracket or a quotation mark too many",
    ),
    ("misplaced bracket", "this bracket closes nothing", "remove it, or open the list or map"),
    (
        "invalid trailing content",
        "unexpected characters follow the closing quotation mark",
        "quote the whole text; in single quotes, write `''` for a single quote",
    ),
    ("unexpected character", "no text can start with this character", "quote the text"),
    (
        "recursion limit",
        "lists and maps nest too deep",
        "a flow needs a few levels; check for brackets that are never closed",
    ),
    (
        "block sequence entries are not allowed",
        "a list cannot start here",
        "put the list on lines of its own, below its key",
    ),
    (
        "did not find expected node content",
        "expected a value, found something else",
        "quote texts that contain `,`, `[`, `]`, `{`, `}`, `&`, `*`, `!` or `%`",
    ),
];

const TAB: &str = "a tab is used where YAML allows only spaces";
const COLON: &str = "unexpected `:`: no key can be here";
const QUOTE_COLON: &str =
    "quote a text that contains `: `, and check how far this line is indented";
const NO_COLON: &str = "expected `:` after a key";
const OPEN_QUOTE: &str = "a quotation mark is never closed";

/// Converts an error of the parser to a diagnostic. `open` is the location of the innermost `[` or `{` that was not
/// closed.
pub(super) fn explain(source: &Arc<Source>, error: &ScanError, open: Option<Span>) -> Diagnostic {
    let mark = error.marker();
    let mut at = Span { line: mark.line().max(1), column: mark.col() + 1, width: 1 };
    let words = WORDS.iter().find(|(part, ..)| error.info().contains(part));
    // The parser may notice only on a later line that a `:` is missing.
    let misses = words.is_some_and(|(_, message, _)| *message == NO_COLON);
    while at.line > 1 && (source.line(at.line).trim().is_empty() || misses && is_start(source, at))
    {
        at.line -= 1;
        at.column = source.line(at.line).trim_end().chars().count() + 1;
    }
    if source.line(at.line).chars().skip(at.column.saturating_sub(2)).take(2).eq("${".chars()) {
        let at = Span { column: at.column - 1, width: 2, ..at };
        let message = "a reference within `{…}` or `[…]` needs quotes";
        return Diagnostic::error(Arc::clone(source), at, message).help(
            "put the whole value in quotes; for a number, write its key on a line of its own",
        );
    }
    let open = open.filter(|open| open.line < at.line);
    let diagnostic = match words {
        Some((_, COLON, _)) if open.is_some() => {
            let message = "this key is in a list or map that is still open from a line above";
            Diagnostic::error(Arc::clone(source), at, message).help("close it with `]` or `}`")
        }
        Some((_, message, help)) => Diagnostic::error(Arc::clone(source), at, *message).help(*help),
        None => {
            let message = format!("not valid YAML: {}", error.info());
            Diagnostic::error(Arc::clone(source), at, message)
                .help("check the indentation, and quote texts with special characters")
        }
    };
    match open {
        Some(open) => diagnostic.note(open, "it was opened here"),
        None => diagnostic,
    }
}

fn is_start(source: &Source, at: Span) -> bool {
    source.line(at.line).chars().take(at.column - 1).all(char::is_whitespace)
}

/// Rejects characters that YAML 1.2 permits nowhere (section 5.1). The parser would accept some of them, and would take
/// NUL for the end of the file.
pub(super) fn reject_control_characters(source: &Arc<Source>) -> Result<(), Diagnostic> {
    let is_forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    let Some((before, rest)) =
        source.text().find(is_forbidden).map(|byte| source.text().split_at(byte))
    else {
        return Ok(());
    };
    let before = Source::new(std::path::PathBuf::new(), before.to_owned());
    let at = before.end();
    let code = rest.chars().next().map_or(0, u32::from);
    Err(Diagnostic::error(
        Arc::clone(source),
        at,
        format!("the control character U+{code:04X} is not allowed in a flow file"),
    )
    .help("remove it, or write it as an escape sequence in double quotes; check that this is a text file"))
}
