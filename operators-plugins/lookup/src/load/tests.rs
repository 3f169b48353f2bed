//! Tests of files: their formats, and the mistakes in them.

use std::fs;

use tremor_pdk::{Batch, Error, testing::TestHost};

use super::load;
use crate::{
    config::{By, Format, TableConfig},
    record::Limited,
    table::Table,
};

fn config(format: Format) -> TableConfig {
    TableConfig {
        format,
        delimiter: b',',
        column: None,
        by: By::Exact,
        fields: None,
        max_memory: 64 << 20,
    }
}

fn loaded(config: &TableConfig, contents: &[u8]) -> Result<Table, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    fs::write(&path, contents).unwrap();
    load(&path, config, TestHost::new().host().memory())
}

/// Returns the row of a key as JSON.
fn row(table: &Table, key: &str) -> Option<String> {
    let row = table.find(key)?;
    let mut batch = Batch::new();
    batch.push(&()).unwrap();
    let mut event = batch.last_mut().unwrap();
    let written = event.write_value(|out| {
        row.write(&mut Limited::new(out, usize::MAX));
        Ok(())
    });
    written.unwrap();
    Some(event.value().unwrap().to_string())
}

#[test]
fn csv_is_read_with_quotes_and_a_byte_order_mark() {
    let text = "\u{feff}host,team,note\r\nweb-1,shop,\"a, \"\"b\"\"\nc\"\r\n\r\nweb-2,,x\n";
    let table = loaded(&config(Format::Csv), text.as_bytes()).unwrap();
    assert_eq!(row(&table, "web-1").unwrap(), r#"{"team":"shop","note":"a, \"b\"\nc"}"#);
    assert_eq!(row(&table, "web-2").unwrap(), r#"{"team":"","note":"x"}"#);
    assert_eq!(row(&table, "host"), None);
    let chosen = TableConfig {
        delimiter: b';',
        column: Some("team".to_owned()),
        fields: Some(vec!["note".to_owned(), "team".to_owned()]),
        ..config(Format::Csv)
    };
    let table = loaded(&chosen, b"host;team;note\nweb-1;shop;n").unwrap();
    assert_eq!(row(&table, "shop").unwrap(), r#"{"note":"n","team":"shop"}"#);
}

#[test]
fn json_lines_keep_types_and_exact_numbers() {
    let text = r#"
        {"id": 7, "a": [1, {"b": null}], "t": true, "big": 12345678901234567890123, "f": 1.5}
        {"other": "\u00e4\n", "id": "x", "id2": -0.0}
    "#;
    let table = loaded(&config(Format::JsonLines), text.as_bytes()).unwrap();
    let expected = r#"{"a":[1,{"b":null}],"t":true,"big":12345678901234567890123,"f":1.5}"#;
    assert_eq!(row(&table, "7").unwrap(), expected);
    assert_eq!(row(&table, "x").unwrap(), "{\"other\":\"\u{e4}\\n\",\"id2\":-0.0}");
}

#[test]
fn last_value_of_a_repeated_field_is_kept() {
    let json = br#"{"id":1,"a":1,"b":2,"a":{"x":1,"x":[2,2]},"id":"7"}"#;
    let table = loaded(&config(Format::JsonLines), json).unwrap();
    assert_eq!(row(&table, "7").unwrap(), r#"{"a":{"x":[2,2]},"b":2}"#);
    assert_eq!(row(&table, "1"), None);
}

#[test]
fn names_of_columns_count_towards_the_memory() {
    let long = "n".repeat(100_000);
    let small = |format| TableConfig { max_memory: 50_000, ..config(format) };
    let line = |number| format!("{{\"id\":{number},\"{number}{}\":1}}\n", &long[..9_000]);
    let lines = |count: usize| (0..count).map(line).collect::<Vec<_>>().concat();
    for (format, text, expected) in [
        (Format::Csv, format!("a,{long}\n1,2\n"), "50000 bytes, the value of `max_memory`"),
        (
            Format::JsonLines,
            format!("{{\"a\":1,\"{long}\":2}}\n"),
            "line 1: the table takes more than",
        ),
        (Format::JsonLines, lines(9), "line 4: the table takes more than 50000 bytes"),
    ] {
        let error = loaded(&small(format), text.as_bytes()).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let table = loaded(&small(Format::JsonLines), lines(2).as_bytes()).unwrap();
    assert!(table.bytes() > 18_000, "{}", table.bytes());
}

#[test]
fn mistakes_are_reported_with_their_line() {
    let csv = config(Format::Csv);
    let cidr = TableConfig { by: By::Cidr, ..csv.clone() };
    let column = TableConfig { column: Some("hots".to_owned()), ..csv.clone() };
    let fields = TableConfig { fields: Some(vec!["taem".to_owned()]), ..csv.clone() };
    let json = config(Format::JsonLines);
    let json_fields = TableConfig { format: Format::JsonLines, ..fields.clone() };
    let json_column = TableConfig { format: Format::JsonLines, ..column.clone() };
    let deep = format!("{{\"a\":1,\"b\":{}1{}}}", "[".repeat(40), "]".repeat(40));
    let long = format!("a,b\n1,\"{}\n", "x\n".repeat(1 << 20));
    let cases: [(&TableConfig, &[u8], &str); 18] = [
        (&csv, b"", "the file is empty"),
        (&json, b"\n", "the file is empty"),
        (&csv, b"a,b\n1,2\n\n3\n", "line 4: expected 2 values, as in the first line, found 1"),
        (&csv, b"\xef\xbb\xbfa,b\r\n1,2\r\n3\r\n", "line 3: expected 2 values"),
        (&csv, b"a,a\n", "line 1: the column `a` appears twice"),
        (&csv, b"a,b\n1,\"x\ny\"\n2,\xff\n", "line 4: the value of the column `b` is not UTF-8"),
        (&csv, b"a,\xff\n", "line 1: the value of the column `2` is not UTF-8"),
        (&column, b"host,b\n", "invalid `match`: the table has no column `hots`"),
        (&fields, b"host,team\n", "no column `taem`; its columns are `host`, `team`"),
        (&cidr, b"net,x\n10.0.0.0/8,1\n10.0.0.1/8,2\n", "line 3: invalid key \"10.0.0.1/8\""),
        (&json, b"{\"a\":1}\n[]\n", "line 2: expected a JSON object"),
        (&json, b"{\"a\":1}\n{\"b\":1}\n", "line 2: the row has no field `a`"),
        (&json, b"{\"a\":null}\n", "line 1: `a` is not a text or a number"),
        (&json, b"{\"a\":1}\n\n{\"a\":\"\xff\"}\n", "line 3: not UTF-8 at byte 6"),
        (&json_fields, b"{\"a\":1}\n", "no column `taem`; its columns are `a`"),
        (&json_column, b"{\"a\":1}\n", "line 1: the row has no field `hots`"),
        (&json, deep.as_bytes(), "line 1: `b`: more than 32 nested arrays and objects"),
        (&csv, long.as_bytes(), "line 2: a row takes more than 1048576 bytes"),
    ];
    for (config, contents, expected) in cases {
        let error = loaded(config, contents).err().unwrap().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(error.contains("cannot read the table `"), "{error}");
    }
}

#[test]
fn quotation_marks_that_rfc_4180_does_not_allow_are_rejected() {
    let csv = config(Format::Csv);
    let semicolon = TableConfig { delimiter: b';', ..csv.clone() };
    let within = "`\"` within a value without quotes: put the value in quotes";
    let behind = "expected the delimiter or the end of the row after a quoted value";
    let unclosed = "the quotation mark is never closed: add the closing `\"`";
    let long = format!("a,b\n1,\"{}", "x\n".repeat(100_000));
    for (config, text, expected) in [
        (&csv, "a,b\n1,\"x\n2,y\n3,z\n", format!("line 2, column 3: {unclosed}")),
        (&csv, "a,b\n1,\"x\"\"", format!("line 2, column 3: {unclosed}")),
        (&csv, &*long, format!("line 2, column 3: {unclosed}")),
        (&csv, "a,\"b\n", format!("line 1, column 3: {unclosed}")),
        (&csv, "a,b\r\n1,sh\"op\r\n", format!("line 2, column 5: {within}")),
        (&csv, "a,b\n\u{e4}\u{65e5},\"x\ny\"z\n", format!("line 3, column 3: {behind}")),
        (&csv, "a,b\n1,\"x\" \n", format!("line 2, column 6: {behind}")),
        (&csv, "a,b\n1,\"x\";\n", format!("line 2, column 6: {behind}")),
        (&semicolon, "a;b\n1; \"x\"\n", format!("line 2, column 4: {within}")),
    ] {
        let error = loaded(config, text.as_bytes()).err().unwrap().to_string();
        assert!(error.contains(&expected), "{expected}: {error}");
    }
    for (config, text, expected) in [
        (&csv, "a,b,c\n\"1\",\"\",\"\"\"x\"\"\"", r#"{"b":"","c":"\"x\""}"#),
        (&csv, "a,b,c\r1,\"x\ry\",'\r", r#"{"b":"x\ry","c":"'"}"#),
        (&semicolon, "a;b;c\n1;\"x;y\";,\n", r#"{"b":"x;y","c":","}"#),
    ] {
        let table = loaded(config, text.as_bytes()).unwrap();
        assert_eq!(row(&table, "1").as_deref(), Some(expected), "{text}");
    }
}
