//! `cargo xtask new-plugin`: the crates that `tremor plugin new` makes, one of each kind, as a new author
//! has them.
//!
//! They lie outside of the workspace, and are built with the kit as it would be published: with what
//! `cargo package` puts into its packages, and nothing else of this project. The commands are those that
//! `tremor plugin new` prints.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context, Result, ensure};

use crate::built;
use crate::project::{cargo, root, run as run_command, shown};

/// The crates of the kit.
const KIT: [&str; 3] = ["tremor-abi", "tremor-pdk-macros", "tremor-pdk"];
/// What each of their packages has to have: files, and keys of the manifest.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
const KEYS: [&str; 4] = ["description", "license", "readme", "rust-version"];
/// Packages, and what is built of them.
const FOLDER: &str = "target/new-plugin";

/// A kind, and parts of what its flow prints.
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
    built::program(false)?;
    for package in ["connector-file", "connector-metronome", "connector-stdio"] {
        built::plugin(package, false)?;
    }
    let scene = env::temp_dir().join(format!("tremor-new-plugin-{}", process::id()));
    fs::create_dir_all(scene.join(".cargo")).context("cannot make a folder for temporary files")?;
    fs::write(scene.join(".cargo/config.toml"), settings(&kit))?;
    let checked = KINDS.iter().try_for_each(|expected| try_out(&scene, expected));
    fs::remove_dir_all(&scene).context("cannot remove the folder for temporary files")?;
    checked
}

/// Makes the packages of the kit, looks at them, and gives their folders.
fn package() -> Result<Vec<(&'static str, PathBuf)>> {
    let packages = root().join(FOLDER).join("packages");
    if packages.exists() {
        fs::remove_dir_all(&packages).context("cannot remove older packages")?;
    }
    let mut command = cargo(["package", "--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    command.arg("--target-dir").arg(&packages);
    run_command(KIT.iter().fold(command, |mut command, name| {
        command.args(["--package", name]);
        command
    }))?;
    KIT.iter().map(|name| Ok((*name, extract(&packages.join("package"), name)?))).collect()
}

fn extract(packages: &Path, name: &str) -> Result<PathBuf> {
    let manifest = cargo(["pkgid", "--package", name]).output().context("cannot start cargo")?;
    let id = String::from_utf8_lossy(&manifest.stdout);
    let (_, version) = id.trim().rsplit_once(['@', '#']).context("cargo pkgid gives no version")?;
    let folder = packages.join(format!("{name}-{version}"));
    let mut command = Command::new("tar");
    // With the time of now: by that of the package cargo would not see that a file is another.
    command.arg("-xzmf").arg(folder.with_file_name(format!("{name}-{version}.crate")));
    run_command({
        command.current_dir(packages);
        command
    })?;
    let missing = FILES.iter().filter(|file| !folder.join(file).is_file()).copied();
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).context("no manifest")?;
    let has = |key: &str| manifest.lines().any(|line| line.starts_with(&format!("{key} = ")));
    let missing: Vec<_> = missing.chain(KEYS.into_iter().filter(|key| !has(key))).collect();
    ensure!(missing.is_empty(), "the package of {name} lacks {}", missing.join(", "));
    ensure!(!manifest.contains("\npath = \".."), "the package of {name} depends on a folder");
    Ok(folder)
}

/// Cargo's configuration for all crates: the packages take the place of published ones, and what several
/// crates need is built once.
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

/// Makes a plugin of a kind, and follows the instructions.
fn try_out(scene: &Path, (kind, expected): &Expected) -> Result<()> {
    let name = format!("ci-{kind}");
    let mut command = Command::new(built::folder(false).join("tremor"));
    // The published kit, and not the one of the clone that the program lies in.
    command.args(["plugin", "new", &name, "--kind", kind, "--pdk", env!("CARGO_PKG_VERSION")]);
    let instructions = output(command, scene)?;
    let folder = scene.join(&name);
    // The versions that are at hand; and the folder that the flow names, though it is shared.
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

fn output(mut command: Command, folder: &Path) -> Result<String> {
    // A new author has none of the settings of the machine that this runs on.
    command.current_dir(folder).env_remove("CARGO_TARGET_DIR").env_remove("TREMOR_PLUGIN_PATH");
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    ensure!(output.status.success(), "{} failed:\n{stdout}{stderr}", shown(&command));
    Ok(stdout.into_owned())
}
