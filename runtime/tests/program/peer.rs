//! Support for tests with other programs as peers.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Maximum time to wait for a condition.
const LIMIT: Duration = Duration::from_mins(2);

/// A program, which is killed when this value is dropped.
pub(crate) struct Peer {
    child: Child,
    folder: TempDir,
    output: Receiver<String>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// Starts a program with a folder of its own. The path of the folder replaces `@DIR@` in the configuration.
    fn start(mut command: Command, config: &str, files: &[(&str, &str)]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let config = config.replace("@DIR@", folder.path().to_str().unwrap());
        fs::write(folder.path().join("peer.conf"), config).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        command.current_dir(folder.path());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let Ok(mut child) = child else {
            let program = command.get_program().to_string_lossy().into_owned();
            eprintln!(
                "SKIPPED: {program} is not installed; install it, or name it with a variable"
            );
            return None;
        };
        let (sender, output) = mpsc::channel();
        let pipe: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Some(Self { child, folder, output })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the next lines that the program has written, sorted.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let mut lines: Vec<_> = (0..count)
            .map(|_| {
                let line = self.output.recv_timeout(LIMIT);
                line.expect("the peer writes what it has received").trim().to_owned()
            })
            .collect();
        lines.sort_unstable();
        lines
    }

    /// Waits for the local socket of the program, and sends a message to it, as other programs of the machine do.
    pub(crate) fn log(&self, message: &str) {
        let socket = UnixDatagram::unbound().unwrap();
        wait_until(|| socket.connect(self.path("log.sock")).is_ok());
        socket.send(message.as_bytes()).unwrap();
    }
}

/// Returns whether a process listens at these ports of the loopback address, over TCP and UDP.
pub(crate) fn listens(tcp: &[u16], udp: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/udp").unwrap();
    tcp.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
        && sockets.contains(&format!(" 0100007F:{udp:04X} "))
}

/// Polls `is` until it returns `true`, for conditions of other programs that notify nobody. Panics after [`LIMIT`] with
/// the location of the caller.
#[track_caller]
pub(crate) fn wait_until(mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < LIMIT, "the condition was not met within {LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn named(variable: &str, program: &str) -> Command {
    let found = env::var_os(variable).unwrap_or_else(|| program.into());
    let at_usual_path = Path::new("/usr/sbin").join(program);
    let has_path = Path::new(&found).components().count() > 1;
    Command::new(if !has_path && at_usual_path.exists() { at_usual_path.into() } else { found })
}

pub(crate) fn rsyslog(config: &str) -> Option<Peer> {
    start_rsyslog(config, &[])
}

/// Starts rsyslog with further files. If a module is missing that Debian has in a separate package, prints a message
/// and returns `None`.
pub(crate) fn rsyslog_with(
    config: &str,
    files: &[(&str, &str)],
    module: &str,
    package: &str,
) -> Option<Peer> {
    let usual = || format!("/usr/lib/{}-linux-gnu/rsyslog", env::consts::ARCH).into();
    let folders = rsyslog_modules().unwrap_or_else(usual);
    if !env::split_paths(&folders).any(|folder| folder.join(module).exists()) {
        eprintln!("SKIPPED: rsyslog has no module {module} here (Debian's package {package})");
        return None;
    }
    start_rsyslog(config, files)
}

fn rsyslog_modules() -> Option<OsString> {
    env::var_os("TREMOR_RSYSLOG_MODULES")
}

fn start_rsyslog(config: &str, files: &[(&str, &str)]) -> Option<Peer> {
    let mut command = named("TREMOR_RSYSLOGD", "rsyslogd");
    command.args(["-n", "-f", "peer.conf", "-i", "NONE"]);
    if let Some(folder) = rsyslog_modules() {
        command.arg("-M").arg(folder);
    }
    Peer::start(command, &format!("global(workDirectory=\"@DIR@\")\n{config}"), files)
}

pub(crate) fn syslog_ng(config: &str, files: &[(&str, &str)]) -> Option<Peer> {
    let mut command = named("TREMOR_SYSLOG_NG", "syslog-ng");
    command.args(["-F", "--no-caps", "-f", "peer.conf", "-R", "peer.persist", "-p", "peer.pid"]);
    command.args(["-c", "peer.ctl"]);
    Peer::start(
        command,
        &format!("@version: 3.35\noptions {{ stats-freq(0); keep-hostname(yes); }};\n{config}"),
        files,
    )
}

/// Returns the command `logrotate`. If it is not installed, prints a message and returns `None`.
pub(crate) fn logrotate() -> Option<Command> {
    let mut command = named("TREMOR_LOGROTATE", "logrotate");
    let is_here = command.arg("--version").stderr(Stdio::null()).status().is_ok();
    if !is_here {
        eprintln!(
            "SKIPPED: logrotate is not installed; install it, or name it with TREMOR_LOGROTATE"
        );
    }
    is_here.then(|| named("TREMOR_LOGROTATE", "logrotate"))
}

/// Starts Prometheus, which listens at this port once it is ready.
pub(crate) fn prometheus(config: &str, port: u16) -> Option<Peer> {
    let mut command = named("TREMOR_PROMETHEUS", "prometheus");
    command.args(["--config.file=peer.conf", "--storage.tsdb.path=data"]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Peer::start(command, config, &[])
}

/// Returns a port that is reserved until this process ends, for a program that cannot report its port.
pub(crate) fn free_port() -> u16 {
    hostile_peers::reserved::free_address().unwrap().port()
}

/// Returns an address of the loopback interface whose port is reserved until this process ends.
pub(crate) fn free_address() -> String {
    hostile_peers::reserved::free_address().unwrap().to_string()
}

/// Returns a line as a WebSocket frame of a client, masked with zeros. Before the first frame, the handshake request of
/// RFC 6455, section 1.2, is inserted.
pub(crate) fn as_frames(line: &str, is_first: bool) -> Vec<u8> {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let length = u8::try_from(line.len()).unwrap();
    let frame = [&[0x81, 0x80 | length, 0, 0, 0, 0], line.as_bytes()].concat();
    [if is_first { request.as_bytes() } else { b"" }, &frame].concat()
}
