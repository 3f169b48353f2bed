//! Tests of flow files. Every folder in `tests/fixtures/flow_files` of the workspace is a case. A case has a flow file,
//! `flow.yaml`, and the expected output, `expected`: the errors, or the graph and the warnings.
//!
//! `UPDATE_EXPECT=1 cargo test -p tremor-runtime --test flow_files` rewrites the expected output. Read the
//! difference before you commit it.

mod artefacts;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use jsonschema::Validator;
use tremor_runtime::flow::{self, Described, Draft, Environment, Error, Limits};

use artefacts::Artefacts;

/// Returns the output of `tremor check` for a flow.
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

/// Returns the environment variables of the cases. No other variables are set.
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

/// Returns the schema of flow files with the artefacts of the cases.
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

/// Cases with errors that a schema cannot find, because they concern names in links.
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
    "nothing_that_follows_from_a_typo_in_a_link",
    "overflow_not_linked",
    "queues_in_one_folder",
];

#[test]
fn schema_accepts_valid_cases_and_rejects_most_invalid_ones() {
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
    // Use a relative path, so that the paths in messages are the same on every machine. Tests run in the folder of
    // their package.
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

/// A flow file that is cut off after any character is accepted or rejected, without a panic.
#[test]
fn truncated_flow_files_cause_no_panic() {
    damaged(0, |before, _| before.to_owned());
}

#[test]
fn flow_files_without_a_character_cause_no_panic() {
    damaged(1, |before, after| format!("{before}{after}"));
}

/// Reads each case with damage at every second character, from `first` on. Every second character suffices, and a debug
/// build prepares schemas slowly.
fn damaged(first: usize, damage: impl Fn(&str, &str) -> String) {
    let limits = Limits { max_expanded_bytes: 1 << 14, ..Limits::default() };
    for case in cases() {
        let Ok(text) = fs::read_to_string(case.join("flow.yaml")) else { continue };
        // Skip long files, which take long and find nothing that other files do not find.
        for (at, c) in text.char_indices().filter(|(at, _)| text.len() < 2_000 && at % 2 == first) {
            let text = damage(&text[..at], &text[at + c.len_utf8()..]);
            outcome(flow::parse("flow.yaml", text, &limits, &environment()));
        }
    }
}
