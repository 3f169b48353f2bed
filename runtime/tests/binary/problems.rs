//! Tests of problems of connectors that continue to work: the state shows them while they exist.

use std::{
    fs::{self, File, Permissions},
    io::Write,
    net::TcpStream,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixStream,
    },
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    api::{Asked, start, start_with},
    states::{until_ready, until_state},
    tremor::Scene,
};

/// Maximum time to wait for a condition. Longer than these tests take.
const LONG: Duration = Duration::from_mins(2);

/// Makes the command of a superuser run without the capabilities to read files regardless of their modes.
fn without_override(command: &mut Command) -> &mut Command {
    if !rustix::process::geteuid().is_root() {
        return command;
    }
    let mut wrapped = Command::new("setpriv");
    wrapped.arg("--bounding-set=-dac_override,-dac_read_search");
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped.current_dir(command.get_current_dir().unwrap());
    wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    *command = wrapped;
    command
}

/// Returns a scene with a flow that follows the files of a pattern, and writes their lines to `out`.
fn following(path: &str) -> Scene {
    let scene = Scene::new(&format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: {{ path: '{path}', mode: read, follow: true, checkpoint: at, poll_interval: 20ms }}
  output: {{ type: file, codec: string, postprocessors: [lines], config: {{ path: out, mode: write }} }}
links: [input -> output]"
    ));
    fs::create_dir(scene.path().join("logs")).unwrap();
    scene
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Waits until the sink has written these lines.
#[track_caller]
fn until_out(asked: &Asked, lines: &str) {
    let start = Instant::now();
    loop {
        let out = fs::read_to_string(asked.path().join("out")).unwrap_or_default();
        if out == lines {
            return;
        }
        assert!(start.elapsed() < LONG, "{out}");
    }
}

#[track_caller]
fn expect_problem(asked: &Asked, connector: &str, part: &str) -> Value {
    let shown = until_state(asked, connector, "retrying");
    assert!(shown["error"].as_str().unwrap().contains(part), "{shown}");
    assert!(shown["state_seconds"].as_f64().unwrap() < LONG.as_secs_f64(), "{shown}");
    assert!(!shown["errors"].as_object().unwrap().is_empty(), "{shown}");
    until_ready(asked, 503);
    let (_, metrics) = asked.request("GET", "/metrics");
    let state = format!(
        "tremor_connector_state{{flow=\"flow\",component=\"{connector}\",state=\"retrying\"}} 1\n"
    );
    assert!(metrics.contains(&state), "{metrics}");
    shown
}

#[test]
fn file_without_permission_is_a_problem_until_it_is_readable() {
    let scene = following("logs/*.log");
    let at = scene.path().join("logs");
    fs::write(at.join("a.log"), "one\n").unwrap();
    fs::write(at.join("b.log"), "two\n").unwrap();
    set_mode(&at.join("b.log"), 0);
    let mut asked = start_with(scene, &["flow.yaml"], 1, without_override);
    let shown = expect_problem(&asked, "input", "logs/b.log`: permission denied; change");
    until_out(&asked, "one\n");
    fs::write(at.join("c.log"), "three\n").unwrap();
    until_out(&asked, "one\nthree\n");
    let still = until_state(&asked, "input", "retrying");
    assert_eq!(shown["error"], still["error"]);
    assert!(shown["state_seconds"].as_f64() <= still["state_seconds"].as_f64(), "{still}");
    set_mode(&at.join("b.log"), 0o644);
    until_out(&asked, "one\nthree\ntwo\n");
    until_state(&asked, "input", "running");
    until_ready(&asked, 200);
    asked.until_log("logs/b.log` can be read again");
    let log = asked.end();
    assert_eq!(log.matches("permission denied").count(), 1, "{log}");
}

#[test]
fn checkpoint_that_cannot_be_written_is_a_problem() {
    let scene = Scene::new(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: { path: in, mode: read, follow: true, checkpoint: positions/at, poll_interval: 20ms }
  output: { type: file, codec: string, postprocessors: [lines], config: { path: out, mode: write } }
links: [input -> output]",
    );
    let folder = scene.path().join("positions");
    fs::create_dir(&folder).unwrap();
    fs::write(scene.path().join("in"), "one\n").unwrap();
    let asked = start(scene, &["flow.yaml"]);
    until_out(&asked, "one\n");
    until_state(&asked, "input", "running");
    fs::remove_dir_all(&folder).unwrap();
    let mut file = File::options().append(true).open(asked.path().join("in")).unwrap();
    file.write_all(b"two\n").unwrap();
    expect_problem(&asked, "input", "cannot write the checkpoint `positions/at`");
    file.write_all(b"three\n").unwrap();
    let status = "/v1/flows/flow/connectors/input";
    asked.until(status, |it| it["retries"]["pull"].as_u64() > Some(1));
    fs::create_dir(&folder).unwrap();
    until_out(&asked, "one\ntwo\nthree\n");
    until_state(&asked, "input", "running");
    until_ready(&asked, 200);
    assert!(folder.join("at").exists());
    asked.end();
}

/// A file is closed after a read if more files are read than may be open.
#[test]
fn closed_file_that_became_unreadable_is_a_problem() {
    let scene = following("logs/*.log");
    let at = scene.path().join("logs");
    let flow = scene.read("flow.yaml").replace("follow: true", "follow: true, max_open_files: 1");
    let scene = scene.write("flow.yaml", flow.as_bytes());
    fs::write(at.join("a.log"), "one\n").unwrap();
    let asked = start_with(scene, &["flow.yaml"], 1, without_override);
    until_out(&asked, "one\n");
    fs::write(at.join("b.log"), "two\n").unwrap();
    until_out(&asked, "one\ntwo\n");
    let mut file = File::options().append(true).open(at.join("a.log")).unwrap();
    set_mode(&at.join("a.log"), 0);
    file.write_all(b"three\n").unwrap();
    expect_problem(&asked, "input", "logs/a.log`: permission denied");
    set_mode(&at.join("a.log"), 0o644);
    until_out(&asked, "one\ntwo\nthree\n");
    until_state(&asked, "input", "running");
    asked.end();
}

/// A file that not even a superuser can read.
#[test]
fn unreadable_file_that_was_deleted_is_no_problem() {
    let scene = following("logs/*.log");
    let at = scene.path().join("logs");
    fs::write(at.join("a.log"), "one\n").unwrap();
    for name in ["b.log", "c.log", "d.log", "e.log"] {
        symlink("/proc/self/clear_refs", at.join(name)).unwrap();
    }
    let asked = start(scene, &["flow.yaml"]);
    // Links to one file are read once.
    expect_problem(&asked, "input", "logs/b.log`");
    until_out(&asked, "one\n");
    for name in ["b.log", "c.log", "d.log", "e.log"] {
        fs::remove_file(at.join(name)).unwrap();
    }
    until_state(&asked, "input", "running");
    until_ready(&asked, 200);
    asked.end();
}

#[test]
fn folder_that_cannot_be_listed_is_a_problem() {
    let scene = following("logs/*/app.log");
    for (pod, text) in [("a", "one\n"), ("b", "two\n")] {
        fs::create_dir(scene.path().join("logs").join(pod)).unwrap();
        fs::write(scene.path().join("logs").join(pod).join("app.log"), text).unwrap();
    }
    let closed = scene.path().join("logs/b");
    set_mode(&closed, 0);
    let asked = start_with(scene, &["flow.yaml"], 1, without_override);
    expect_problem(&asked, "input", "logs/b");
    until_out(&asked, "one\n");
    set_mode(&closed, 0o755);
    until_out(&asked, "one\ntwo\n");
    until_state(&asked, "input", "running");
    asked.end();
}

/// A server whose process has no descriptor left accepts no connection. `connect` connects a client.
#[track_caller]
fn expect_waiting_is_a_problem<C>(
    kind: &str,
    keys: &str,
    listen: &str,
    connect: fn(&Path, &str) -> C,
) {
    let scene = Scene::new(&format!(
        "connectors:
  input: {{ type: {kind}, {keys} config: {{ listen: '{listen}' }} }}
  output: {{ type: 'null' }}
links: [input -> output]"
    ));
    let mut asked = start(scene, &["flow.yaml"]);
    let address = asked.listens();
    let limit = ["--pid", &asked.pid().to_string(), "--nofile=64:64"];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let clients: Vec<_> = (0..100).map(|_| connect(asked.path(), &address)).collect();
    asked.until_log("connections wait to be accepted");
    expect_problem(&asked, "input", "connections wait to be accepted");
    drop(clients);
    until_state(&asked, "input", "running");
    until_ready(&asked, 200);
    asked.end();
}

fn tcp(_: &Path, address: &str) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

#[test]
fn servers_that_cannot_accept_have_a_problem() {
    let lines = "preprocessors: [lines], codec: string,";
    expect_waiting_is_a_problem("tcp_server", lines, "127.0.0.1:0", tcp);
    expect_waiting_is_a_problem("unix_server", lines, "socket", |folder, _| {
        UnixStream::connect(folder.join("socket")).unwrap()
    });
    expect_waiting_is_a_problem("http_server", "codec: string,", "127.0.0.1:0", tcp);
    expect_waiting_is_a_problem("ws_server", "codec: string,", "127.0.0.1:0", tcp);
}

#[test]
fn socket_that_cannot_be_bound_again_is_a_problem() {
    let scene = Scene::new(
        "connectors:
  input: { type: unix_server, preprocessors: [lines], codec: string, config: { listen: run/socket } }
  output: { type: 'null' }
links: [input -> output]",
    );
    let folder = scene.path().join("run");
    fs::create_dir(&folder).unwrap();
    let mut asked = start(scene, &["flow.yaml"]);
    asked.listens();
    fs::remove_dir_all(&folder).unwrap();
    expect_problem(&asked, "input", "cannot listen on a new socket at `");
    fs::create_dir(&folder).unwrap();
    until_state(&asked, "input", "running");
    UnixStream::connect(folder.join("socket")).unwrap();
    asked.end();
}
