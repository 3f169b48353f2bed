//! Builds of the program and the plugins.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// Plugins of the main workspace that the flows of these tests use.
const PLUGINS: &[&str] =
    &["connector-file", "connector-stdio", "connector-http", "connector-metronome"];

/// Plugins of this workspace.
const OURS: &[&str] = &["connector-kafka", "connector-nats"];

/// Paths of the program and the plugins, which are built once.
pub struct Built {
    /// Path of the program.
    pub tremor: PathBuf,
    /// Path of `xtask`.
    pub xtask: PathBuf,
    /// Folder with the plugins.
    pub plugins: PathBuf,
}

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap())
}

/// Profile and plugins to build; unset for the defaults.
static WANTED: OnceLock<(bool, &[&str])> = OnceLock::new();

/// Sets the plugins to build, and whether to build everything in the profile `release`. Call this before
/// anything is built.
pub fn want(release: bool, plugins: &'static [&'static str]) {
    WANTED.get_or_init(|| (release, plugins));
}

/// Builds the program and the plugins at the first call.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = env::current_exe().unwrap();
        // The path of a test is `target/debug/deps/main-…`, and that of the program is `target/debug/scale_out`.
        let folder = program.parent().unwrap();
        let folder = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder };
        let target = folder.parent().unwrap();
        let all = [PLUGINS, OURS].concat();
        let (release, wanted) = WANTED.get().copied().unwrap_or((false, &all));
        let profile = target.join(if release { "release" } else { "debug" });
        let build = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO"));
            command.arg("build").args(arguments).arg("--target-dir").arg(target);
            command.current_dir(root()).stdin(Stdio::null());
            // Remove the variables that cargo sets for the package of this test. If they differed between builds, build
            // scripts that read them would run again, and dependent packages would be rebuilt.
            for (variable, _) in env::vars_os() {
                let name = variable.to_string_lossy();
                let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];
                if of_package.iter().any(|start| name.starts_with(start)) {
                    command.env_remove(&variable);
                }
            }
            assert!(command.status().unwrap().success(), "cannot build {arguments:?}");
        };
        let brokers = "--manifest-path=brokers/Cargo.toml";
        build(&["--package=xtask"]);
        if release {
            // A release builds each package by itself.
            build(&["--release", "--package=tremor-runtime", "--bins"]);
            for plugin in wanted {
                let ours = if OURS.contains(plugin) { brokers } else { "--lib" };
                build(&["--release", ours, "--package", plugin]);
            }
        } else {
            // Cargo unifies the features of packages that it builds together. With the selections of the tests of both
            // workspaces, this finds everything built. `--examples` enables the features that tests need.
            build(&["--workspace", "--lib", "--examples", "--bin=tremor"]);
            build(&[brokers, "--workspace", "--lib", "--examples"]);
        }
        let own = profile.join("broker-test-plugins");
        fs::create_dir_all(&own).unwrap();
        for plugin in wanted {
            let name = format!("lib{}.so", plugin.replace('-', "_"));
            // Copy to another name and rename atomically, because another run may have the old file open.
            let copy = own.join(format!("{plugin}.{}", std::process::id()));
            fs::copy(profile.join(&name), &copy).unwrap();
            fs::rename(&copy, own.join(name)).unwrap();
        }
        Built { tremor: profile.join("tremor"), xtask: target.join("debug/xtask"), plugins: own }
    })
}
