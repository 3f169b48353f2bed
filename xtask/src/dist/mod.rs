//! `cargo xtask dist`: an archive with all that a machine without Rust needs: the program, the plugins, a
//! systemd unit, completions, manual pages, the licences of all that is in it, and a bill of materials.

mod bare;
mod elf;
mod licences;
mod packages;
mod readme;
mod sbom;
mod trial;

use std::collections::BTreeMap;
use std::env::consts::{ARCH, DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::iter;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::elf::Needs;
use crate::built;
use crate::ci;
use crate::project::{cargo, root, run as run_command};
use crate::running::{empty_folder, write};

/// The package with the program.
const PROGRAM: &str = "tremor-runtime";
/// The folders with plugins: all of them are in the archive.
const FOLDERS: [&str; 4] = ["brokers", "codecs-plugins", "connectors-plugins", "operators-plugins"];
/// The workspaces that they are in: that of the program, whose folder has those of the others, is the last.
const WORKSPACES: [&str; 3] = ["brokers", "operators-plugins/vrl", "."];
/// What the toolchain says of the licences of the standard library.
const STANDARD: &str = "COPYRIGHT-library.html";
/// Where completions are looked for, and what they are called there.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/tremor"),
    ("zsh", "share/zsh/site-functions/_tremor"),
    ("fish", "share/fish/vendor_completions.d/tremor.fish"),
];
const PLUGINS: &str = "lib/tremor/plugins";
const DOC: &str = "share/doc/tremor";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to write the archive and the folder that it is made of
    #[arg(long, default_value = "target/dist", value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        cfg!(all(target_os = "linux", target_env = "gnu")),
        "an archive is made on Linux, with glibc"
    );
    // They are no part of `cargo test --workspace`, and a release ships what they test.
    ci::run_steps(&["deny", "vrl", "brokers"], false)?;
    let output = absolute(&arguments.output)?;
    empty_folder(&output)?;
    let plugins = plugins()?;
    build(&plugins)?;
    let shipped = names(&plugins);
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{ARCH}-unknown-linux-gnu");
    let name = format!("tremor-{version}-{target}");
    let folder = output.join(&name);
    let needs = binaries(&folder, &shipped)?;
    bare::common(&needs)?;
    generated(&folder)?;
    let packages = packages::linked(&shipped, &WORKSPACES, &target)?;
    let sbom = serde_json::to_string_pretty(&sbom::of(&packages, version, &shipped))?;
    put(&folder, &format!("{DOC}/sbom.cdx.json"), &(sbom + "\n"))?;
    put(&folder, &format!("{DOC}/LICENSES.txt"), &licences::text(&packages)?)?;
    let standard = packages.iter().find(|it| it.name == packages::STANDARD);
    let standard = standard.context("no standard library")?.folder.join(STANDARD);
    copy(&standard, &folder.join(format!("{DOC}/rust-std-{STANDARD}")))?;
    put(&folder, "README.md", &readme::text(version, &needs))?;
    for (file, to) in [
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
        ("CHANGELOG.md", "share/doc/tremor/CHANGELOG.md"),
        ("dist/tremor@.service", "lib/systemd/system/tremor@.service"),
        ("examples/logs.json", "share/tremor/examples/logs.json"),
    ] {
        copy(&root().join(file), &folder.join(to))?;
    }
    put(&folder, trial::FLOW, &trial::flow()?)?;
    let archive = pack(&output, &name)?;
    trial::run(&output, &archive, &name, &needs)?;
    print(&format!(
        "{}: {} KiB\n{}",
        archive.display(),
        fs::metadata(&archive)?.len() >> 10,
        readme::needs(&needs)
    ));
    Ok(())
}

/// The plugins that are in the archive: the names of their packages, by the workspaces that these are in.
fn plugins() -> Result<BTreeMap<&'static str, Vec<String>>> {
    let mut plugins: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for folder in FOLDERS {
        let mut folders: Vec<PathBuf> = fs::read_dir(root().join(folder))
            .with_context(|| format!("no {folder}"))?
            .flatten()
            .map(|entry| entry.path().join("Cargo.toml"))
            .filter(|manifest| manifest.exists())
            .collect();
        folders.sort();
        for manifest in folders {
            let text = fs::read_to_string(&manifest)?;
            if !text.contains("\"cdylib\"") {
                continue; // tests of plugins
            }
            let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
            let name = name.and_then(|rest| rest.strip_suffix('"'));
            let name = name.with_context(|| format!("no name in {}", manifest.display()))?;
            let is_in = |workspace: &&str| manifest.starts_with(root().join(workspace));
            let workspace = WORKSPACES.into_iter().find(is_in).context("it is in no workspace")?;
            plugins.entry(workspace).or_default().push(name.to_owned());
        }
    }
    Ok(plugins)
}

/// The packages that are in the archive, the program first.
fn names(plugins: &BTreeMap<&str, Vec<String>>) -> Vec<String> {
    iter::once(PROGRAM.to_owned()).chain(plugins.values().flatten().cloned()).collect()
}

/// Builds all that is in the archive.
fn build(plugins: &BTreeMap<&str, Vec<String>>) -> Result<()> {
    let target = built::folder(true);
    let target = target.parent().context("a profile has a folder")?;
    run_command(cargo(["build", "--release", "--locked", "--bins", "--package", PROGRAM]))?;
    for (workspace, names) in plugins {
        let mut command = cargo(["build", "--release", "--locked", "--lib"]);
        command.arg(format!("--manifest-path={workspace}/Cargo.toml"));
        command.arg("--target-dir").arg(target);
        command.args(names.iter().map(|name| format!("--package={name}")));
        run_command(command)?;
    }
    Ok(())
}

/// Copies the program and the plugins; what they need.
fn binaries(folder: &Path, shipped: &[String]) -> Result<Needs> {
    let from = built::folder(true);
    let mut needs = Needs::default();
    let mut files = vec![("tremor".to_owned(), "bin")];
    for package in &shipped[1..] {
        files.push((format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_")), PLUGINS));
    }
    for (name, to) in files {
        let copied = folder.join(to).join(&name);
        copy(&from.join(&name), &copied)?;
        needs = needs.and(Needs::of(&copied)?);
    }
    Ok(needs)
}

/// Has the program write its completions and manual pages.
fn generated(folder: &Path) -> Result<()> {
    let tremor = folder.join("bin/tremor");
    for (shell, path) in COMPLETIONS {
        let output = Command::new(&tremor).args(["completions", shell]).output();
        let output = output.context("cannot start tremor")?;
        ensure!(output.status.success(), "`tremor completions {shell}` failed: {}", output.status);
        put(folder, path, &String::from_utf8(output.stdout)?)?;
    }
    let mut command = Command::new(&tremor);
    let pages = folder.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    command.arg("manual-pages").arg(&pages);
    run_command(command)
}

/// Makes the archive: the same files are the same bytes, whoever makes it and when.
fn pack(output: &Path, name: &str) -> Result<PathBuf> {
    let archive = output.join(format!("{name}.tar.gz"));
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    command.args(["--mode=go=rX,u+rw,a-s", "--use-compress-program=gzip -9n"]);
    command.arg("--create").arg("--file").arg(&archive).arg("--directory").arg(output).arg(name);
    run_command(command)?;
    Ok(archive)
}

fn put(folder: &Path, path: &str, text: &str) -> Result<()> {
    let path = folder.join(path);
    parent(&path)?;
    write(&path, text)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    parent(to)?;
    fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display()))
}

fn parent(path: &Path) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

#[allow(clippy::print_stdout)] // what was asked for
fn print(text: &str) {
    print!("{text}");
}
