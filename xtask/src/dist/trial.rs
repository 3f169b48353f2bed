//! Whether the archive works: unpacked elsewhere, and run without anything of this machine but libraries of its system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::PLUGINS;
use super::bare;
use super::elf::Needs;
use crate::demo;
use crate::project::{root, run as run_command, shown};
use crate::running::empty_folder;

/// The example in the archive.
pub(super) const FLOW: &str = "share/tremor/examples/errors.yaml";

/// The program in the archive.
const PROGRAM: &str = "bin/tremor";

/// The flow of the demo, with the plugins and the input where the archive has them.
pub(super) fn flow() -> Result<String> {
    let path = root().join(demo::FLOW);
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let own = "plugins: [../target/release]";
    ensure!(text.contains(own), "{} names its plugins otherwise", demo::FLOW);
    Ok(text.replace(own, "plugins: [../../../lib/tremor/plugins]"))
}

/// Unpacks the archive and runs the demo: with nothing in the environment, and, where the system permits it, with
/// nothing else of this machine either but the libraries that the files say they need.
pub(super) fn run(output: &Path, archive: &Path, name: &str, needs: &Needs) -> Result<()> {
    let root = output.join("trial");
    empty_folder(&root)?;
    let mut command = Command::new("tar");
    command.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(&root);
    run_command(command)?;
    let folder = root.join(name);
    let mut command = Command::new(folder.join(PROGRAM));
    let events =
        demo::expect(&said(command.args(["run", FLOW]).current_dir(&folder).env_clear())?)?;
    eprintln!("unpacked, it runs with an empty environment: {events} events, as expected");
    let Some(way) = bare::way() else {
        eprintln!("SKIPPED: {}", bare::SKIPPED);
        return remove(&root);
    };
    let plugins = plugins(&folder)?;
    let mut files = vec![folder.join(PROGRAM)];
    files.extend(plugins.iter().map(|plugin| folder.join(plugin)));
    bare::furnish(&root, &files, needs)?;
    let tremor = || bare::command(way, &root, &format!("/{name}"), PROGRAM);
    let events = demo::expect(&said(tremor().args(["run", FLOW]))?)?;
    for plugin in &plugins {
        let inspected = said(tremor().args(["plugin", "inspect", "--json"]).arg(plugin))?;
        let inspected = serde_json::from_slice(&inspected).context("no JSON")?;
        loads(&inspected).with_context(|| format!("{} does not load", plugin.display()))?;
    }
    eprintln!(
        "with nothing else but the libraries of the system that it needs: {events} events, and {} plugins load",
        plugins.len()
    );
    remove(&root)
}

/// What a command that succeeds writes.
fn said(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().context("cannot start what was unpacked")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}\n{log}", shown(command), output.status);
    Ok(output.stdout)
}

/// The plugins, as they are called within the folder.
fn plugins(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder.join(PLUGINS)).context("there are no plugins")?;
    let names: Result<Vec<PathBuf>, _> =
        entries.map(|entry| Ok(Path::new(PLUGINS).join(entry?.file_name()))).collect();
    names.map_err(std::io::Error::into).map(|mut names| {
        names.sort();
        names
    })
}

/// Whether what `tremor plugin inspect` says of a library shows that it was loaded.
fn loads(inspected: &Value) -> Result<()> {
    let components = inspected["components"].as_array().context("it says nothing of components")?;
    ensure!(!components.is_empty(), "it has no component");
    for said in components.iter().chain([inspected]) {
        ensure!(said["error"].is_null(), "{}", said["error"]);
    }
    Ok(())
}

fn remove(root: &Path) -> Result<()> {
    fs::remove_dir_all(root).context("cannot remove what was unpacked")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::loads;

    #[test]
    fn a_plugin_that_cannot_be_asked_or_has_nothing_does_not_load() {
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
    fn the_example_of_the_archive_finds_its_plugins_in_there() {
        let flow = super::flow().unwrap();
        assert!(flow.contains("lib/tremor/plugins") && !flow.contains("target"), "{flow}");
    }
}
