//! `cargo xtask dist`: an archive with all that a machine without Rust needs: the program, the plugins, a
//! systemd unit, completions, manual pages, the licences of all that is in it, and a bill of materials.

mod elf;
mod licences;
mod packages;
mod readme;
mod sbom;
mod trial;

use std::env::consts::{ARCH, DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::elf::Needs;
use crate::built;
use crate::project::{cargo, root, run as run_command};
use crate::running::{empty_folder, write};

/// The packages that are in the archive, the program first.
const SHIPPED: [&str; 8] = [
    "tremor-runtime",
    "connector-bench",
    "connector-exit",
    "connector-file",
    "connector-metronome",
    "connector-null",
    "connector-stdio",
    "operator-logging",
];
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
    let output = absolute(&arguments.output)?;
    empty_folder(&output)?;
    build()?;
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{ARCH}-unknown-linux-gnu");
    let name = format!("tremor-{version}-{target}");
    let folder = output.join(&name);
    let needs = binaries(&folder)?;
    generated(&folder)?;
    let packages = packages::linked(&SHIPPED, &target)?;
    let sbom = serde_json::to_string_pretty(&sbom::of(&packages, version, &SHIPPED))?;
    put(&folder, &format!("{DOC}/sbom.cdx.json"), &(sbom + "\n"))?;
    put(&folder, &format!("{DOC}/LICENSES.txt"), &licences::text(&packages)?)?;
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
    trial::run(&output, &archive, &name)?;
    print(&format!(
        "{}: {} KiB\n{}",
        archive.display(),
        fs::metadata(&archive)?.len() >> 10,
        readme::needs(&needs)
    ));
    Ok(())
}

/// Builds all that is in the archive.
fn build() -> Result<()> {
    let mut command = cargo(["build", "--release", "--locked"]);
    for package in SHIPPED {
        command.arg(format!("--package={package}"));
    }
    run_command(command)
}

/// Copies the program and the plugins; what they need.
fn binaries(folder: &Path) -> Result<Needs> {
    let from = built::folder(true);
    let mut needs = Needs::default();
    let mut files = vec![("tremor".to_owned(), "bin")];
    for package in &SHIPPED[1..] {
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
