//! Programs at the other end: started, given something, and read.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// No test waits for anything for longer than this.
const LIMIT: Duration = Duration::from_mins(2);

/// A program that is not ours. It is killed when this is dropped.
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
    /// Starts it in a folder of its own, in which `@DIR@` of its configuration lies.
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
            eprintln!("SKIPPED: {program} is not here: install it, or name it with a variable");
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

    /// The next lines that it has written, in their order as text.
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

    /// Gives it a message as programs of its machine do, once it listens.
    pub(crate) fn log(&self, message: &str) {
        let socket = UnixDatagram::unbound().unwrap();
        wait_until(|| socket.connect(self.path("log.sock")).is_ok());
        socket.send(message.as_bytes()).unwrap();
    }
}

/// Whether a process listens at these ports of the loopback address, over TCP and over UDP.
pub(crate) fn listens(tcp: &[u16], udp: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/udp").unwrap();
    tcp.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
        && sockets.contains(&format!(" 0100007F:{udp:04X} "))
}

/// Another program's start is no event that could be waited for.
pub(crate) fn wait_until(mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < LIMIT, "the peer does not start");
        thread::sleep(Duration::from_millis(5));
    }
}

fn named(variable: &str, program: &str) -> Command {
    let found = env::var_os(variable).unwrap_or_else(|| program.into());
    let at_usual_place = Path::new("/usr/sbin").join(program);
    let has_path = Path::new(&found).components().count() > 1;
    Command::new(if !has_path && at_usual_place.exists() { at_usual_place.into() } else { found })
}

pub(crate) fn rsyslog(config: &str) -> Option<Peer> {
    start_rsyslog(config, &[])
}

/// The same with further files, where it has a module that Debian has in a package of its own.
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

/// Listens at this port once it is ready.
pub(crate) fn prometheus(config: &str, port: u16) -> Option<Peer> {
    let mut command = named("TREMOR_PROMETHEUS", "prometheus");
    command.args(["--config.file=peer.conf", "--storage.tsdb.path=data"]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Peer::start(command, config, &[])
}

/// An address that is free, for a peer that cannot say which one it has.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
