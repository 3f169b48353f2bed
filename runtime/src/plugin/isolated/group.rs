//! The process group of a plugin: its start, and its end as a whole.

use std::{
    env, io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::{Mutex, mpsc},
    thread,
};

use async_channel::Sender;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tremor_pdk::{Result, lock};

use super::{
    COMMAND,
    memory::Memory,
    subject::{Subject, not_started},
};
use crate::{executor, plugin::program};

/// Environment variables that the process of a plugin inherits. A name that ends in `*` stands for all that begin so.
const INHERITED: [&str; 24] = [
    "AWS_*",
    "CREDENTIALS_DIRECTORY",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "PYTHON*",
    "RUST_BACKTRACE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_*",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "ALL_PROXY",
    "HTTP*_PROXY",
];

/// Number of threads that run the tasks of a plugin's process: one for the source and one for the sink.
const THREADS: &str = "2";

/// Returns the command that starts a process.
///
/// The socket is its standard input and the memory its standard output, because these are the only descriptors that the
/// standard library passes on without code between `fork` and `exec`. The process puts other files in their stead
/// before any code of the plugin runs.
///
/// The process of an executable begins as this program as well, which limits itself before it becomes the executable.
///
/// # Errors
/// The system has no more descriptors, or the program of an executable cannot be run.
pub(super) fn command(
    subject: &Subject,
    component: &str,
    socket: UnixStream,
    memory: &Memory,
) -> Result<Command> {
    let executable = subject.executable().map_err(not_started)?;
    // The file of this program may have been replaced since it was started.
    let is_own = subject.tremor == program::own();
    let file = if is_own { Path::new("/proc/self/exe") } else { &subject.tremor };
    let mut command = Command::new(file);
    command.arg0("tremor").args([COMMAND, component]);
    if let Some((arguments, folder)) = executable {
        command.args(arguments).current_dir(folder);
    }
    command
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_inherited)))
        .env("TREMOR_THREADS", THREADS)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::from(memory.share()?))
        .stderr(Stdio::piped())
        .process_group(0);
    Ok(command)
}

fn is_inherited(name: &str) -> bool {
    INHERITED.iter().any(|pattern| match pattern.split_once('*') {
        Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
        None => name == *pattern,
    })
}

/// Starts a process on a thread that lives as long as this process, because the system kills the process when the thread
/// that has started it ends.
pub(super) async fn spawn(mut command: Command) -> io::Result<Group> {
    type Start = Box<dyn FnOnce() + Send>;
    static THREAD: Mutex<Option<mpsc::Sender<Start>>> = Mutex::new(None);
    let thread = {
        let known = &mut *lock(&THREAD);
        if known.is_none() {
            let (sender, starts) = mpsc::channel::<Start>();
            let thread = thread::Builder::new().name("plugins".to_owned());
            thread.spawn(move || starts.into_iter().for_each(|start| start()))?;
            *known = Some(sender);
        }
        known.clone()
    };
    let (sender, started): (Sender<io::Result<Group>>, _) = async_channel::bounded(1);
    // If nobody waits any more, the result is dropped, which ends the process.
    let start = move || drop(sender.try_send(command.spawn().map(Group::new)));
    let ended = || io::Error::other("the thread that starts processes has ended");
    thread.ok_or_else(ended)?.send(Box::new(start)).map_err(|_| ended())?;
    started.recv().await.map_err(|_| ended())?
}

/// A process and the processes that it has started, which are killed together.
pub(super) struct Group {
    pid: Pid,
    /// `None` once the process was reaped.
    child: Mutex<Option<Child>>,
}

impl Group {
    pub(super) fn new(child: Child) -> Self {
        Self { pid: Pid::from_child(&child), child: Mutex::new(Some(child)) }
    }

    /// Returns the number of the process.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Takes the standard error of the process. Returns `None` if it was taken before.
    pub(super) fn stderr(&self) -> Option<ChildStderr> {
        lock(&self.child).as_mut().and_then(|child| child.stderr.take())
    }

    /// Kills all processes of the group.
    pub(super) fn kill(&self) {
        // After the process was reaped, its number may belong to another group.
        if lock(&self.child).is_some() {
            self.kill_all();
        }
    }

    /// Kills the processes of the group, and the process itself, which may have left the group.
    fn kill_all(&self) {
        // An error means that no process is left.
        _ = kill_process_group(self.pid, Signal::KILL);
        _ = kill_process(self.pid, Signal::KILL);
    }

    /// Kills all processes of the group, and reaps the process, which has ended or ends now.
    pub(super) fn reap(&self) -> Option<ExitStatus> {
        let mut child = lock(&self.child);
        if child.is_some() {
            self.kill_all();
        }
        child.take()?.wait().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut child) = lock(&self.child).take() {
            // A process does not end at once.
            executor::spawn_blocking(move || _ = child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_inherited;

    #[test]
    fn only_listed_variables_are_inherited() {
        for name in [
            "PATH",
            "PYTHONPATH",
            "VIRTUAL_ENV",
            "LC_ALL",
            "AWS_REGION",
            "HTTPS_PROXY",
            "HTTP_PROXY",
        ] {
            assert!(is_inherited(name), "{name}");
        }
        for name in ["TREMOR_LOG", "PATHS", "LD_PRELOAD", "DATABASE_PASSWORD", "NOTIFY_SOCKET"] {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
