//! Runs the program, each time in a folder of its own.

use std::{
    fmt::{self, Display, Formatter},
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use tempfile::TempDir;

use crate::{built::built, eventually};

/// A running flow, killed when this value is dropped. It is displayed as its log so far.
pub struct Flow {
    child: Child,
    folder: TempDir,
}

impl Display for Flow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.log())
    }
}

impl Flow {
    /// Runs a flow. Its output and its log go to files.
    pub fn run(flow: &str) -> Self {
        Self::run_in(tempfile::tempdir().unwrap(), flow, &[])
    }

    /// Runs a flow with further arguments in `folder`, which contains the files that the flow reads.
    pub fn run_in(folder: TempDir, flow: &str, arguments: &[&str]) -> Self {
        Self::start(folder, flow, arguments, &[])
    }

    /// Runs a flow with these environment variables.
    pub fn run_with(flow: &str, variables: &[(&str, &str)]) -> Self {
        Self::start(tempfile::tempdir().unwrap(), flow, &[], variables)
    }

    fn start(folder: TempDir, flow: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let path = folder.path().join("flow.yaml");
        fs::write(&path, flow).unwrap();
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let mut command = Command::new(&built().tremor);
        command.args(["run", "flow.yaml"]).args(arguments).current_dir(folder.path());
        command.env("TREMOR_PLUGIN_PATH", &built().plugins).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let child = command.spawn().unwrap();
        Self { child, folder }
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the folder of the run.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the complete lines of the standard output so far.
    pub fn out(&self) -> Vec<String> {
        self.lines("out")
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        self.lines("err").join("\n")
    }

    /// Waits for a line of the log that contains `text`, and returns the first one.
    pub fn says(&self, text: &str) -> String {
        let look = || self.lines("err").into_iter().find(|line| line.contains(text));
        eventually(format_args!("`{text}` in the log:\n{self}"), look)
    }

    /// Sends a `GET` request to the admin API and returns the answer. The flow has to run with `--api
    /// 127.0.0.1:0`.
    pub fn ask(&self, path: &str) -> String {
        self.request("GET", path)
    }

    /// Returns the value of a metric from the admin API, by its name without labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (metrics, start) = (self.ask("/metrics"), format!("{name}{{"));
        let line = metrics.lines().find(|line| line.starts_with(&start))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// Changes a connector through the admin API: `pause`, `resume` or `restart`.
    pub fn change(&self, connector: &str, change: &str) {
        let answer =
            self.request("POST", &format!("/v1/flows/flow/connectors/{connector}/{change}"));
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("state").is_some(), "{change}: {answer}");
    }

    fn request(&self, method: &str, path: &str) -> String {
        let line = self.says("the admin API listens address=");
        let (_, address) = line.split_once("address=").unwrap();
        let mut stream = TcpStream::connect(address.trim()).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close");
        write!(stream, "{head}\r\ncontent-length: 0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Waits until a connector of the flow has `state`.
    pub fn is(&self, connector: &str, state: &str) {
        let path = format!("/v1/flows/flow/connectors/{connector}");
        eventually(format_args!("`{connector}` is {state}"), || {
            let answer: serde_json::Value = serde_json::from_str(&self.ask(&path)).unwrap();
            (answer["state"] == state).then_some(())
        });
    }

    /// Sends the process the signal with this name without `SIG`, such as `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Stops the flow as a user does, with SIGINT, and waits until it has drained. Returns its status and log.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal("INT");
        (self.wait(), self.log())
    }

    /// Kills the process.
    pub fn kill(mut self) {
        self.signal("KILL");
        self.wait();
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the process to end", || self.child.try_wait().unwrap())
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read(self.folder.path().join(name)).unwrap();
        let text = String::from_utf8_lossy(&text);
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
