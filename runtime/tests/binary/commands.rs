//! Tests of commands other than `run`.

use std::{path::Path, process::Command};

use serde_json::Value;
use tremor_abi::version::AbiVersion;

use crate::tremor::Scene;

const FLOW: &str = "connectors:
  input: { type: file, preprocessors: [lines], codec: json, config: { path: in, mode: read } }
  output: { type: file, codec: json, postprocessors: [lines], config: { path: out, mode: write } }
links: [input -> output]";

#[test]
fn check_connects_to_nothing() {
    let scene = Scene::new(FLOW);
    scene.tremor(&["check", "flow.yaml"]).expect(0, &["flow `flow` is valid"]);
    assert!(!scene.has("out"));
}

#[test]
fn check_rejects_links_to_sides_that_do_not_exist() {
    let swapped = "  help: change `config` or `type` of ";
    for (flow, error) in [
        (
            FLOW.replace("mode: read", "mode: append"),
            "flow.yaml:4:9: error: connector `input` has no source: with this `config`, `file` reads no events",
        ),
        (
            FLOW.replace("mode: write", "mode: read"),
            "flow.yaml:4:18: error: connector `output` has no sink: with this `config`, `file` writes no events",
        ),
    ] {
        for command in ["check", "run"] {
            Scene::new(&flow).tremor(&[command, "flow.yaml"]).expect(2, &[error, swapped]);
        }
    }
}

#[test]
fn plugins_are_listed_and_inspected_by_name() {
    let scene = Scene::new(FLOW);
    let list = scene.tremor(&["plugin", "list"]);
    list.expect(0, &[]);
    for name in ["file", "stdio", "metronome", "null", "exit", "hostile"] {
        let has = |line: &str| line.split_whitespace().nth(1) == Some(name);
        assert!(list.stdout.lines().any(has), "{name} is not in:\n{}", list.stdout);
    }
    let inspect = scene.tremor(&["plugin", "inspect", "file"]);
    inspect.expect(0, &[]);
    for part in [
        "connector-file",
        "2.1",
        "unwind",
        "required",
        "\n    path                 string, required\n      Path of the file.",
        "\n        `truncate`: Truncates the file",
        "\n    compression          `auto`, `none`, `gzip`, `zstd` or `xz`, default `auto`\n",
        "\n    chunk_bytes          number of bytes from 1 to 67108864, default 262144\n",
    ] {
        assert!(inspect.stdout.contains(part), "{part} is not in:\n{}", inspect.stdout);
    }
    let inspect = scene.tremor(&["plugin", "inspect", "--json", "logging"]);
    inspect.expect(0, &[]);
    let inspected: Value = serde_json::from_str(&inspect.stdout).unwrap();
    let component = &inspected["components"][0];
    assert_eq!(
        (&inspected["name"], &component["kind"]),
        (&"operator-logging".into(), &"operator".into())
    );
    assert_eq!(component["config"]["type"], "object");
    scene.tremor(&["plugin", "inspect", "nothing"]).expect(2, &["nothing", "help"]);
}

#[test]
fn log_format_json_prints_json_lines() {
    let scene = Scene::new(FLOW);
    let run = scene.tremor(&["run", "--log-format", "json", "flow.yaml"]);
    let mut logs = run.stderr.lines().filter(|line| line.starts_with('{'));
    let line: Value = serde_json::from_str(logs.next().unwrap()).unwrap();
    assert_eq!(line["level"], "ERROR", "the input does not exist: {line}");
}

#[test]
fn wrong_usage_has_its_own_exit_status() {
    let scene = Scene::new(FLOW);
    scene.tremor(&["run"]).expect(2, &["Usage"]);
    scene.tremor(&["frobnicate"]).expect(2, &["Usage"]);
}

#[test]
fn durations_have_a_unit_or_are_seconds() {
    let scene = Scene::new(FLOW).write("in", b"");
    for time in ["10", "0.5", "10s", "500ms", "2m"] {
        scene.tremor(&["run", "flow.yaml", "--drain-timeout", time]).expect(0, &[]);
    }
    let expected = "expected a duration such as `250ms`, `10s` or `2m`, or a number of seconds";
    for time in ["", "s", "-1", "10 days", "NaN", "1e99"] {
        let drain = format!("--drain-timeout={time}");
        for arguments in
            [&["run", "flow.yaml", &drain][..], &["bench", "flow.yaml", "--warmup", time]]
        {
            scene.tremor(arguments).expect(2, &[expected]);
        }
    }
    scene.tremor(&["plugin", "verify", "file", "--limit", "1 day"]).expect(2, &[expected]);
}

/// Checks that the commit exists in the repository. It need not be the latest one, because a commit may be made during
/// the tests.
#[test]
fn version_names_abi_and_commit() {
    let scene = Scene::new(FLOW);
    let run = scene.tremor(&["--version"]);
    run.expect(0, &[]);
    let expected = format!("tremor {} (ABI {}", env!("CARGO_PKG_VERSION"), AbiVersion::CURRENT);
    let rest = run.stdout.strip_prefix(&expected).and_then(|rest| rest.strip_suffix(")\n"));
    let commit = rest.unwrap_or_else(|| panic!("{}", run.stdout));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    if !Path::new(root).join(".git").exists() {
        assert_eq!(commit, "");
        return;
    }
    let commit = commit.strip_prefix(", ").unwrap_or_else(|| panic!("{}", run.stdout));
    let mut git = Command::new("git");
    git.current_dir(root).args(["rev-parse", "--verify", &format!("{commit}^{{commit}}")]);
    let hash = git.output().expect("git runs").stdout;
    assert!(hash.starts_with(commit.as_bytes()), "{commit} is not a commit");
    assert_eq!(scene.tremor(&["-V"]).stdout, run.stdout);
}

#[test]
fn completions_and_manual_pages_cover_the_commands() {
    let scene = Scene::new(FLOW);
    for shell in ["bash", "zsh", "fish"] {
        let run = scene.tremor(&["completions", shell]);
        run.expect(0, &[]);
        for part in ["tremor", "drain-timeout", "inspect"] {
            assert!(run.stdout.contains(part), "{shell}: {part}");
        }
    }
    scene.tremor(&["manual-pages", "."]).expect(0, &[]);
    for page in ["tremor.1", "tremor-run.1", "tremor-plugin-inspect.1"] {
        assert!(scene.read(page).contains(".TH"), "{page}");
    }
    assert!(scene.read("tremor-run.1").contains("drain"));
    assert!(!scene.has("tremor-plugin-describe.1"), "that command is the program's own");
    scene.tremor(&["manual-pages", "nowhere"]).expect(1, &["error: ", "nowhere"]);
}
