//! Tests of requests for the configuration schemas of plugins. A child process answers them, correctly or not.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::json;
use tremor_runtime::plugin::{Describer, Error, ErrorKind, Library, Policy};

use crate::support::library;

fn describer() -> Describer {
    Describer::new(Policy::default())
        .program(env!("CARGO_BIN_EXE_tremor"))
        .timeout(Duration::from_mins(1))
        .cache(None)
}

/// Writes a shell script, which is used as the child process. `@TREMOR@` stands for the path of the program. The script
/// can set `TREMOR_HOSTILE_SCHEMA`, which selects a fault of the fixture for the whole process.
fn script(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("tremor.sh");
    let text = format!("#!/bin/sh\n{text}\n").replace("@TREMOR@", env!("CARGO_BIN_EXE_tremor"));
    // Let another process write the script. If this process wrote it, a process that another test starts meanwhile
    // would inherit the descriptor, and executing the script would fail with "text file busy".
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$0\" > \"$1\""]).arg(text).arg(&path);
    assert!(write.status().unwrap().success());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn hostile() -> Library {
    Library::inspect(&library("fixture-faults")).unwrap()
}

/// Requests the schema of the connector `hostile` with this script as the child process.
fn with_script(text: &str, timeout: Duration) -> Result<Option<serde_json::Value>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), text);
    describer().program(program).timeout(timeout).config_schema(&hostile(), "connector", "hostile")
}

const LONG: Duration = Duration::from_mins(1);

#[test]
fn schema_is_generated_from_the_config_type() {
    let library = Library::inspect(&library("fixture-relay")).unwrap();
    let schema = describer().config_schema(&library, "connector", "relay").unwrap().unwrap();
    assert_eq!(schema["properties"]["count"]["type"], "integer");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(describer().config_schema(&library, "connector", "nothing").unwrap(), None);
}

#[test]
fn plugin_error_about_configuration_is_reported_verbatim() {
    let relay = Library::inspect(&library("fixture-relay")).unwrap();
    describer()
        .check(&relay, ("connector", "relay"), &json!({ "count": 1_000 }), Path::new(""))
        .unwrap();
    let error = describer()
        .check(&relay, ("connector", "relay"), &json!({ "count": 1_001 }), Path::new(""))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert_eq!(error.message(), "`count` is 1001, at most 1,000");
    for (fault, said) in [
        ("check_error", "hostile: CheckError"),
        ("check_panic", "panicked in new"),
        ("check_spawn", "its constructor starts a task, which is possible only from `connect` on"),
    ] {
        let error = describer().check(
            &hostile(),
            ("connector", "hostile"),
            &json!({ "fault": fault }),
            Path::new(""),
        );
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.message().contains(said), "{error}");
    }
}

#[test]
fn configuration_fits_only_if_child_confirms() {
    let schema = json!({ "properties": { "count": { "type": "integer", "minimum": 1 } } });
    let (good, bad, no_schema) = (json!({ "count": 1 }), json!({ "count": 0 }), json!(7));
    let asked = describer().comparing();
    let folder = tempfile::tempdir().unwrap();
    let silent = asked.clone().program(script(folder.path(), "cat > /dev/null"));
    let missing = asked.clone().program("/nonexistent/tremor");
    for (describer, configurations, expected) in [
        (&asked, vec![(&schema, &good), (&schema, &good)], true),
        (&asked, vec![(&schema, &good), (&schema, &bad)], false),
        (&asked, vec![(&no_schema, &good)], false),
        (&silent, vec![(&schema, &good)], false),
        (&missing, vec![(&schema, &good)], false),
        (&describer(), vec![(&schema, &good)], false),
    ] {
        assert_eq!(describer.all_fit(&configurations), expected, "{configurations:?}");
    }
}

#[test]
fn configuration_is_checked_in_a_non_utf_8_folder() {
    let relay = Library::inspect(&library("fixture-relay")).unwrap();
    let folder = Path::new(OsStr::from_bytes(b"/caf\xe9"));
    let checked = describer().check(&relay, ("connector", "relay"), &json!({ "count": 1 }), folder);
    checked.unwrap();
}

#[test]
fn crash_or_hang_in_child_process_is_an_error() {
    let ask = |fault: &str, timeout| {
        let describer = describer().timeout(timeout);
        let error = describer.check(
            &hostile(),
            ("connector", "hostile"),
            &json!({ "fault": fault }),
            Path::new(""),
        );
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Describe, "{error}");
        error.to_string()
    };
    assert!(ask("check_crash", LONG).contains("signal"));
    assert!(ask("check_hang", Duration::from_millis(500)).contains("within 500ms"));
    let crashed = with_script("TREMOR_HOSTILE_SCHEMA=crash exec @TREMOR@ \"$@\"", LONG);
    assert!(crashed.unwrap_err().to_string().contains("signal"));
    let hung =
        with_script("TREMOR_HOSTILE_SCHEMA=hang exec @TREMOR@ \"$@\"", Duration::from_millis(500));
    assert!(hung.unwrap_err().to_string().contains("within 500ms"));
    let panicked = with_script("TREMOR_HOSTILE_SCHEMA=panic exec @TREMOR@ \"$@\"", LONG);
    assert_eq!(panicked.unwrap(), None, "the constructor checks the configuration instead");
}

#[test]
fn output_of_plugin_is_not_used_as_the_answer() {
    let chatty = with_script("TREMOR_HOSTILE_SCHEMA=chatter exec @TREMOR@ \"$@\"", LONG);
    assert!(chatty.unwrap().unwrap()["properties"]["fault"].is_object());
    for nonsense in ["echo '{}'", "echo 'tremor-plugin-describe: {\"maybe\": 1}'", "true"] {
        let error = with_script(nonsense, LONG).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Describe);
        assert!(error.to_string().contains("returned an invalid answer"), "{error}");
    }
    let failed = with_script("echo 'no such thing' >&2; exit 7", LONG).unwrap_err().to_string();
    assert!(failed.contains("exit status: 7") && failed.contains("no such thing"), "{failed}");
    let missing = describer().program("/nonexistent/tremor");
    let error = missing.config_schema(&hostile(), "connector", "hostile").unwrap_err();
    assert!(error.to_string().contains("cannot run `/nonexistent/tremor`"), "{error}");
}

#[test]
fn schemas_are_cached_by_content_and_survive_broken_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cached = describer().cache(Some(folder.path()));
    let offline = cached.clone().program("/nonexistent/tremor");
    let schema = cached.config_schema(&hostile(), "connector", "hostile").unwrap();
    assert!(schema.is_some());
    assert_eq!(
        offline.config_schema(&hostile(), "connector", "hostile").unwrap(),
        schema,
        "no child process was started"
    );

    let entry = fs::read_dir(folder.path().join("schemas")).unwrap().next().unwrap().unwrap();
    fs::write(entry.path(), "{\"version\":1").unwrap();
    assert!(
        offline.config_schema(&hostile(), "connector", "hostile").is_err(),
        "the damaged entry is not used"
    );
    assert_eq!(cached.config_schema(&hostile(), "connector", "hostile").unwrap(), schema);
    assert_eq!(
        offline.config_schema(&hostile(), "connector", "hostile").unwrap(),
        schema,
        "written again"
    );

    let file = folder.path().join("file");
    fs::write(&file, "no folder").unwrap();
    let broken = describer().cache(Some(&file));
    assert_eq!(broken.config_schema(&hostile(), "connector", "hostile").unwrap(), schema);
}

/// Asks an executable whose command is this shell script about a configuration.
fn ask_executable(script: &str, timeout: Duration) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plugin.json");
    let manifest = json!({
        "protocol": 1, "name": "x", "version": "1", "command": ["sh", "-c", script],
        "connectors": [{ "name": "numbers" }],
    });
    fs::write(&path, manifest.to_string()).unwrap();
    let library = Library::inspect(&path).unwrap();
    let connector = ("connector", "numbers");
    describer().timeout(timeout).check(&library, connector, &json!({}), folder.path()).unwrap_err()
}

/// An answer to the call 1 of kind 1, HELLO, of a process that speaks version 1.
const WELCOME: &str =
    r"printf '\0\0\0\0\1\0\1\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >&0;";

#[test]
fn silent_executable_is_killed_at_the_limit() {
    let error = ask_executable("echo waits >&2; exec sleep 600", Duration::from_millis(300));
    assert_eq!(error.kind(), ErrorKind::Describe);
    let text = error.to_string();
    for part in [
        "x.plugin.json: `sh -c ",
        "for the connector `numbers`",
        "did not answer HELLO within 300ms",
    ] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    let script = format!("{WELCOME} exec sleep 600");
    let text = ask_executable(&script, Duration::from_millis(300)).to_string();
    assert!(text.contains("did not answer CHECK within 300ms"), "{text}");
}

#[test]
fn executable_that_sends_no_message_is_named() {
    let text = ask_executable("printf %0100d 0 >&0; exec sleep 600", LONG);
    assert!(text.to_string().contains("sent no message of the protocol"), "{text}");
}

#[test]
fn executable_that_closes_the_connection_may_explain_why() {
    let script = format!("{WELCOME} exec 0>&-; echo gone >&2; exit 4");
    let text = ask_executable(&script, LONG).to_string();
    let expected = "its process ended with exit status 4; last lines of its standard error: gone";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn error_of_an_executable_about_a_configuration_is_reported() {
    // The answer to the call 2 of kind 6, CHECK, with the flags ANSWER and ERROR and a body of 54 bytes.
    let body = r#"{"kind": 1, "policy": 0, "message": "no such numbers"}"#;
    let answer = r"\066\0\0\0\6\0\3\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let script = format!("{WELCOME} printf '{answer}{body}' >&0; exec sleep 600");
    let error = ask_executable(&script, LONG);
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert_eq!(error.message(), "no such numbers");
}
