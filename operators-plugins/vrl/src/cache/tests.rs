use proptest::prelude::*;
use tremor_pdk::{Component, Number, Operator, Output, Value, literal, testing::TestHost};

use super::{Cache, Change, MOST, PAUSE, STEP, Step, TRIAL};
use crate::{
    Config, Vrl,
    edits::tests::{batch, object, operator, statement, text, value},
};

/// Returns the event and its metadata after the program, or the error.
fn result(
    operator: &mut Vrl,
    event: &Value<'static>,
    metadata: Option<&Value<'static>>,
) -> Result<String, String> {
    let (mut batch, mut output) = (batch(event, metadata), Output::new());
    operator.process(&mut batch, &mut output).unwrap();
    match output.rejected() {
        [rejected] => Err(rejected.error.to_string()),
        _ => Ok(text(&batch)),
    }
}

/// Returns the same operator with a cache and without one.
fn both(source: &str) -> Option<[Vrl; 2]> {
    let (cached, mut plain) = (operator(source)?, operator(source)?);
    plain.cache = Cache::default();
    Some([cached, plain])
}

fn condition() -> impl Strategy<Value = String> {
    let test = prop_oneof![
        "[abcx]".prop_map(|key| format!(".{key} == 1")),
        "[mnx]".prop_map(|key| format!("is_string(%{key})")),
        "[abcx]".prop_map(|key| format!("exists(.{key}.b)")),
    ];
    (test, statement()).prop_map(|(test, statement)| format!("if {test} {{ {statement} }}"))
}

proptest! {
    #[test]
    fn known_result_is_that_of_the_program(
        statements in prop::collection::vec(prop_oneof![statement(), condition()], 1..6),
        events in prop::collection::vec((value(2), prop::option::of(object(1))), 1..6),
        order in prop::collection::vec(0..6_usize, 1..40),
    ) {
        let operators = both(&statements.join("\n"));
        prop_assume!(operators.is_some());
        let [mut cached, mut plain] = operators.unwrap();
        for at in order {
            let (event, metadata) = &events[at % events.len()];
            let [known, computed] =
                [&mut cached, &mut plain].map(|it| result(it, event, metadata.as_ref()));
            prop_assert_eq!(known, computed);
        }
    }
}

#[test]
fn results_of_pure_programs_are_kept() {
    for (source, is_kept) in [
        (".a = downcase(string!(.b))", true),
        ("if .a == 1 { %class = \"x\" } else { del(.b) }", true),
        ("%all = %", true),
        (".all = .", false),
        (".time = now()", false),
        (".n = random_int(0, 9)", false),
        (".id = uuid_v4()", false),
        (".a = parse_syslog!(string!(.b))", false),
        ("log(.a)", false),
    ] {
        assert_eq!(!operator(source).unwrap().cache.steps.is_empty(), is_kept, "{source}");
    }
}

#[test]
fn values_of_different_kinds_have_different_results() {
    let values = [
        literal!({}),
        literal!({ "a": null }),
        literal!({ "a": 1 }),
        literal!({ "a": 1.0 }),
        literal!({ "a": "1" }),
        literal!({ "a": true }),
        literal!({ "a": [1] }),
        literal!({ "a": [[1]] }),
        literal!({ "a": [1, []] }),
        literal!({ "a": { "b": 1 } }),
        literal!({ "a": u64::MAX }),
        literal!({ "a": Number::new("18446744073709551616").unwrap() }),
        literal!({ "a": vec![0xff_u8] }),
    ];
    let [mut cached, mut plain] = both(".b = .a").unwrap();
    for event in values.iter().cycle().take(3 * values.len()) {
        assert_eq!(result(&mut cached, event, None), result(&mut plain, event, None));
    }
    assert_eq!(cached.cache.known, u32::try_from(values.len()).unwrap());
}

/// The first event is only recorded, and the second one adds its result.
#[test]
fn result_is_kept_when_its_values_repeat() {
    let mut operator = operator(".b = .a").unwrap();
    let steps = [1, 2, 2].map(|_| {
        result(&mut operator, &literal!({ "a": 1 }), None).unwrap();
        operator.cache.steps.len()
    });
    assert_eq!((steps, operator.cache.known), ([1, 2, 2], 1));
}

#[test]
fn failed_program_runs_again() {
    let [mut cached, _] = both(".b = downcase!(.a)").unwrap();
    for _ in 0..4 {
        assert!(result(&mut cached, &literal!({ "a": 1 }), None).is_err());
    }
    assert_eq!(cached.cache.known, 0);
}

#[test]
fn large_values_are_not_kept() {
    let sources = [".b = .a", ".b = array!(.a)\n.c = [.b, .b, .b, .b, .b, .b, .b, .b]"];
    let [mut read, mut written] = sources.map(|source| operator(source).unwrap());
    let numbers = Value::from((0..8).map(Value::I64).collect::<Vec<_>>());
    for _ in 0..4 {
        result(&mut read, &literal!({ "a": "x".repeat(300) }), None).unwrap();
        result(&mut written, &literal!({ "a": numbers.clone() }), None).unwrap();
    }
    assert_eq!((read.cache.known, written.cache.known), (0, 0));
}

#[test]
fn memory_is_limited() {
    let mut operator = operator(".b = .a").unwrap();
    let mut most = 0;
    for number in 0..12 * u32::try_from(MOST / STEP).unwrap() {
        // Two of four results are known, so the cache does not pause.
        result(&mut operator, &literal!({ "a": number / 4 }), None).unwrap();
        most = most.max(operator.cache.bytes);
        assert!(operator.cache.steps.len() * STEP <= operator.cache.bytes + STEP);
    }
    assert!((MOST / 2..MOST + 4 * STEP).contains(&most), "{most}");
}

#[test]
fn cache_pauses_while_results_rarely_repeat() {
    let mut operator = operator(".b = .a").unwrap();
    for number in 0..TRIAL {
        result(&mut operator, &literal!({ "a": number }), None).unwrap();
    }
    assert_eq!((operator.cache.pause, operator.cache.steps.len()), (PAUSE, 1));
    operator.cache.pause = 1;
    for _ in 0..4 {
        result(&mut operator, &literal!({ "a": 1 }), None).unwrap();
    }
    assert_eq!((operator.cache.pause, operator.cache.known), (0, 2));
}

/// Known results that only add metadata are fields, and others are edits. Both keep the port.
#[test]
fn known_result_has_the_port_of_the_program() {
    let events = ["a".into(), "b".into(), "out".into(), "c".into(), Value::Null];
    let events = events.map(|to| literal!({ "to": to }));
    for (source, adds_fields) in
        [("%port = .to; %class = .to", true), ("%port = .to; .seen = true", false)]
    {
        let operator = || {
            let source = Some(source.to_owned());
            let ports = vec!["a".to_owned(), "b".to_owned()];
            Vrl::new(Config { source, ports, ..Config::default() }, TestHost::new().context())
                .unwrap()
        };
        let (mut cached, mut plain) = (operator(), operator());
        plain.cache = Cache::default();
        for event in events.iter().cycle().take(4 * events.len()) {
            for metadata in [None, Some(literal!({ "class": "x", "n": 1 }))] {
                let mut batches = [(); 2].map(|()| batch(event, metadata.as_ref()));
                let [known, computed] = &mut batches;
                let results = [(&mut cached, known), (&mut plain, computed)].map(|(it, batch)| {
                    let mut output = Output::new();
                    it.process(batch, &mut output).unwrap();
                    let rejected: Vec<_> =
                        output.rejected().iter().map(|it| it.error.to_string()).collect();
                    let ports: Vec<_> =
                        output.ports().iter().map(|out| (out.port, text(&out.batch))).collect();
                    (rejected, ports, (!batch.is_empty()).then(|| text(batch)))
                });
                assert_eq!(results[0], results[1], "{event}");
            }
        }
        let known = cached.cache.steps.iter().filter_map(|step| match step {
            Step::Ends(known) => Some(matches!(known.change, Change::Fields(_))),
            _ => None,
        });
        assert_eq!(known.collect::<Vec<_>>(), [adds_fields; 4], "{source}");
        // Each event occurs eight times. The first time, its values are recorded, and the second time, its result is
        // added. An unknown port is an error every time.
        assert_eq!(cached.cache.known, 4 * 6);
    }
}
