//! Tests of `tremor plugin new`: of the crates that it creates, and of the names that it rejects. `cargo xtask
//! new-plugin` builds and runs the crates.

#![allow(clippy::unwrap_used)] // a failed test reports its location

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

const KINDS: [&str; 7] =
    ["source", "sink", "connector", "operator", "codec", "preprocessor", "postprocessor"];
const FILES: [&str; 5] = [".gitignore", "Cargo.toml", "README.md", "flow.yaml", "src/lib.rs"];

/// Runs `tremor plugin new` with these arguments, in this folder.
fn new(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tremor"));
    command.args(["plugin", "new"]).args(arguments).current_dir(folder);
    command.env_remove("TREMOR_PLUGIN_PATH").output().unwrap()
}

/// Creates a plugin with `tremor plugin new`, and returns the instructions that the command prints.
#[track_caller]
fn made(folder: &TempDir, arguments: &[&str]) -> String {
    let output = new(folder.path(), arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that `tremor plugin new` fails with an error that contains all `parts`.
#[track_caller]
fn refused(folder: &TempDir, arguments: &[&str], parts: &[&str]) {
    let output = new(folder.path(), arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    for part in parts {
        assert!(error.contains(part), "{arguments:?}: `{part}` is not in:\n{error}");
    }
}

fn scene() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn every_kind_gets_all_files_without_template_remains() {
    let scene = scene();
    for kind in KINDS {
        let name = format!("my-{kind}");
        made(&scene, &[&name, "--kind", kind]);
        let folder = scene.path().join(&name);
        for file in FILES {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let leftovers = ["{{", "}}", "{%", "{#"].map(|mark| text.contains(mark));
            // Two closing braces are allowed only in `flow.yaml`, where they end nested maps. In other files they are
            // remains of the template.
            assert_eq!(leftovers, [false, file == "flow.yaml" && leftovers[1], false, false]);
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{kind}: {file}");
            assert_eq!(text.contains(&name), file != ".gitignore", "{kind}: {file}");
        }
        let entries = fs::read_dir(&folder).unwrap().count();
        assert_eq!(entries, FILES.len(), "{kind}: each file or its folder is an entry");
        assert_eq!(fs::read_dir(folder.join("src")).unwrap().count(), 1);
    }
}

#[test]
fn source_and_sink_have_at_most_26_lines_of_code() {
    let scene = scene();
    for kind in ["source", "sink"] {
        made(&scene, &["numbers", "--kind", kind, "--path", kind]);
        let code = fs::read_to_string(scene.path().join(kind).join("src/lib.rs")).unwrap();
        let code = code.split("#[cfg(test)]").next().unwrap();
        let is_code = |line: &&str| !line.is_empty() && !line.trim_start().starts_with("//");
        let lines = code.lines().filter(is_code).count();
        assert!(lines <= 26, "{kind}: {lines}");
    }
}

#[test]
fn manifest_has_a_workspace_and_the_kit_of_the_clone() {
    let scene = scene();
    let instructions = made(&scene, &["numbers", "--kind", "source"]);
    assert!(!instructions.contains("not published"), "{instructions}");
    let manifest = fs::read_to_string(scene.path().join("numbers/Cargo.toml")).unwrap();
    // The program of this test is in the folder `target` of a clone, so the kit of the clone is used.
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tremor-pdk");
    let kit = format!("tremor-pdk = {{ path = {:?} }}", kit.to_str().unwrap());
    for part in ["name = \"numbers\"", "\n[workspace]\n", "crate-type = [\"cdylib\"]", &kit] {
        assert!(manifest.contains(part), "`{part}` is not in:\n{manifest}");
    }
}

/// No version of the kit is published, so the created crate could not be built without a local kit.
#[test]
fn program_outside_of_a_clone_needs_the_option_pdk() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    assert!(
        manifest.contains("\npublish = false\n"),
        "change the message of `no_kit` once the kit is published"
    );
    let scene = scene();
    let program = scene.path().join("tremor");
    // Let another process write the copy. If this process wrote it, a process that another test starts meanwhile would
    // inherit the descriptor, and executing the copy would fail with "text file busy".
    let mut copy = Command::new("cp");
    assert!(copy.arg(env!("CARGO_BIN_EXE_tremor")).arg(&program).status().unwrap().success());
    let new = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["plugin", "new", "numbers", "--kind", "source"]).args(arguments);
        command.env_remove("TREMOR_PLUGIN_PATH").current_dir(scene.path()).output().unwrap()
    };
    let output = new(&[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("`tremor-pdk`") && error.contains("`--pdk DIR`"), "{error}");
    assert!(!scene.path().join("numbers").exists());
    let kit = workspace.join("tremor-pdk");
    let output = new(&["--pdk", kit.to_str().unwrap()]);
    let instructions = String::from_utf8(output.stdout).unwrap();
    assert!(instructions.contains("`--plugin-path DIR`"), "{instructions}");
}

/// Users run the printed commands in the new folder, where relative paths would be wrong.
#[test]
fn relative_plugin_paths_are_printed_as_absolute_ones() {
    let scene = scene();
    fs::create_dir(scene.path().join("plugins")).unwrap();
    let expected = format!("run --plugin-path {}/plugins flow.yaml", scene.path().display());
    let instructions = made(&scene, &["a", "--kind", "source", "--plugin-path", "plugins"]);
    assert!(instructions.contains(&expected), "{instructions}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tremor"));
    command.args(["plugin", "new", "b", "--kind", "source"]).current_dir(scene.path());
    let output = command.env("TREMOR_PLUGIN_PATH", "plugins").output().unwrap();
    let instructions = String::from_utf8(output.stdout).unwrap();
    assert!(instructions.contains(&expected), "{instructions}");
}

#[test]
fn kit_can_be_a_version_a_folder_or_a_repository() {
    let scene = scene();
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tremor-pdk");
    let kit = kit.to_str().unwrap();
    for (name, pdk, expected) in [
        ("a", "1.2", "{ version = \"1.2\" }"),
        ("b", "https://example.com/tremor.git", "{ git = \"https://example.com/tremor.git\" }"),
        ("c", kit, &*format!("{{ path = {kit:?} }}")),
    ] {
        let instructions = made(&scene, &[name, "--kind", "sink", "--pdk", pdk]);
        let manifest = fs::read_to_string(scene.path().join(name).join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("tremor-pdk = {expected}")), "{manifest}");
        assert_eq!(instructions.contains("not published"), pdk == "1.2", "{instructions}");
    }
    let wrong = ["d", "--kind", "sink", "--pdk", "nowhere"];
    refused(&scene, &wrong, &["nowhere: there is no crate `tremor-pdk`", "help: "]);
    assert!(!scene.path().join("d").exists());
}

#[test]
fn printed_commands_can_be_pasted_into_a_shell() {
    let scene = scene();
    let instructions = made(&scene, &["numbers", "--kind", "sink", "--path", "in here/numbers"]);
    let commands: Vec<_> =
        instructions.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert_eq!(commands[..3], ["cd 'in here/numbers'", "cargo test", "cargo build"]);
    assert!(commands[3].ends_with(" flow.yaml"), "{instructions}");
    assert!(commands[3].starts_with(env!("CARGO_BIN_EXE_tremor")), "{instructions}");
    assert!(scene.path().join("in here/numbers/flow.yaml").exists());
}

#[test]
fn existing_folder_is_not_changed() {
    let scene = scene();
    fs::create_dir(scene.path().join("numbers")).unwrap();
    refused(
        &scene,
        &["numbers", "--kind", "source"],
        &["numbers: the folder already exists", "`--path`"],
    );
    assert_eq!(fs::read_dir(scene.path().join("numbers")).unwrap().count(), 0);
}

#[test]
fn invalid_name_of_crate_or_type_is_rejected() {
    let scene = scene();
    for (name, what) in [
        ("Numbers", "not a valid name of a crate"),
        ("2numbers", "not a valid name of a crate"),
        ("num bers", "not a valid name of a crate"),
        ("../numbers", "not a valid name of a crate"),
        ("zahlen-ä", "not a valid name of a crate"),
        ("numbers-", "not a valid name of a crate"),
        ("num--bers", "not a valid name of a crate"),
        ("", "not a valid name of a crate"),
        (&*"n".repeat(65), "not a valid name of a crate"),
        ("async", "reserved by Rust or the kit"),
        ("std", "reserved by Rust or the kit"),
        ("tremor-pdk", "reserved by Rust or the kit"),
        ("config", "would shadow `Config`"),
        ("batch", "would shadow `Batch`"),
        ("result", "would shadow `Result`"),
    ] {
        let said = format!("`{name}` cannot be the name of a plugin: ");
        refused(&scene, &[name, "--kind", "source"], &[&said, what, "\n  help: "]);
    }
    assert_eq!(fs::read_dir(scene.path()).unwrap().count(), 0);
}

#[test]
fn name_of_built_in_component_is_rejected_for_its_kind() {
    let scene = scene();
    for (name, kind) in [("json", "codec"), ("lines", "preprocessor"), ("filter", "operator")] {
        refused(&scene, &[name, "--kind", kind], &[&format!("comes with the {kind} `{name}`")]);
    }
    made(&scene, &["json", "--kind", "source"]);
}

#[test]
fn name_of_bundled_plugin_is_rejected_for_its_kind() {
    let scene = scene();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut count = 0;
    for (plugins, kind) in [
        ("brokers", "source"),
        ("codecs-plugins", "codec"),
        ("connectors-plugins", "sink"),
        ("operators-plugins", "operator"),
    ] {
        for name in component_names(&workspace.join(plugins)) {
            refused(&scene, &[&name, "--kind", kind], &["tremor comes with the", &name]);
            count += 1;
        }
    }
    assert!(count >= 24, "{count}");
}

/// Returns the names of the components that the source files in a folder declare, its subfolders included.
fn component_names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(component_names(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let declared = text.split("const NAME: &str = \"").skip(1);
            names.extend(declared.filter_map(|it| Some(it.split_once('"')?.0.to_owned())));
        }
    }
    names
}

#[test]
fn python_plugin_has_its_package_and_no_template_remains() {
    let scene = scene();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/python/src/tremor");
    for kind in ["source", "sink"] {
        let name = format!("my-{kind}");
        let instructions = made(&scene, &[&name, "--lang", "python", "--kind", kind]);
        let next = format!("  cd {name}\n  python3 -m unittest\n");
        assert!(instructions.contains(&next), "{instructions}");
        let folder = scene.path().join(&name);
        for file in fs::read_dir(&package).unwrap().filter_map(Result::ok) {
            if file.path().is_file() {
                let copy = folder.join("tremor").join(file.file_name());
                assert_eq!(fs::read(copy).unwrap(), fs::read(file.path()).unwrap());
            }
        }
        let (manifest, module) = (format!("{name}.plugin.json"), format!("my_{kind}.py"));
        for file in [".gitignore", "README.md", "flow.yaml", "test_plugin.py", &manifest, &module] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            assert!(!text.contains("{{") && !text.contains("{%"), "{file}: {text}");
        }
    }
}

#[test]
fn python_plugin_passes_its_test_and_is_a_valid_plugin() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|it| it.status.success()) {
        println!("SKIPPED: there is no `python3`");
        return;
    }
    let scene = scene();
    for (kind, config) in [("source", r#"{ "from": 3 }"#), ("sink", r#"{ "prefix": "" }"#)] {
        let name = format!("my-{kind}");
        made(&scene, &[&name, "--lang", "python", "--kind", kind]);
        let folder = scene.path().join(&name);
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            let output = command.args(arguments).current_dir(&folder).output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&text).into_owned())
        };
        let (passes, text) = run("python3", &["-m", "unittest", "-v"]);
        assert!(passes && text.contains("OK"), "{text}");
        fs::write(folder.join("config.json"), config).unwrap();
        let (manifest, config) = (format!("{name}.plugin.json"), format!("{name}=config.json"));
        let verify = ["plugin", "verify", &manifest, "--config", &config];
        let (passes, text) = run(env!("CARGO_BIN_EXE_tremor"), &verify);
        assert!(passes && text.contains("passed   makes"), "{text}");
        let described = run("python3", &[&format!("my_{kind}.py"), "--describe"]).1;
        assert_eq!(described, fs::read_to_string(folder.join(manifest)).unwrap());
    }
}

#[test]
fn python_plugin_is_a_source_or_sink_without_a_kit() {
    let scene = scene();
    refused(&scene, &["a", "--lang", "python", "--kind", "operator"], &["is a source or a sink"]);
    refused(&scene, &["queue", "--lang", "python"], &["`queue`", "Python reserves it"]);
    refused(&scene, &["a", "--lang", "python", "--pdk", "1.0"], &["has no `tremor-pdk`"]);
    refused(&scene, &["a", "--lang", "rust"], &["`--kind` is missing"]);
}
