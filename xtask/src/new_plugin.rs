//! `cargo xtask new-plugin`: creates a plugin of each kind with `tremor plugin new`, and builds and runs it as a new
//! author does.
//!
//! The crates are outside of the workspace, and are built with the kit as it would be published, that is, with the
//! files that `cargo package` puts into its packages. The commands are those that `tremor plugin new` prints.

use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::symlink, process::Command};

use anyhow::{Context, Result, ensure};

use crate::built;
use crate::project::{cargo, empty_folder, profile_folder, root, run as run_command, text, write};

/// The crates of the kit.
const KIT: [&str; 3] = ["tremor-abi", "tremor-pdk-macros", "tremor-pdk"];
/// Files and keys of the manifest that each package of the kit must have.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
const KEYS: [&str; 4] = ["description", "license", "readme", "rust-version"];
/// Folder of the packages and of their builds.
const FOLDER: &str = "target/new-plugin";

/// A kind of plugin, and parts of the output of its flow.
type Expected = (&'static str, [&'static str; 2]);

const KINDS: [Expected; 7] = [
    ("source", ["3\n2\n1\n", "3 events in, 3 out"]),
    ("sink", ["got {\"metronome\":\"input\",\"sequence\":2,", "3 events in, 3 out"]),
    ("connector", ["got 1 ", "3 events in, 3 out"]),
    ("operator", ["\"sequence\":4,", "6 events in, 3 out, 0 dead-lettered, 3 discarded"]),
    ("codec", ["metronome=input sequence=2 ", "3 events in, 3 out"]),
    ("preprocessor", ["\"\\n  input\"\n", "19 events in, 19 out"]),
    ("postprocessor", ["\n> {\"metronome\":\"input\",\"sequence\":2,", "3 events in, 3 out"]),
];

pub(crate) fn check() -> Result<()> {
    let kit = package()?;
    built::compile(&["connector-file", "connector-metronome", "connector-stdio"], false)?;
    let scene = tempfile::tempdir().context("cannot create a temporary folder")?;
    write(&scene.path().join(".cargo/config.toml"), &settings(&kit))?;
    KINDS.iter().try_for_each(|expected| try_out(scene.path(), expected))
}

/// Packages and checks the crates of the kit, and returns their folders.
fn package() -> Result<Vec<(&'static str, PathBuf)>> {
    let packages = root().join(FOLDER).join("packages");
    empty_folder(&packages)?;
    let mut command = cargo(["package", "--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    command.arg("--target-dir").arg(&packages).args(KIT.map(|name| format!("--package={name}")));
    run_command(command)?;
    KIT.iter().map(|name| Ok((*name, extract(&packages.join("package"), name)?))).collect()
}

fn extract(packages: &Path, name: &str) -> Result<PathBuf> {
    let id = text(&mut cargo(["pkgid", "--package", name]))?;
    let (_, version) =
        id.trim().rsplit_once(['@', '#']).context("cargo pkgid prints no version")?;
    let folder = packages.join(format!("{name}-{version}"));
    let mut command = Command::new("tar");
    // `m` sets the current time, because with the time stored in the package cargo would not notice a changed file.
    command.arg("-xzmf").arg(format!("{name}-{version}.crate")).current_dir(packages);
    run_command(command)?;
    let missing = FILES.iter().filter(|file| !folder.join(file).is_file()).copied();
    let manifest =
        fs::read_to_string(folder.join("Cargo.toml")).context("cannot read the manifest")?;
    let has = |key: &str| manifest.lines().any(|line| line.starts_with(&format!("{key} = ")));
    let missing: Vec<_> = missing.chain(KEYS.into_iter().filter(|key| !has(key))).collect();
    ensure!(missing.is_empty(), "the package of {name} lacks {}", missing.join(", "));
    ensure!(!manifest.contains("\npath = \".."), "the package of {name} depends on a folder");
    Ok(folder)
}

/// Returns cargo's configuration for the created plugins. It replaces the published crates of the kit by the packages
/// in `kit`, and sets one target folder, so that dependencies that several plugins share are built once.
fn settings(kit: &[(&str, PathBuf)]) -> String {
    let build = root().join(FOLDER).join("build");
    let patches =
        kit.iter().map(|(name, folder)| format!("{name} = {{ path = '{}' }}\n", folder.display()));
    format!(
        "[build]\ntarget-dir = '{}'\nrustflags = [\"--deny=warnings\"]\n\n[net]\noffline = true\n\n\
         [patch.crates-io]\n{}",
        build.display(),
        patches.collect::<String>()
    )
}

/// Creates a plugin of a kind, and runs the printed instructions.
fn try_out(scene: &Path, (kind, expected): &Expected) -> Result<()> {
    let name = format!("ci-{kind}");
    let mut command = Command::new(profile_folder(false).join("tremor"));
    // Without `--pdk` the crate would use the kit of the clone that contains the program.
    command.args(["plugin", "new", &name, "--kind", kind, "--pdk", env!("CARGO_PKG_VERSION")]);
    let instructions = output(command, scene)?;
    let folder = scene.join(&name);
    // The lock file selects versions that are downloaded already. The flow loads the plugin from the crate's own target
    // folder, so that folder is a link to the shared one.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    symlink(root().join(FOLDER).join("build"), folder.join("target"))?;
    let mut format = cargo(["fmt", "--check", "--manifest-path"]);
    format.arg(folder.join("Cargo.toml"));
    run_command(format)?;
    let commands: Vec<_> =
        instructions.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    ensure!(commands.len() == 4, "expected four commands:\n{instructions}");
    let mut shell = Command::new("sh");
    shell.args(["-ec", &format!("exec 2>&1\n{}", commands.join("\n"))]);
    let printed = output(shell, scene)?;
    for part in expected {
        ensure!(printed.contains(part), "{kind}: `{part}` is not in:\n{printed}");
    }
    eprintln!("{kind}: builds, passes its test and runs");
    Ok(())
}

/// Runs a command without the environment variables that a new author does not have, and returns its output.
fn output(mut command: Command, folder: &Path) -> Result<String> {
    command.current_dir(folder).env_remove("CARGO_TARGET_DIR").env_remove("TREMOR_PLUGIN_PATH");
    text(&mut command)
}
