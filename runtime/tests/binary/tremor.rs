//! A run of the binary in a folder of its own.

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

/// No run may take longer than this; one that does is killed and fails its test.
const LIMIT: Duration = Duration::from_mins(2);

/// The plugins that flows of these tests use, built once, in one folder.
fn plugins() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| gathered("binary-test-plugins", PLUGINS.map(library)))
}

const PLUGINS: [&str; 28] = [
    "connector-file",
    "connector-stdio",
    "connector-metronome",
    "connector-null",
    "connector-exec",
    "connector-exit",
    "connector-bench",
    "connector-tcp-server",
    "connector-tcp-client",
    "connector-udp-server",
    "connector-udp-client",
    "connector-unix-server",
    "connector-unix-client",
    "codec-otlp",
    "codec-prometheus",
    "connector-http-server",
    "connector-http-client",
    "connector-ws-server",
    "connector-ws-client",
    "operator-logging",
    "plugin-peers",
    "plugin-logfmt",
    "plugin-pieces",
    "fixture-dice",
    "fixture-hostile",
    "fixture-mischief",
    "fixture-script",
    "fixture-tokio",
];

/// The plugin `vrl`: by itself, since it takes minutes to build.
fn vrl() -> &'static Path {
    static VRL: OnceLock<PathBuf> = OnceLock::new();
    VRL.get_or_init(|| gathered("binary-test-vrl", [library("operator-vrl")]))
}

/// Copies libraries to this folder in the target folder.
fn gathered(name: &str, libraries: impl IntoIterator<Item = PathBuf>) -> PathBuf {
    let folder = target_folder().join(name);
    fs::create_dir_all(&folder).unwrap();
    for library in libraries {
        let name = library.file_name().unwrap();
        // Renamed into place: another run may have the old one open.
        let copy = folder.join(format!("{}.{}", name.display(), std::process::id()));
        fs::copy(&library, &copy).unwrap();
        fs::rename(&copy, folder.join(name)).unwrap();
    }
    folder
}

/// A folder with a flow file and whatever the flow reads.
pub(crate) struct Scene(TempDir);

impl Scene {
    /// A folder with `flow.yaml`.
    pub(crate) fn new(flow: &str) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        scene.write("flow.yaml", flow.as_bytes())
    }

    /// The same with another file.
    pub(crate) fn write(self, name: &str, contents: &[u8]) -> Self {
        fs::write(self.0.path().join(name), contents).unwrap();
        self
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// What is in a file of the folder.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    /// Whether a file is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.path().join(name).exists()
    }

    /// `tremor` with these arguments, in this folder, with the plugins of these tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tremor"));
        command.args(arguments).current_dir(self.0.path());
        command.env("TREMOR_PLUGIN_PATH", plugins()).env_remove("TREMOR_LOG");
        // Plugins panic in many tests, and a backtrace takes a tenth of a second.
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

    /// The same with the plugin `vrl` beside the others.
    pub(crate) fn tremor_with_vrl(&self, arguments: &[&str]) -> Run {
        let path = env::join_paths([plugins(), vrl()]).unwrap();
        let mut command = self.command(arguments);
        Run::of(&finish(command.env("TREMOR_PLUGIN_PATH", path).spawn().unwrap()))
    }
}

/// Waits for the end of a process, within the limit.
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

/// What a run came to.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The exit status; `None` where a signal ended the process.
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

    /// The run ended with this status, and stderr has all of these parts.
    #[track_caller]
    pub(crate) fn expect(&self, status: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.status, Some(status), "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in:\n{}", self.stderr);
        }
        self
    }

    /// How many events came in and how many went out, of the only flow: its summary says so.
    #[track_caller]
    pub(crate) fn events(&self) -> [u64; 2] {
        let (before, after) = self.stderr.split_once(" events in, ").expect("a summary");
        let numbers = [before.rsplit(' ').next(), after.split(' ').next()];
        numbers.map(|number| number.and_then(|number| number.parse().ok()).expect("a number"))
    }
}
