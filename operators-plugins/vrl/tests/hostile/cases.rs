//! Programs and events that exceed a limit, with the error that names it.

use std::{fmt::Write as _, io::Write as _};

use serde_json::{Value as Json, json};

use crate::{announce, check_memory, nested, operator, process};

/// Program, value of `.a` in a good event, value of `.a` in an event that exceeds a limit, and part of its error.
type Case = (&'static str, Json, Json, &'static str);

pub(crate) fn run() {
    for (source, good, hostile, expected) in cases() {
        let mut operator = operator(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let event = |value: &Json| json!({ "a": value, "b": "x" });
        process(&mut operator, &event(&good)).unwrap_or_else(|error| panic!("{source}: {error}"));
        let hostile = event(&hostile);
        let before = announce(source);
        let error = process(&mut operator, &hostile).expect_err(source);
        check_memory(source, before);
        assert!(error.contains(expected) && error.len() < 5_000, "{source}: {error:.1000}");
        process(&mut operator, &event(&good)).unwrap_or_else(|error| panic!("{source}: {error}"));
    }
}

fn cases() -> Vec<Case> {
    let mut cases = depth();
    cases.extend(sizes());
    cases.extend(pairs());
    cases.extend(loops());
    cases.extend(compressed());
    cases
}

/// Events and texts with many or deep values.
fn depth() -> Vec<Case> {
    let elements = |levels: usize| json!("<a>".repeat(levels) + &"</a>".repeat(levels));
    let hash = |levels: usize| json!("{a: ".repeat(levels) + "1" + &"}".repeat(levels));
    let keys = |levels: usize| json!({ "a.".repeat(levels): 1 });
    let path = |levels: usize| json!(vec!["a"; levels]);
    vec![
        (".x = parse_xml!(.a)", elements(3), elements(6_000), "nested elements"),
        (".x = parse_xml!(.a)", elements(100), elements(200), "at most 128"),
        (
            ".x = parse_xml!(.a)",
            json!("<a b='/>'><!-- </a> --><c/></a>"),
            json!("<a><!-- </a></a> --><![CDATA[</a>]]>".repeat(200)),
            "nested elements",
        ),
        (".x = parse_ruby_hash!(.a)", hash(3), hash(20_000), "nested levels"),
        (
            ".x = parse_ruby_hash!(.a)",
            json!(r#"{a: "}\"}", b: '{'}"#),
            json!(r#"{a: {b: "}}", c: "#.repeat(10_000)),
            "nested levels",
        ),
        (".x = unflatten!(.a)", keys(3), keys(100_000), "nested parts of keys"),
        (".x = set!({}, .a, 1)", path(3), path(100_000), "segments of `path`"),
        (
            "x = 1; for_each(array!(.a)) -> |_, _| { x = [x] }; .x = x",
            json!([1, 2]),
            json!(vec![1; 90_000]),
            "nested too deeply",
        ),
        (
            "x = 1; for_each(array!(.a)) -> |_, _| { x = { \"a\": x } }; .x = x",
            json!([1, 2]),
            json!(vec![1; 90_000]),
            "nested too deeply",
        ),
        (
            "x = []; for_each(array!(.a)) -> |_, _| { x = push([], x) }; .x = x == x",
            json!([1, 2]),
            json!(vec![1; 90_000]),
            "nested too deeply",
        ),
        (
            "for_each(array!(.a)) -> |_, _| { .x = [.x] }",
            json!([1, 2]),
            json!(vec![1; 90_000]),
            "nested too deeply",
        ),
        (
            "if is_array(.a) { .x = map_values([[1]], recursive: true) -> |v| { [v] } }",
            json!(1),
            json!([1]),
            "nested too deeply",
        ),
        (".x = flatten!(.a)", json!([[], [1]]), json!(vec![json!([]); 200_000]), "nested arrays"),
        (
            ".x = flatten!(.a)",
            json!({ "a": {}, "b": { "c": 1 } }),
            (0..200_000).map(|n| (n.to_string(), json!({}))).collect(),
            "nested objects",
        ),
        (
            ".x = length(array!(.a))",
            json!([{}]),
            json!(vec![json!({ "a": 1 }); 300_000]),
            "take more than 128 MiB as values of VRL",
        ),
        (".x = .a; .y = [.a]", nested(10), nested(511), "nested deeper than 512"),
    ]
}

/// Arguments with large results.
fn sizes() -> Vec<Case> {
    let text = |count: usize| json!("a".repeat(count));
    let words = |count: usize| json!("a,".repeat(count));
    let mebibyte = 1 << 20;
    let wide = |count: usize| -> Json {
        let inner: Json = (0..count).map(|n| (n.to_string(), json!(1))).collect();
        json!({ "k".repeat(10 * count): inner })
    };
    let zeros = |count: usize| json!(vec![0; count]);
    vec![
        (".x = if is_array(.a) { zip!(.a) }", json!([[1], [2]]), json!([]), "at least one array"),
        (".x = set!([], [.a], 1)", json!(3), json!(400_000_000), "it may take"),
        (".x = set!([], [.a], 1)", json!(-3), json!(i64::MIN), "it may take"),
        (".x = unflatten!({ \"a.b\": 1 }, .a)", json!("."), json!(""), "`separator` is empty"),
        (".x = format_number!(1, scale: .a)", json!(3), json!(-1), "invalid `scale` -1"),
        (".x = format_number!(1, scale: .a)", json!(3), json!(4_000_000_000_u32), "0 to 1000"),
        (".x = format_number!(.a)", json!(1.5), json!(1e300), "cannot format 1e300"),
        (
            ".x = string!(.b) * int!(.a)",
            json!(3),
            json!(10_000_000_000_u64),
            "10000000000 times exceeds",
        ),
        (".x, err = .b * .a; if err != null { abort }", json!(3), json!("x"), "aborted"),
        (".x = replace!(.a, \"\", .a)", text(10), text(mebibyte), "it may take"),
        (".x = replace!(.a, r'a', .a)", text(10), text(mebibyte), "it may take"),
        (".x = replace!(.a, r'a+', \"$0\" * 200)", text(10), text(mebibyte), "it may take"),
        (
            ".x = sieve!(.a, r'[b]', replace_repeated: .a, replace_single: .a)",
            json!("abab"),
            json!("ab".repeat(mebibyte)),
            "it may take",
        ),
        (".x = join!(split!(.a, \",\"), .a)", words(10), words(20_000), "it may take"),
        (".x = split!(.a, \"\")", text(10), text(3 * mebibyte), "it may take"),
        (".x = chunks!(.a, 1)", text(10), text(3 * mebibyte), "it may take"),
        (".x = flatten!(.a)", wide(10), wide(20_000), "it may take"),
        (".x = encode_key_value!(.a)", wide(10), wide(20_000), "it may take"),
        (".x = encode_logfmt!(.a)", wide(10), wide(20_000), "it may take"),
        (
            ".x = encode_json(.a, pretty: true)",
            json!([1]),
            (0..500).fold(zeros(200_000), |inner, _| json!([inner])),
            "it may take",
        ),
        (".x = unnest!(.a)", zeros(3), zeros(150_000), "copies of the event"),
        (".x = tag_types_externally(.a)", zeros(3), zeros(150_000), "it may take"),
        (".x = to_entries!(.a)", zeros(3), zeros(150_000), "it may take"),
        (".x = contains_all!(.a, split!(.a, \",\"))", words(3), words(40_000), "steps"),
        (".x = find!(.a, .a)", text(9), text(mebibyte), "steps"),
        (".x = encode_zstd!(\"a\", .a)", json!(3), json!(22), "expected at most 19"),
        (".x = encode_zstd!(\"a\", .a)", json!(-3), json!(i64::MIN), "expected at most 19"),
        (
            ".x = unflatten!(object!(.a.keys), string!(.a.separator))",
            json!({ "keys": { "b.c": 1 }, "separator": "." }),
            json!({ "keys": wide(30_000), "separator": "'".repeat(60_000) }),
            "steps of the search",
        ),
        (".x = parse_regex_all!(.a, r'(?P<a>.)')", text(10), text(100_000), "it may take"),
        (
            ".x = parse_influxdb!(.a)",
            json!("m,t=a f=1,g=2"),
            json!(format!("m,t={} {}f=1", "a".repeat(20_000), "f=1,".repeat(5_000))),
            "it may take",
        ),
        (
            ".x = parse_yaml!(.a)",
            json!("a: &x [1]\nb: *x"),
            json!(format!("a: &x [{}]\nb: [{}]", "1,".repeat(5_000), "*x,".repeat(5_000))),
            "it may take",
        ),
        (".x = parse_yaml!(.a)", json!("[[1]]"), json!("[".repeat(100_000)), "brackets"),
        (
            ".x = parse_json!(.a)",
            json!("[{}]"),
            json!(format!("[{}1]", "{\"a\":1},".repeat(70_000))),
            "it may take",
        ),
        (".x = parse_xml!(.a)", json!("<a/>"), json!("<a b=''/>".repeat(50_000)), "it may take"),
        (
            ".x = parse_xml!(.a)",
            json!("<a/>"),
            json!(format!("<a {}/>", vec!["b=''"; 5_000].join(" "))),
            "attributes of an element",
        ),
        (".x = parse_cef!(.a)", json!("CEF:0|a|b|c|d|e|f|g=h"), json!(" ".repeat(5_000)), "spaces"),
        (
            ".x = decode_punycode!(.a)",
            json!("xn--bcher-kva.de"),
            text(mebibyte),
            "bytes of a label",
        ),
        (".x = to_regex!(.a)", json!("a+"), text(10_000), "bytes of the regular expression"),
        (".x = camelcase!(.a)", json!("a b"), json!("a ".repeat(mebibyte)), "it may take"),
    ]
}

/// Texts of pairs with many fields that have no value.
fn pairs() -> Vec<Case> {
    vec![
        (
            ".x = parse_key_value!(.a)",
            json!("a=b"),
            json!("a ".repeat(1 << 20)),
            "bytes of the text",
        ),
        (
            ".x = parse_key_value!(.a)",
            json!("a=b ".repeat(60_000)),
            json!("a ".repeat(100_000)),
            "steps of the search",
        ),
        (
            ".x = parse_logfmt!(.a)",
            json!("a ".repeat(10_000)),
            json!(format!("{}=", "a b\n".repeat(60_000))),
            "steps of the search",
        ),
    ]
}

/// Values that expressions build without a function.
fn loops() -> Vec<Case> {
    let many = json!(vec![1; 50_000]);
    vec![
        (
            "s = \"a\"; for_each(array!(.a)) -> |_, _| { s = s + s }; .x = s",
            json!([1, 2]),
            many.clone(),
            "its values take",
        ),
        (
            "x = [1]; for_each(array!(.a)) -> |_, _| { x = [x, x] }; .x = x",
            json!([1, 2]),
            many.clone(),
            "its values take",
        ),
        (
            "x = [1]; for_each(array!(.a)) -> |_, _| { x = append(x, x) }; .x = x",
            json!([1, 2]),
            many.clone(),
            "its values take",
        ),
        (
            "s = \"\"; .x = replace_with(string!(.b) * length(array!(.a)), r'x') -> |_| { \"a\" * 100_000 }",
            json!([1, 2]),
            many.clone(),
            "its values take",
        ),
        (
            "x = []; for_each(array!(.a)) -> |_, v| { x = push(x, v) }; .x = length(x)",
            json!([1, 2]),
            json!(vec![1; 90_000]),
            "it copies values of 819",
        ),
        (
            "n = 0; x = array!(.a); for_each(x) -> |_, _| { for_each(x) -> |_, _| { n = n + 1 } }; .n = n",
            json!([1, 2]),
            many,
            "10000000 expressions",
        ),
    ]
}

/// Data that decodes to far more.
fn compressed() -> Vec<Case> {
    let zeros = vec![0; 200 << 20];
    let gzip = |data: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).expect("a vector takes all data");
        hex(&encoder.finish().expect("a vector takes all data"))
    };
    let zlib = |data: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).expect("a vector takes all data");
        hex(&encoder.finish().expect("a vector takes all data"))
    };
    let zstd = |data: &[u8]| hex(&zstd::encode_all(data, 1).expect("a vector takes all data"));
    let lz4 = |data: &[u8]| {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(data).expect("a vector takes all data");
        hex(&encoder.finish().expect("a vector takes all data"))
    };
    vec![
        (".x = decode_gzip!(decode_base16!(.a))", gzip(b"a"), gzip(&zeros), "it may take"),
        (".x = decode_zlib!(decode_base16!(.a))", zlib(b"a"), zlib(&zeros), "it may take"),
        (".x = decode_zstd!(decode_base16!(.a))", zstd(b"a"), zstd(&zeros), "it may take"),
        (".x = decode_lz4!(decode_base16!(.a))", lz4(b"a"), lz4(&zeros), "it may take"),
        (
            ".x = decode_lz4!(decode_base16!(\"1061\"), buf_size: int!(.a))",
            json!(100),
            json!(-1),
            "it may take",
        ),
        (
            ".x = decode_lz4!(decode_base16!(.a), prepended_size: true)",
            json!("010000001061"),
            json!("ffffffff1061"),
            "it may take",
        ),
        (
            ".x = decode_snappy!(decode_base16!(.a))",
            json!("010061"),
            json!("ffffffff0f0061"),
            "it may take",
        ),
    ]
}

fn hex(data: &[u8]) -> Json {
    let mut text = String::new();
    for byte in data {
        write!(text, "{byte:02x}").expect("a text takes all data");
    }
    json!(text)
}
