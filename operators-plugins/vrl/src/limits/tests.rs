use tremor_pdk::{ErrorKind, literal, testing::TestHost};
use vrl::{
    compiler::{
        CompileConfig, Program, TargetValue, TimeZone, compile, compile_with_external,
        runtime::Runtime, state::ExternalEnv,
    },
    value::{ObjectMap, Secrets, Value},
};

use super::table::{Limit, limit};
use crate::{functions::functions, memory::Usage, program, tests::run};

/// Runs a program as the crate does, without the limits.
fn resolve(program: &Program, event: Option<&str>) -> Result<Value, String> {
    let event = event.map(|text| serde_json::from_str(text).unwrap());
    let object = || Value::Object(ObjectMap::new());
    let mut event = TargetValue {
        value: event.unwrap_or_else(object),
        metadata: object(),
        secrets: Secrets::default(),
    };
    let mut runtime = Runtime::default();
    let result = Usage::measure(|_| runtime.resolve(&mut event, program, &TimeZone::default()));
    result.map_err(|error| error.to_string())
}

#[test]
fn guarded_functions_have_the_results_of_the_crate() {
    let (guarded, crates) = (functions(true), vrl::stdlib::all());
    let mut count = 0;
    let is_guarded = |name: &str| matches!(limit(name), Some(Limit::Checked(_) | Limit::Unnest));
    // The example of `parse_proto` needs a file.
    let is_tested = |name: &str| is_guarded(name) && name != "parse_proto";
    for function in crates.iter().filter(|it| is_tested(it.identifier())) {
        for example in function.examples().iter().filter(|it| !it.skip && it.deterministic) {
            let Ok(expected) = compile(example.source, &crates) else { continue };
            let (external, config) = (ExternalEnv::default(), CompileConfig::default());
            let found = compile_with_external(example.source, &guarded, &external, config);
            let found = found.unwrap_or_else(|_| panic!("{}", example.source)).program;
            let expected = resolve(&expected.program, example.input);
            assert_eq!(resolve(&found, example.input), expected, "{}", example.source);
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn page_names_each_function_whose_arguments_are_checked() {
    let page = include_str!("../../../../docs/guide/vrl.md");
    let (_, after) = page.split_once("\n## Limits\n").unwrap();
    let (limits, _) = after.split_once("\n## ").unwrap();
    let crates = vrl::stdlib::all();
    let names = crates.iter().map(|it| it.identifier());
    let checked =
        names.filter(|name| matches!(limit(name), Some(Limit::Checked(_) | Limit::Unnest)));
    let missing: Vec<_> = checked.filter(|name| !limits.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn products_have_the_types_and_results_of_the_crate() {
    for (source, expected) in [
        (".x = 2 * 3", "6"),
        (".x = 2 * 1.5", "3.0"),
        (r#".x = "ab" * 2"#, r#""abab""#),
        (r#".x = 2 * "ab""#, r#""abab""#),
        (r#".x = "ab" * -1"#, r#""""#),
        (".x = (.n * 3) ?? 0", "6"),
        (".x = (.s * .n) ?? 0", r#""abab""#),
        (".x = (.s * .s) ?? 0", "0"),
        (".x, err = .n * 3", "6"),
        (".x = (to_int(.n) * 3) ?? 0", "6"),
        (".x = to_float(.s) * 3 ?? 0.5", "0.5"),
        (".x = ((.n + 1) * 3) ?? 0", "9"),
        (".x = string!(.s) * int!(.n)", r#""abab""#),
        (".x = [1, int!(.n) * 2, { \"k\": int!(.n) * 3 }]", r#"[1,4,{"k":6}]"#),
        (".x = if int!(.n) * 2 == 4 { int!(.n) * 5 } else { int!(.n) * 6 }", "10"),
        (".x = !(int!(.n) * 2 == 4)", "false"),
        (".x = [int!(.n) * 2][0]", "4"),
        (".x = map_values([1, 2]) -> |v| { v * int!(.n) }", "[2,4]"),
        (".x = push([], item: int!(.n) * 2)", "[4]"),
        (".x = push([int!(.n) * 2], 1)[0]", "4"),
        (".x = { y = int!(.n) * 2; y * y }", "16"),
        (".x = 1; if int!(.n) * 2 == 5 { abort \"a\" * 2 }", "1"),
        (".x = 1; if int!(.n) * 2 == 4 { .x = 7; return int!(.n) * 2 }; .x = 2", "7"),
    ] {
        let found = run(source, literal!({ "n": 2, "s": "ab" })).unwrap();
        assert_eq!(found, format!(r#"{{"n":2,"s":"ab","x":{expected}}}"#), "{source}");
    }
}

#[test]
fn programs_that_cannot_be_limited_are_refused() {
    for (source, part) in [
        (".x = .a * 2", "error[E103]"),
        (".x = (.a + .b) * 2 ?? 0", "An operand of `*` that can fail"),
        (".a[100001] = 1", "the element 100001 of an array"),
        ("x = []; x[-1001] = 1", "the element -1001 of an array: expected a position from -1000"),
        // The compiler would take more memory than there is.
        (".a[-1000000000000] = 1", "the element -1000000000000 of an array"),
        (".a[200000], err = to_int(.b)", "the element 200000 of an array"),
        (".x = unnest!(object!(.a).b)", "assign the value to a variable"),
    ] {
        let error = program::compile(source, false, &TestHost::new().context()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{source}");
        assert!(error.to_string().contains(part), "{source}: {error}");
    }
}

#[test]
fn event_of_many_levels_is_within_the_limits() {
    let nested = |levels: usize| (0..levels).fold(literal!(1), |inner, _| literal!([inner]));
    let found = run(".b = [.a]; .c = { \"k\": .a } == .b", literal!({ "a": nested(510) })).unwrap();
    assert!(found.ends_with(r#""c":false}"#), "{found}");
}
