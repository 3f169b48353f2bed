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

/// What is to be built, where that is less than all, or in another profile.
static WANTED: OnceLock<(bool, &[&str])> = OnceLock::new();

/// From here on these plugins will do, and all is built in the profile `release` or not. To be said before anything
/// is built.
pub fn want(release: bool, plugins: &'static [&'static str]) {
    WANTED.get_or_init(|| (release, plugins));
}

/// Builds them if they are not.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = env::current_exe().unwrap();
        // Of `target/debug/deps/main-…`, which is a test, or of `target/debug/scale_out`.
        let folder = program.parent().unwrap();
        let folder = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder };
        let target = folder.parent().unwrap();
        let all = [PLUGINS, OURS].concat();
        let (release, wanted) = WANTED.get().copied().unwrap_or((false, &all));
        let profile = target.join(if release { "release" } else { "debug" });
        let flags: &[&str] = if release { &["--release"] } else { &[] };
        let build = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO"));
            command.arg("build").args(arguments).arg("--target-dir").arg(target);
            command.current_dir(root()).stdin(Stdio::null());
            assert!(command.status().unwrap().success(), "cannot build {arguments:?}");
        };
        // One by one, as other tests do: cargo joins the features of what it builds together.
        build(&["--package=xtask"]);
        build(&[&["--package=tremor-runtime", "--bins"], flags].concat());
        for plugin in wanted {
            let ours =
                if OURS.contains(plugin) { "--manifest-path=brokers/Cargo.toml" } else { "--lib" };
            build(&[&[ours, "--package", plugin], flags].concat());
        }
        let own = profile.join("broker-test-plugins");
        fs::create_dir_all(&own).unwrap();
        for plugin in wanted {
            let name = format!("lib{}.so", plugin.replace('-', "_"));
            // Renamed into place: another run may have the old one open.
            let copy = own.join(format!("{plugin}.{}", std::process::id()));
            fs::copy(profile.join(&name), &copy).unwrap();
            fs::rename(&copy, own.join(name)).unwrap();
        }
        Built { tremor: profile.join("tremor"), xtask: target.join("debug/xtask"), plugins: own }
    })
}
