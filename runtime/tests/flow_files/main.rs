//! Every folder in the workspace's `tests/fixtures/flow_files` is a case: a `flow.yaml`, and in
//! `expected` what a user gets to see for it: the errors, or the graph and the warnings.
//!
//! `UPDATE_EXPECT=1 cargo test -p tremor-runtime --test flow_files` writes the expectations anew;
//! read the difference before you commit it.

mod artefacts;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use jsonschema::Validator;
use tremor_runtime::flow::{self, Described, Draft, Environment, Error, Limits};

use artefacts::Artefacts;

/// What `tremor check` has to say about a flow.
fn outcome(draft: Result<Draft, Error>) -> String {
    let flow = match draft.and_then(|draft| draft.check(&Artefacts)) {
        Ok(flow) => flow,
        Err(error) => return error.to_string(),
    };
    let mut out = format!("flow {}\n{}", flow.name(), flow.graph);
    for warning in &flow.warnings {
        out += "\n";
        out += &warning.to_string();
    }
    out
}

/// The variables that the cases refer to; others are not set.
fn environment() -> Environment<'static> {
    Environment::default().elsewhere().variables(&|name: &str| {
        let value = match name {
            "FIXTURE_PATH" => "path-in-fixtures",
            "FIXTURE_CHUNK" => "65536",
            "FIXTURE_WRONG" => "wrong-in-fixtures",
            "FIXTURE_DIGITS" => "123456789012345678901234567890",
            _ => return None,
        };
        Some(value.into())
    })
}

/// The schema of flow files with the artefacts of the cases.
fn schema() -> Validator {
    let described = artefacts::all().map(|(kind, name, config)| Described {
        kind,
        name: name.to_owned(),
        description: format!("The {kind} `{name}`."),
        codec: None,
        config,
    });
    let schema = flow::schema(&described.collect::<Vec<_>>());
    jsonschema::draft202012::meta::validate(&schema).expect("a schema");
    jsonschema::draft202012::new(&schema).expect("a schema")
}

/// What is wrong in these is beyond a schema: what links make of names.
const BEYOND_A_SCHEMA: &[&str] = &[
    "bad_file_modes",
    "bad_port",
    "bad_port_of_pipeline",
    "cycle",
    "cycle_of_one",
    "cycle_through_err",
    "cycle_through_err_of_a_sink",
    "cycles",
    "dangling_link",
    "duplicated_link",
    "err_of_nothing",
];

#[test]
fn the_schema_accepts_what_is_sound_and_refuses_what_it_can() {
    let schema = schema();
    let mut accepted = Vec::new();
    for case in cases() {
        let name = case.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let Ok(file) = flow::read_yaml(&case.join("flow.yaml")) else { continue };
        let draft = flow::read(case.join("flow.yaml"), &environment());
        let is_sound = draft.and_then(|draft| draft.check(&Artefacts)).is_ok();
        let errors: Vec<_> = schema.iter_errors(&file).map(|error| error.to_string()).collect();
        if is_sound {
            assert_eq!(errors, [""; 0], "{name}");
        } else if errors.is_empty() {
            accepted.push(name);
        }
    }
    assert_eq!(accepted, BEYOND_A_SCHEMA);
}

fn check(case: &Path) -> Result<(), String> {
    let found = outcome(flow::read(case.join("flow.yaml"), &environment()));
    let file = case.join("expected");
    if env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(&file, found).map_err(|error| format!("{}: {error}", file.display()));
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(format!("{}\n--- expected\n{expected}--- found\n{found}", case.display()))
}

fn cases() -> Vec<PathBuf> {
    // Tests run in the folder of their package, so paths in messages are the same everywhere.
    let mut cases: Vec<PathBuf> = fs::read_dir("../tests/fixtures/flow_files")
        .expect("the folder of the cases")
        .map(|entry| entry.expect("a case").path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "there are no cases");
    cases
}

#[test]
fn flow_files() {
    let cases = cases();
    let failed: Vec<_> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// A flow file that ends at any character is refused or accepted but nothing else.
#[test]
fn flow_files_that_break_off() {
    damaged(0, |before, _| before.to_owned());
}

#[test]
fn flow_files_that_lack_a_character() {
    damaged(1, |before, after| format!("{before}{after}"));
}

/// Reads each case with damage at every second character: schemas are slow to prepare in a debug build.
fn damaged(first: usize, damage: impl Fn(&str, &str) -> String) {
    let limits = Limits { max_expanded_bytes: 1 << 14, ..Limits::default() };
    for case in cases() {
        let Ok(text) = fs::read_to_string(case.join("flow.yaml")) else { continue };
        // One long line takes long and shows nothing that the others do not.
        for (at, c) in text.char_indices().filter(|(at, _)| text.len() < 2_000 && at % 2 == first) {
            let text = damage(&text[..at], &text[at + c.len_utf8()..]);
            outcome(flow::parse("flow.yaml", text, &limits, &environment()));
        }
    }
}
