//! Whether the archive works: unpacked elsewhere, and run without anything of this machine's environment.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::demo;
use crate::project::{root, run as run_command, shown};
use crate::running::empty_folder;

/// The example in the archive.
pub(super) const FLOW: &str = "share/tremor/examples/errors.yaml";

/// The flow of the demo, with the plugins and the input where the archive has them.
pub(super) fn flow() -> Result<String> {
    let path = root().join(demo::FLOW);
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let own = "plugins: [../target/release]";
    ensure!(text.contains(own), "{} names its plugins otherwise", demo::FLOW);
    Ok(text.replace(own, "plugins: [../../../lib/tremor/plugins]"))
}

/// Unpacks the archive and runs the demo with nothing in the environment.
pub(super) fn run(output: &Path, archive: &Path, name: &str) -> Result<()> {
    let folder = output.join("trial");
    empty_folder(&folder)?;
    let mut command = Command::new("tar");
    command.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(&folder);
    run_command(command)?;
    let mut command = Command::new(folder.join(name).join("bin/tremor"));
    command.args(["run", FLOW]).current_dir(folder.join(name)).env_clear();
    let output = command.output().context("cannot start what was unpacked")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}\n{log}", shown(&command), output.status);
    let events = demo::expect(&output.stdout)?;
    eprintln!("unpacked, it runs with an empty environment: {events} events, as expected");
    fs::remove_dir_all(&folder).context("cannot remove what was unpacked")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_of_the_archive_finds_its_plugins_in_there() {
        let flow = super::flow().unwrap();
        assert!(flow.contains("lib/tremor/plugins") && !flow.contains("target"), "{flow}");
    }
}
