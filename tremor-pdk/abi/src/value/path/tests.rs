use super::*;
use crate::literal;

fn path(text: &str) -> Path {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn path_text_is_unchanged_by_parsing() {
    for text in
        ["", "a", "a.b[2].c", "[0][1]", "\"odd key\".x", "a.\"q\\\"b\\\\\"", "\"\"", "@t.$x"]
    {
        assert_eq!(path(text).to_string(), text);
    }
}

#[test]
fn invalid_path_names_the_offset() {
    for (text, offset) in [
        (".a", 0),
        ("a.", 1),
        ("a..b", 1),
        ("a b", 1),
        ("a[x]", 1),
        ("a[+1]", 1),
        ("a[1", 1),
        ("a[]", 1),
        ("a.\"b", 1),
        ("a.\"b\\x\"", 1),
        ("\"a\"b", 3),
        ("a[99999999999999999999]", 1),
    ] {
        assert_eq!(text.parse::<Path>().map_err(|error| error.offset), Err(offset), "{text}");
    }
}

#[test]
fn lookups_follow_keys_and_indexes() {
    let value = literal!({ "a": { "b": [0, 1, { "c d": "found" }] }, "": 1 });
    let found = path("a.b[2].\"c d\"");
    assert_eq!(value.get_path(&found), Some(&literal!("found")));
    assert_eq!(value.view().get_path(&found), Some(literal!("found").view()));
    assert_eq!(value.get_path(&path("")), Some(&value));
    assert_eq!(value.get_path(&path("\"\"")), Some(&literal!(1)));
    for absent in ["x", "a.x", "a.b[3]", "a[0]", "a.b.c"] {
        assert_eq!(value.get_path(&path(absent)), None, "{absent}");
        assert_eq!(value.view().get_path(&path(absent)), None, "{absent}");
    }
}

#[test]
fn setting_replaces_appends_and_creates_containers() {
    let mut value = literal!({ "a": [1] });
    assert_eq!(value.set_path(&path("a[0]"), 2), Ok(Some(literal!(1))));
    assert_eq!(value.set_path(&path("a[1]"), 3), Ok(None));
    assert_eq!(value.set_path(&path("b.c[0].d"), true), Ok(None));
    assert_eq!(value, literal!({ "a": [2, 3], "b": { "c": [{ "d": true }] } }));
    assert_eq!(value.set_path(&path(""), "all").map(|old| old.is_some()), Ok(true));
    assert_eq!(value, literal!("all"));
}

#[test]
fn mismatching_path_leaves_the_value_unchanged() {
    let original = literal!({ "a": [1], "b": "text", "n": null });
    for (impossible, segment) in
        [("a[2]", 1), ("a.x", 1), ("b.x", 1), ("b[0]", 1), ("n.x", 1), ("new[1]", 1), ("[0]", 0)]
    {
        let mut value = original.clone();
        let error = value.set_path(&path(impossible), 0).expect_err(impossible);
        assert_eq!(error.segment, segment, "{error}");
        assert_eq!(value, original);
    }
}

#[test]
fn removing_takes_the_last_segment() {
    let mut value = literal!({ "a": [1, 2, 3], "b": { "c": 1 } });
    assert_eq!(value.remove_path(&path("a[1]")), Some(literal!(2)));
    assert_eq!(value.remove_path(&path("b.c")), Some(literal!(1)));
    assert_eq!(value.remove_path(&path("b.c")), None);
    assert_eq!(value, literal!({ "a": [1, 3], "b": {} }));
    assert!(value.remove_path(&path("")).is_some());
    assert!(value.is_null());
}
