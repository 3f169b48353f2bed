//! Runs of the binary, each in a folder of its own.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::support::{library, target_folder};

/// Maximum duration of a run. A run that takes longer is killed and fails its test.
const LIMIT: Duration = Duration::from_mins(2);

/// Returns a folder with the plugins that the flows of these tests use, built once.
pub(crate) fn plugins() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| gathered("binary-test-plugins", PLUGINS.map(library)))
}

const PLUGINS: [&str; 24] = [
    "connector-file",
    "connector-journald",
    "connector-stdio",
    "connector-metronome",
    "connector-null",
    "connector-exec",
    "connector-exit",
    "connector-bench",
    "connector-socket",
    "codec-otlp",
    "codec-prometheus",
    "connector-http",
    "connector-ws",
    "operator-logging",
    "operator-lookup",
    "operator-parse",
    "operator-redact",
    "plugin-peers",
    "plugin-keyvalue",
    "plugin-pieces",
    "fixture-dice",
    "fixture-faults",
    "fixture-script",
    "fixture-tokio",
];

/// Returns a folder with the plugin `vrl`, which is built only on demand because that takes minutes.
fn vrl() -> &'static Path {
    static VRL: OnceLock<PathBuf> = OnceLock::new();
    VRL.get_or_init(|| gathered("binary-test-vrl", [library("operator-vrl")]))
}

/// Adds the plugin `vrl` to the plugins of a command.
pub(crate) fn with_vrl(command: &mut Command) -> &mut Command {
    command.env("TREMOR_PLUGIN_PATH", env::join_paths([plugins(), vrl()]).unwrap())
}

/// Copies libraries to a subfolder of the target folder, and returns the path of the subfolder.
fn gathered(name: &str, libraries: impl IntoIterator<Item = PathBuf>) -> PathBuf {
    let folder = target_folder().join(name);
    fs::create_dir_all(&folder).unwrap();
    let mut names = Vec::new();
    for library in libraries {
        let name = library.file_name().unwrap();
        names.push(name.to_owned());
        // Copy to another name and rename atomically, because another run may have the old file open.
        let copy = folder.join(format!("{}.{}", name.display(), std::process::id()));
        fs::copy(&library, &copy).unwrap();
        // Remove symbols, because every `tremor` process reads those of all plugins. If `strip` is missing, the tests
        // only take longer.
        let _ = Command::new("strip").arg("--strip-unneeded").arg(&copy).status();
        fs::rename(&copy, folder.join(name)).unwrap();
    }
    // Remove other files, because libraries of earlier builds may provide the same components.
    for entry in fs::read_dir(&folder).unwrap().filter_map(Result::ok) {
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".so") && !names.contains(&name) {
            let _ = fs::remove_file(entry.path());
        }
    }
    folder
}

/// A folder with a flow file, and the files that the flow reads.
pub(crate) struct Scene(TempDir);

impl Scene {
    /// Creates a folder with this text as `flow.yaml`.
    pub(crate) fn new(flow: &str) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        scene.write("flow.yaml", flow.as_bytes())
    }

    /// Adds a file to the folder.
    pub(crate) fn write(self, name: &str, contents: &[u8]) -> Self {
        fs::write(self.0.path().join(name), contents).unwrap();
        self
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the contents of a file in the folder.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    /// Returns whether a file exists in the folder.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.path().join(name).exists()
    }

    /// Returns a `tremor` command with these arguments, in this folder, with the plugins of these tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tremor"));
        command.args(arguments).current_dir(self.0.path());
        command.env("TREMOR_PLUGIN_PATH", plugins()).env_remove("TREMOR_LOG");
        // Disable backtraces: plugins panic in many tests, and a backtrace takes a tenth of a second.
        command.env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the flow to its end.
    pub(crate) fn run(&self) -> Run {
        Run::of(&finish(self.command(&["run", "flow.yaml"]).spawn().unwrap()))
    }

    /// Runs `tremor` with these arguments to its end.
    pub(crate) fn tremor(&self, arguments: &[&str]) -> Run {
        Run::of(&finish(self.command(arguments).spawn().unwrap()))
    }

    /// Runs `tremor` like [`Self::tremor`], with the plugin `vrl` as well.
    pub(crate) fn tremor_with_vrl(&self, arguments: &[&str]) -> Run {
        let mut command = self.command(arguments);
        Run::of(&finish(with_vrl(&mut command).spawn().unwrap()))
    }
}

/// Waits until a process has ended, at most [`LIMIT`].
pub(crate) fn finish(mut child: Child) -> Output {
    let started = Instant::now();
    let pid = child.id().to_string();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if receiver.recv_timeout(LIMIT).is_err() {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
    });
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let _ = sender.send(());
    watchdog.join().unwrap();
    assert!(started.elapsed() < LIMIT, "killed: {output:?}");
    output
}

/// Result of a run.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Exit status; `None` if a signal ended the process.
    pub(crate) status: Option<i32>,
}

impl Run {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status.code(),
        }
    }

    /// Checks the exit status, and that stderr contains all of these parts.
    #[track_caller]
    pub(crate) fn expect(&self, status: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.status, Some(status), "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in:\n{}", self.stderr);
        }
        self
    }

    /// Returns the numbers of events in the summary of the only flow: received and delivered.
    #[track_caller]
    pub(crate) fn events(&self) -> [u64; 2] {
        let (before, after) = self.stderr.split_once(" events in, ").expect("a summary");
        let numbers = [before.rsplit(' ').next(), after.split(' ').next()];
        numbers.map(|number| number.and_then(|number| number.parse().ok()).expect("a number"))
    }
}
