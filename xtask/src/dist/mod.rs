//! `cargo xtask dist`: creates an archive that runs on machines without Rust, a Debian package of it, and an image for
//! containers. The archive and the package contain the program, the plugins, a systemd unit, completions, manual pages,
//! licences, and a software bill of materials.

mod bare;
mod elf;
mod image;
mod layer;
mod licences;
mod packages;
mod sbom;
mod trial;

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::elf::Needs;
use self::packages::{Metadata, Package};
use crate::built::library;
use crate::ci;
use crate::project::{
    cargo, empty_folder, is_on_path, metadata, profile_folder, root, run as run_command,
    target_folder, text, write,
};

/// The package with the program.
const PROGRAM: &str = "tremor-runtime";
/// Folders with plugins, all of which are in the archive.
const FOLDERS: [&str; 4] = ["brokers", "codecs-plugins", "connectors-plugins", "operators-plugins"];
/// Folders of the workspaces. The program's workspace is the last one, because its folder contains the others.
const WORKSPACES: [&str; 3] = ["brokers", "operators-plugins/vrl", "."];
/// File of the toolchain with the licences of the standard library.
const STANDARD: &str = "COPYRIGHT-library.html";
/// Shells, and the paths where they search for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/tremor"),
    ("zsh", "share/zsh/site-functions/_tremor"),
    ("fish", "share/fish/vendor_completions.d/tremor.fish"),
];
const PLUGINS: &str = "lib/tremor/plugins";
const DOC: &str = "share/doc/tremor";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the archive and its unpacked contents
    #[arg(long, default_value = "target/dist", value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        cfg!(all(target_os = "linux", target_env = "gnu")),
        "archives can be created only on Linux with glibc"
    );
    // `cargo test --workspace` does not run these tests of shipped files.
    ci::run_steps(&["deny", "vrl", "brokers"], false)?;
    let output = absolute(&arguments.output)?;
    empty_folder(&output)?;
    let plugins = plugins()?;
    build(&plugins)?;
    let shipped: Vec<_> =
        iter::once(PROGRAM.to_owned()).chain(plugins.values().flatten().cloned()).collect();
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{ARCH}-unknown-linux-gnu");
    let name = format!("tremor-{version}-{target}");
    let folder = output.join(&name);
    // Paths of the program and the plugins in the archive.
    let mut files = vec![trial::PROGRAM.to_owned()];
    files.extend(shipped[1..].iter().map(|plugin| format!("{PLUGINS}/{}", library(plugin))));
    for file in &files {
        let built = Path::new(file).file_name().context("a file has a name")?;
        copy(&profile_folder(true).join(built), &folder.join(file))?;
    }
    let copies: Vec<_> = files.iter().map(|file| folder.join(file)).collect();
    let needs = Needs::of(&copies)?;
    bare::common(&needs)?;
    generated(&folder)?;
    let packages = packages::linked(&shipped, &WORKSPACES, &target)?;
    let sbom = serde_json::to_string_pretty(&sbom::of(&packages, version, &shipped))?;
    write(&folder.join(DOC).join("sbom.cdx.json"), &(sbom + "\n"))?;
    write(&folder.join(DOC).join("LICENSES.txt"), &licences::text(&packages)?)?;
    let standard = packages.iter().find(|it| it.name == packages::STANDARD);
    let standard = standard.context("no standard library")?.folder().join(STANDARD);
    copy(&standard, &folder.join(format!("{DOC}/rust-std-{STANDARD}")))?;
    write(&folder.join("README.md"), &readme(version, &needs))?;
    for (file, to) in [
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
        ("CHANGELOG.md", "share/doc/tremor/CHANGELOG.md"),
        ("dist/tremor@.service", "lib/systemd/system/tremor@.service"),
        ("dist/tremor.sysusers", "lib/sysusers.d/tremor.conf"),
        ("examples/logs.json", "share/tremor/examples/logs.json"),
    ] {
        copy(&root().join(file), &folder.join(to))?;
    }
    write(&folder.join(trial::FLOW), &trial::flow()?)?;
    let archive = pack(&output, &name)?;
    trial::run(&output, &name, &files, &needs)?;
    debian(&folder, version, &needs)?;
    let image = image::create(&output, &folder, &copies, &needs, version)?;
    trial::image(&output, &image, &files[1..])?;
    eprintln!("{}: {} KiB", image.display(), fs::metadata(&image)?.len() >> 10);
    let size = fs::metadata(&archive)?.len() >> 10;
    eprintln!("{}: {size} KiB\n{}", archive.display(), described(&needs));
    Ok(())
}

/// Returns the package names of the archive's plugins, by workspace.
fn plugins() -> Result<BTreeMap<&'static str, Vec<String>>> {
    let mut plugins = BTreeMap::new();
    for workspace in WORKSPACES {
        let Metadata { packages, .. } = metadata(workspace, &["--locked", "--no-deps"])?;
        let is_plugin = |package: &&Package| {
            let mut folders = FOLDERS.iter().map(|folder| root().join(folder));
            package.has("cdylib") && folders.any(|it| package.manifest_path.starts_with(it))
        };
        let names = packages.iter().filter(is_plugin).map(|package| package.name.clone());
        plugins.insert(workspace, names.collect());
    }
    Ok(plugins)
}

/// Builds the program and the plugins of the archive.
fn build(plugins: &BTreeMap<&str, Vec<String>>) -> Result<()> {
    run_command(cargo(["build", "--release", "--locked", "--bins", "--package", PROGRAM]))?;
    for (workspace, names) in plugins {
        let mut command = cargo(["build", "--release", "--locked", "--lib", "--target-dir"]);
        command.arg(target_folder()).arg(format!("--manifest-path={workspace}/Cargo.toml"));
        command.args(names.iter().map(|name| format!("--package={name}")));
        run_command(command)?;
    }
    Ok(())
}

/// Writes completions and manual pages, which the program generates.
fn generated(folder: &Path) -> Result<()> {
    let tremor = folder.join(trial::PROGRAM);
    for (shell, path) in COMPLETIONS {
        write(&folder.join(path), &text(Command::new(&tremor).args(["completions", shell]))?)?;
    }
    let mut command = Command::new(&tremor);
    let pages = folder.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    command.arg("manual-pages").arg(&pages);
    run_command(command)
}

/// Creates a Debian package beside the archive from its unpacked contents, and tests the package.
fn debian(folder: &Path, version: &str, needs: &Needs) -> Result<()> {
    if !is_on_path("dpkg-deb") {
        eprintln!("SKIPPED: the Debian package, because dpkg-deb is not installed");
        return Ok(());
    }
    let package = folder.with_file_name(format!("tremor_{version}_{ARCH}.deb"));
    let mut command = Command::new(root().join("scripts/deb.sh"));
    command.arg(folder).args([version, ARCH, &glibc(needs)]).arg(&package);
    run_command(command)?;
    let mut command = Command::new(root().join("scripts/tests/deb.sh"));
    let status = command.arg(folder).arg(glibc(needs)).status()?;
    // The script has printed what it skips.
    ensure!(matches!(status.code(), Some(0 | 77)), "the test of {} failed", package.display());
    eprintln!("{}: {} KiB", package.display(), fs::metadata(&package)?.len() >> 10);
    Ok(())
}

/// Returns the README at the top of the archive.
fn readme(version: &str, needs: &Needs) -> String {
    let template = include_str!("README.md");
    template.replace("@VERSION@", version).replace("@NEEDS@", &described(needs))
}

/// Returns the requirements of the archive, one per line.
fn described(needs: &Needs) -> String {
    let libraries = needs.libraries.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("architecture: {ARCH}\nglibc: {} or later\nlibraries: {libraries}", glibc(needs))
}

fn glibc(needs: &Needs) -> String {
    needs.glibc.iter().flatten().map(u32::to_string).collect::<Vec<_>>().join(".")
}

/// Creates the archive. Its bytes depend only on the files, and not on the user and the time.
fn pack(output: &Path, name: &str) -> Result<PathBuf> {
    let archive = output.join(format!("{name}.tar.gz"));
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    command.args(["--mode=go=rX,u+rw,a-s", "--use-compress-program=gzip -9n"]);
    command.arg("--create").arg("--file").arg(&archive).arg("--directory").arg(output).arg(name);
    run_command(command)?;
    Ok(archive)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::{Needs, plugins, readme};

    #[test]
    fn needs_of_the_archive_are_in_its_readme() {
        let libraries = ["libc.so.6".to_owned()].into();
        let needs = Needs { glibc: Some(vec![2, 34]), libraries, ..Needs::default() };
        let text = readme("1.2.3", &needs);
        for part in ["# tremor 1.2.3", "architecture: ", "glibc: 2.34 or later", "libc.so.6"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('@'), "{text}");
    }

    #[test]
    fn plugins_of_every_workspace_are_found() {
        let plugins = plugins().unwrap();
        let has = |workspace, name: &str| plugins[workspace].iter().any(|it| it == name);
        assert!(has("brokers", "connector-kafka") && has("operators-plugins/vrl", "operator-vrl"));
        assert!(has(".", "connector-file") && !has(".", "fixture-faults"));
    }
}
