//! The program and the plugins, built as they are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// The plugins of the project that flows of these tests use, beside those of this workspace.
const PLUGINS: &[&str] =
    &["connector-file", "connector-stdio", "connector-http-client", "connector-metronome"];

/// Those of this workspace.
const OURS: &[&str] = &["connector-kafka", "connector-nats"];

/// Where they are, built once.
pub struct Built {
    /// The program.
    pub tremor: PathBuf,
    /// The tasks of the project.
    pub xtask: PathBuf,
    /// A folder with the plugins.
    pub plugins: PathBuf,
}

/// The root of the project.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap())
}

/// Builds them if they are not.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = env::current_exe().unwrap();
        // Of `target/debug/deps/main-…`, which is a test, or of `target/debug/rebalances`.
        let folder = program.parent().unwrap();
        let profile = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder };
        let target = profile.parent().unwrap();
        let build = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO"));
            command.arg("build").args(arguments).arg("--target-dir").arg(target);
            command.current_dir(root()).stdin(Stdio::null());
            assert!(command.status().unwrap().success(), "cannot build {arguments:?}");
        };
        // One by one, as other tests do: cargo joins the features of what it builds together.
        build(&["--package=tremor-runtime", "--bins"]);
        build(&["--package=xtask"]);
        PLUGINS.iter().for_each(|plugin| build(&["--lib", "--package", plugin]));
        for plugin in OURS {
            build(&["--manifest-path=brokers/Cargo.toml", "--package", plugin]);
        }
        let own = target.join("broker-test-plugins");
        fs::create_dir_all(&own).unwrap();
        for plugin in PLUGINS.iter().chain(OURS) {
            let name = format!("lib{}.so", plugin.replace('-', "_"));
            // Renamed into place: another run may have the old one open.
            let copy = own.join(format!("{plugin}.{}", std::process::id()));
            fs::copy(profile.join(&name), &copy).unwrap();
            fs::rename(&copy, own.join(name)).unwrap();
        }
        Built { tremor: profile.join("tremor"), xtask: profile.join("xtask"), plugins: own }
    })
}
