//! Calls of each function of the crate with hostile arguments that are drawn.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value as Json, json};
use vrl::{
    compiler::{
        Function, TargetValue, TimeZone, compile, function::Parameter, runtime::Runtime,
        value::kind,
    },
    value::{ObjectMap, Secrets, Value},
};

use crate::{announce, check_memory, nested, operator, process};

/// Number of events for each function without a time.
const EVENTS: usize = 12;

/// Maximum number of parts of a drawn argument, without a time and with one.
const MOST: [usize; 2] = [20_000, 300_000];

/// Functions whose arguments must name files, or that wait for the network.
const LEFT_OUT: [&str; 6] = [
    "parse_proto",
    "encode_proto",
    "validate_json_schema",
    "http_request",
    "dns_lookup",
    "reverse_dns",
];

/// Maximum processor time of an event. The functions are not optimised in a test.
const MOST_TIME: Duration = Duration::from_mins(1);

/// Calls the functions until the time is over. Without a time, the events are the same in each run.
pub(crate) fn run(seconds: u64) {
    let start = Instant::now();
    let seed = if seconds == 0 { 1 } else { u64::from(std::process::id()) };
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let most = MOST[usize::from(seconds > 0)];
    let functions = vrl::stdlib::all();
    let called = functions.iter().filter(|it| !LEFT_OUT.contains(&it.identifier()));
    let (programs, errors): (Vec<_>, Vec<_>) =
        called.map(|it| program(&**it)).partition(Result::is_ok);
    let errors: Vec<_> = errors.into_iter().filter_map(Result::err).collect();
    assert!(errors.is_empty(), "add an argument to `literal`: {}", errors.concat());
    loop {
        for (source, dynamic) in programs.iter().flatten() {
            call(source, dynamic, most, EVENTS, &mut draw);
        }
        if start.elapsed() >= Duration::from_secs(seconds) {
            return;
        }
    }
}

/// Calls a function with the arguments of a seed that failed.
pub(crate) fn replay(function: &str, seed: u64) {
    let functions = vrl::stdlib::all();
    let function = functions.iter().find(|it| it.identifier() == function);
    let function = function.expect("the case names a function of the crate");
    let (source, dynamic) = program(&**function).expect("the program compiled before");
    for most in MOST {
        call(&source, &dynamic, most, 1, &mut Draw(seed));
    }
}

/// Runs a program with drawn arguments, for a number of events.
fn call(source: &str, dynamic: &[Parameter], most: usize, events: usize, draw: &mut Draw) {
    let mut operator = operator(source).expect("the program compiled before");
    let depends_on_chance = ["random_", "now!(", "uuid_v"].iter().any(|it| source.contains(it));
    for _ in 0..events {
        let seed = draw.0;
        let argument = |it: &Parameter| (it.keyword.to_owned(), value(it, most, draw));
        let event: Json = dynamic.iter().map(argument).collect();
        let case = format!("{source} with arguments of seed {seed}");
        let before = announce(&case);
        let start = processor_time();
        // The function may accept the arguments, or not.
        let accepted = process(&mut operator, &event);
        let taken = processor_time().saturating_sub(start);
        assert!(taken < MOST_TIME, "{case} took {taken:?}");
        check_memory(&case, before);
        // The crate takes no harm from arguments that are accepted, unless they are large.
        if let Some(event_after) = accepted.ok().filter(|_| event.to_string().len() < 1_000) {
            let found = event_after.get("x").map(text_of_bytes);
            let expected = crates_result(source, &event);
            assert!(expected == found || depends_on_chance, "{case}: {found:?}, not {expected:?}");
        }
    }
}

/// Returns the processor time that the thread has taken.
fn processor_time() -> Duration {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat");
    let statistics = statistics.expect("the system counts the time of threads");
    let ns = statistics.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("the first number is a time in ns"))
}

/// Returns a value with bytes that are not UTF-8 as the text that the crate makes of them.
fn text_of_bytes(value: &Json) -> Json {
    let byte = |it: &Json| it.as_u64().and_then(|it| u8::try_from(it).ok());
    let bytes: Option<Vec<u8>> = value.as_array().and_then(|it| it.iter().map(byte).collect());
    match bytes {
        Some(bytes) if std::str::from_utf8(&bytes).is_err() => {
            json!(String::from_utf8_lossy(&bytes))
        }
        _ => match value {
            Json::Array(elements) => elements.iter().map(text_of_bytes).collect(),
            Json::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), text_of_bytes(value))).collect()
            }
            _ => value.clone(),
        },
    }
}

/// Returns the value that the crate computes for `.x`, or `None` if it fails.
fn crates_result(source: &str, event: &Json) -> Option<Json> {
    let program = compile(source, &vrl::stdlib::all()).ok()?.program;
    let value: Value = serde_json::from_value(event.clone()).ok()?;
    let metadata = Value::Object(ObjectMap::new());
    let mut target = TargetValue { value, metadata, secrets: Secrets::default() };
    Runtime::default().resolve(&mut target, &program, &TimeZone::parse("UTC")?).ok()?;
    target
        .value
        .as_object()?
        .get("x")
        .map(|value| serde_json::to_value(value).expect("it fits JSON"))
}

/// Returns a program that calls a function, and the parameters whose arguments are fields of the event. The others must
/// be constant.
fn program(function: &dyn Function) -> Result<(String, Vec<Parameter>), String> {
    // The argument `psl` names a file.
    let parameters = function.parameters().iter().filter(|it| it.keyword != "psl");
    let parameters: Vec<_> = parameters.collect();
    let mut error = String::new();
    // Each bit says that an argument is a constant, so the first program has none.
    for constant in 0..1_usize << parameters.len().min(6) {
        let is_constant = |position: usize| position < 6 && constant >> position & 1 == 1;
        let arguments = parameters.iter().enumerate().map(|(position, it)| {
            let text = match it.keyword {
                _ if is_constant(position) => literal(function.identifier(), it),
                // A closure needs to know what it is called for.
                "value" if ["filter", "map_values"].contains(&function.identifier()) => {
                    "array!(.value)".to_owned()
                }
                "value" if function.identifier() == "map_keys" => "object!(.value)".to_owned(),
                name => format!(".{name}"),
            };
            format!("{}: {text}", it.keyword)
        });
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let dynamic = parameters.iter().enumerate().filter(|(position, _)| !is_constant(*position));
        let dynamic: Vec<_> = dynamic.map(|(_, it)| **it).collect();
        for closure in closures(function) {
            for mark in ["!", ""] {
                let call = format!(".x = {}{mark}({arguments}){closure}", function.identifier());
                match operator(&call) {
                    Ok(_) => return Ok((call, dynamic)),
                    Err(cause) => error = cause,
                }
            }
        }
    }
    Err(format!("{}: {error}\n", function.identifier()))
}

/// Returns the closures with which the function may be called.
fn closures(function: &dyn Function) -> &'static [&'static str] {
    match function.identifier() {
        "for_each" | "map_values" | "replace_with" => &[
            " -> |a, b| { .y = [.y, b]; b }",
            " -> |a| { [a] }",
            " -> |a| { to_string!(a.string) }",
        ],
        "map_keys" => &[" -> |a| { a + a }"],
        "filter" => &[" -> |_, b| { b != 1 }"],
        _ => &[""],
    }
}

/// Returns a constant argument.
fn literal(function: &str, parameter: &Parameter) -> String {
    let by_variant =
        parameter.enum_variants.and_then(|it| it.first()).map(|it| format!("\"{}\"", it.value));
    let by_name = match parameter.keyword {
        "patterns" if function == "parse_groks" => Some("[\"%{data:a:json}\"]"),
        "filters" => Some("[r'a']"),
        "base" => Some("\"10\""),
        "level" => Some("\"info\""),
        "query" => Some("\"a:b\""),
        "variant" => Some("\"SHA-256\""),
        "algorithm" => Some("\"AES-256-CFB\""),
        "pattern" if parameter.kind & kind::REGEX == 0 => Some("\"%{GREEDYDATA:a}\""),
        "except" | "excluded_boundaries" | "alias_sources" => Some("[]"),
        "redactor" => Some("\"full\""),
        _ => None,
    };
    let by_kind = [
        (kind::REGEX, "r'(?P<a>.)'"),
        (kind::BYTES, "\"a\""),
        (kind::INTEGER, "2"),
        (kind::BOOLEAN, "true"),
        (kind::ARRAY, "[r'a']"),
        (kind::OBJECT, "{ \"type\": \"full\" }"),
        (kind::FLOAT, "1.5"),
    ];
    let by_kind =
        by_kind.iter().find(|(bit, _)| parameter.kind & bit == *bit).map(|(_, text)| *text);
    let by_name = by_name.or(by_kind).unwrap_or("null").to_owned();
    by_variant.filter(|_| parameter.kind & kind::ARRAY == 0).unwrap_or(by_name)
}

/// Source of numbers that look random (xorshift).
struct Draw(u64);

impl Draw {
    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.max(1);
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Returns an argument. It usually has a type that the parameter accepts.
fn value(parameter: &Parameter, most: usize, draw: &mut Draw) -> Json {
    let kinds = [kind::BYTES, kind::INTEGER, kind::FLOAT, kind::BOOLEAN, kind::OBJECT, kind::ARRAY];
    let accepted: Vec<_> = kinds.into_iter().filter(|it| parameter.kind & it == *it).collect();
    let wanted = if accepted.is_empty() || draw.below(20) == 0 {
        draw.pick(&kinds)
    } else {
        draw.pick(&accepted)
    };
    let count = draw.pick(&[0, 1, 3, most / 10, most]);
    match wanted {
        kind::BYTES => json!(text(count, draw)),
        kind::INTEGER => json!(draw.pick(&[
            0,
            1,
            -1,
            2,
            7,
            100,
            1_000,
            100_000,
            400_000_000,
            i64::MAX,
            i64::MIN,
        ])),
        kind::FLOAT => json!(draw.pick(&[0.0, -1.5, 1e15, 1e300, -1e300, 1e-300])),
        kind::BOOLEAN => json!(draw.below(2) == 0),
        kind::OBJECT => object(count, draw),
        _ => array(count, draw),
    }
}

/// Parts of texts that functions parse. A text repeats one or two of them.
const PARTS: [&str; 48] = [
    "a",
    " ",
    "\n",
    "\t",
    "\\",
    "\"",
    "'",
    "=",
    ",",
    ";",
    "|",
    "-",
    ".",
    "/",
    "%",
    "$0",
    "{",
    "}",
    "[",
    "]",
    "<a>",
    "</a>",
    "<a b=''/>",
    "<!--",
    "{\"a\":",
    "{a: ",
    "[[",
    "a=b ",
    "a b\n",
    "- ",
    "a: ",
    "&a *a ",
    "CEF:0|",
    "=?",
    "?Q?",
    "xn--",
    "\u{fc}",
    "\u{1f600}",
    "A",
    "aB",
    "1",
    "1s",
    "%c",
    "::",
    "a.",
    "1.2.3.4 ",
    "\u{1b}[31m",
    "m,t=a f=1,",
];

fn text(count: usize, draw: &mut Draw) -> String {
    let first = draw.pick(&PARTS);
    let (mut text, second) = (first.repeat(count), draw.pick(&PARTS));
    if draw.below(2) == 0 {
        text.push_str(&second.repeat(count));
    }
    if draw.below(4) == 0 {
        text.insert_str(0, second);
    }
    text
}

fn array(count: usize, draw: &mut Draw) -> Json {
    match draw.below(5) {
        0 => nested(count.min(500)),
        1 => json!(vec![json!([]); count]),
        2 => json!(vec![json!({ "a": 1 }); count]),
        3 => json!(vec![json!(text(1, draw)); count]),
        _ => json!(vec![json!(1); count]),
    }
}

fn object(count: usize, draw: &mut Draw) -> Json {
    let inner = match draw.below(4) {
        0 => json!({}),
        1 => json!([1]),
        2 => json!("a"),
        _ => nested(3),
    };
    match draw.below(4) {
        0 => (0..count.min(500)).fold(json!(1), |inner, _| json!({ "a": inner })),
        1 => json!({ "a.".repeat(count): inner }),
        2 => {
            json!({ "k".repeat(count): (0..count).map(|n| (n.to_string(), inner.clone())).collect::<Json>() })
        }
        _ => (0..count).map(|n| (n.to_string(), inner.clone())).collect(),
    }
}
