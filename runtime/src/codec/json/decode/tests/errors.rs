//! Messages of errors.

use super::reject;

#[test]
fn invalid_json_is_rejected_with_its_position() {
    for (message, expected) in [
        ("", "empty message, expected a JSON value at byte 0"),
        (" \n", "blank message, expected a JSON value at byte 0"),
        ("\0", "expected a JSON value, found byte 0x00 at byte 0"),
        ("1\0", "the number 1 is not valid at byte 0"),
        ("[faulty]", "expected a JSON value, found `faulty` at byte 1"),
        ("[\"a\", .5]", "expected a JSON value, found `.` at byte 6"),
        ("[1,]", "expected a JSON value, found `]` at byte 3"),
        ("[,1]", "expected a JSON value, found `,` at byte 1"),
        ("[1 2]", "expected `,` or `]`, found `2` at byte 3"),
        ("[1", "the message ends within a value at byte 2"),
        ("{\"a\":1", "the message ends within a value at byte 6"),
        ("[1}", "expected `,` or `]`, found `}` at byte 2"),
        ("{\"a\" 1}", "expected `:`, found `1` at byte 5"),
        ("{\"a\":}", "expected a JSON value, found `}` at byte 5"),
        ("{\"a\":1,}", "expected a key, found `}` at byte 7"),
        ("{1:1}", "expected `,`, `}` or a key, found `1` at byte 1"),
        ("{'a':1}", "expected `,`, `}` or a key, found `'` at byte 1"),
        ("{\"a\":1 \"b\":2}", "expected `,`, `}` or a key, found `\"` at byte 7"),
        ("[1] x", "trailing characters at byte 4"),
        ("1 2", "trailing characters at byte 2"),
        ("\"a", "unterminated string at byte 0"),
        ("[\"a\", \"b]", "unterminated string at byte 6"),
        ("[\"a\nb\"]", "unescaped control character 0x0a in a string at byte 3"),
        ("[\"\0\"]", "unescaped control character 0x00 in a string at byte 2"),
        ("/**/1", "expected a JSON value, found `/` at byte 0"),
        ("\u{feff}\u{feff}1", "expected a JSON value, found byte 0xef at byte 0"),
        ("1\u{feff}", "the number 1 is not valid at byte 0"),
    ] {
        reject(message, expected);
    }
}

#[test]
fn word_in_place_of_value_is_shown_with_advice() {
    let no_json =
        "; the message is not JSON: set the `codec` of its format, such as `string` for text";
    let literals = "; JSON writes `true`, `false` and `null` in lower case";
    for (message, found, advice) in [
        ("nul", "`nul` at byte 0", no_json),
        ("nginx: ok", "`nginx` at byte 0", no_json),
        ("Hello", "`Hello` at byte 0", no_json),
        ("\u{feff}x", "`x` at byte 3", no_json),
        ("abcdefghijklmnopqrs", "`abcdefghijklmnop…` at byte 0", no_json),
        ("True", "`True` at byte 0", literals),
        ("{\"a\":None}", "`None` at byte 5", literals),
    ] {
        reject(message, &format!("expected a JSON value, found {found}{advice}"));
    }
}

#[test]
fn several_lines_in_one_message_name_the_missing_preprocessor() {
    let message = "{\"a\":1}\n{\"a\":2}";
    reject(
        message,
        "trailing characters at byte 8; the message has several lines: if each is a message, add \
         `lines` to `preprocessors`",
    );
}
