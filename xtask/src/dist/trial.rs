//! Tests of the archive and of the image: unpacks each of them in another folder, and runs it with only the system
//! libraries that it requires.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::elf::Needs;
use super::{bare, image};
use crate::demo;
use crate::project::{empty_folder, output as run_output, root, run as run_command};

/// Path of the example in the archive.
pub(super) const FLOW: &str = "share/tremor/examples/errors.yaml";

/// Path of the program in the archive.
pub(super) const PROGRAM: &str = "bin/tremor";

/// Returns the flow of the demo with the archive's path of the plugins.
pub(super) fn flow() -> Result<String> {
    let text =
        fs::read_to_string(root().join(demo::FLOW)).context("cannot read the flow of the demo")?;
    let own = "plugins: [../target/release]";
    ensure!(text.contains(own), "{} does not contain `{own}`", demo::FLOW);
    Ok(text.replace(own, "plugins: [../../../lib/tremor/plugins]"))
}

/// Unpacks the archive, and runs the demo with an empty environment. If the system permits it, the demo runs again in a
/// root folder with only the archive and the required system libraries. `files` are the program and the plugins.
pub(super) fn run(output: &Path, name: &str, files: &[String], needs: &Needs) -> Result<()> {
    let root = output.join("trial");
    empty_folder(&root)?;
    let mut command = Command::new("tar");
    command.arg("--extract").arg("--file").arg(output.join(format!("{name}.tar.gz")));
    run_command({
        command.arg("--directory").arg(&root);
        command
    })?;
    let folder = root.join(name);
    let mut command = Command::new(folder.join(PROGRAM));
    let command = command.args(["run", FLOW]).current_dir(&folder).env_clear();
    let events = demo::expect(&run_output(command)?.stdout)?;
    eprintln!("the unpacked archive runs with an empty environment: {events} events, as expected");
    if let Some(way) = bare::way() {
        let all: Vec<_> = files.iter().map(|file| folder.join(file)).collect();
        bare::furnish(&root, &all, needs)?;
        let tremor = || bare::command(way, &root, &format!("/{name}"), PROGRAM);
        let events = demo::expect(&run_output(tremor().args(["run", FLOW]))?.stdout)?;
        for plugin in &files[1..] {
            inspect(tremor(), plugin)?;
        }
        let plugins = files.len() - 1;
        eprintln!(
            "with only the required system libraries: {events} events, and {plugins} plugins load"
        );
    } else {
        eprintln!("SKIPPED: {}", bare::SKIPPED);
    }
    fs::remove_dir_all(&root).context("cannot remove the unpacked archive")
}

/// Unpacks and checks an image, and runs the demo and loads the plugins in its root folder as its user, if the system
/// permits it. `plugins` are the paths of the plugins in the archive.
pub(super) fn image(output: &Path, archive: &Path, plugins: &[String]) -> Result<()> {
    let folder = output.join("trial-of-image");
    empty_folder(&folder)?;
    let root = image::unpack(archive, &folder)?;
    if let Some(mut command) = image::command(&root) {
        let flow = format!("/usr/{FLOW}");
        let events = demo::expect(&run_output(command.args(["run", &flow]))?.stdout)?;
        for plugin in plugins {
            let command = image::command(&root).context("the program has just run")?;
            inspect(command, &format!("/usr/{plugin}"))?;
        }
        eprintln!("in the image: {events} events, and {} plugins load", plugins.len());
    } else {
        eprintln!("SKIPPED: {}", bare::SKIPPED);
    }
    fs::remove_dir_all(&folder).context("cannot remove the unpacked image")
}

/// Checks with the program that a plugin loads.
fn inspect(mut program: Command, plugin: &str) -> Result<()> {
    let inspected = run_output(program.args(["plugin", "inspect", "--json", plugin]))?;
    let inspected =
        serde_json::from_slice(&inspected.stdout).context("the description is not JSON")?;
    loads(&inspected).with_context(|| format!("{plugin} does not load"))
}

/// Checks that the output of `tremor plugin inspect` describes a loaded library with components.
fn loads(inspected: &Value) -> Result<()> {
    let components =
        inspected["components"].as_array().context("the description has no components")?;
    ensure!(!components.is_empty(), "the plugin has no components");
    for part in components.iter().chain([inspected]) {
        ensure!(part["error"].is_null(), "{}", part["error"]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::loads;

    #[test]
    fn plugin_with_an_error_or_without_components_is_refused() {
        let with = |error: serde_json::Value, components: serde_json::Value| {
            loads(&json!({ "error": error, "components": components }))
        };
        let none = json!(null);
        assert!(with(none.clone(), json!([{ "error": null }, { "error": null }])).is_ok());
        let refused = with(none.clone(), json!([{ "error": null }, { "error": "no libodd.so" }]));
        assert!(refused.unwrap_err().to_string().contains("no libodd.so"));
        assert!(with(json!("another ABI"), json!([{ "error": null }])).is_err());
        assert!(with(none, json!([])).is_err());
    }

    #[test]
    fn example_of_the_archive_uses_its_plugins() {
        let flow = super::flow().unwrap();
        assert!(flow.contains("lib/tremor/plugins") && !flow.contains("target"), "{flow}");
    }
}
