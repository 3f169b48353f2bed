//! `cargo xtask broker kafka|nats`: a real broker for developers, tests and CI, on the loopback address, until
//! Ctrl-C or the end of standard input.
//!
//! A line of JSON on standard output describes how to reach the broker. Each line of standard input is a command for a
//! node: `kill 1`, `stop 1`, `start 1`, `pause 1`, `resume 1`. The next line of output contains the result.

mod identities;
mod kafka;
mod nats;
pub(crate) mod node;
mod ports;

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::{fs, os::fd::OwnedFd, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use self::node::Node;
use self::ports::ports;
use crate::process::{Process, Signal, need};
use crate::project::{empty_folder, target_folder};

/// Name of the user who has all permissions.
const USER: &str = "alice";
const PASSWORD: &str = "alice-secret";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    broker: Broker,
}

#[derive(Debug, clap::Subcommand)]
enum Broker {
    /// Apache Kafka, with jars that Maven downloads (needs java and mvn)
    Kafka(kafka::Arguments),
    /// A NATS server with JetStream, which go builds (needs go)
    Nats(nats::Arguments),
}

/// Options of all brokers.
#[derive(Debug, Default, clap::Args)]
struct Common {
    /// Number of nodes to start
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Also listen with TLS and passwords
    #[arg(long)]
    secure: bool,
    /// First port; further ports follow it. With 0, free ports are used
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Folder of the broker's data, configuration and log, which are kept. Unless given, a new folder is used each time
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The running nodes of a broker, and the information that clients need to connect to them.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    /// Addresses, certificate files, user names and passwords.
    access: Map<String, Value>,
    /// Sockets that reserve the ports, so that other processes do not get them.
    reserved: Vec<OwnedFd>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut cluster = match &arguments.broker {
        Broker::Kafka(arguments) => kafka::cluster(arguments)?,
        Broker::Nats(arguments) => nats::cluster(arguments)?,
    };
    cluster.serve()
}

impl Common {
    /// Checks that the programs that all brokers need are installed.
    fn check(&self) -> Result<()> {
        need("setpriv", "util-linux")?;
        if self.secure {
            need("openssl", "`apt-get install openssl`")?;
        }
        Ok(())
    }

    /// Returns the folder of this run.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let Some(folder) = &self.dir else {
            let folder = target_folder().join("brokers").join(name);
            return empty_folder(&folder).map(|()| folder);
        };
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder.canonicalize()?)
    }
}

/// Starts Kafka with one node and these properties in a folder. The broker ends when the returned cluster is dropped.
pub(crate) fn kafka(folder: &Path, properties: &[&str]) -> Result<Cluster> {
    let common = Common { nodes: 1, dir: Some(folder.to_owned()), ..Common::default() };
    let properties = properties.iter().map(|it| (*it).to_owned()).collect();
    kafka::cluster(&kafka::Arguments { common, properties })
}

/// Starts a NATS server in a folder, with its monitoring endpoint at the address `monitor`. The server ends when the
/// returned cluster is dropped.
pub(crate) fn nats(folder: &Path) -> Result<Cluster> {
    let (port, reserved) = ports(0, 1)?;
    let monitor = format!("127.0.0.1:{}", port[0]);
    let common = Common { nodes: 1, dir: Some(folder.to_owned()), ..Common::default() };
    let properties = vec![format!("http: \"{monitor}\"")];
    let mut cluster = nats::cluster(&nats::Arguments { common, verify: false, properties })?;
    cluster.access.insert("monitor".into(), monitor.into());
    cluster.reserved.extend(reserved);
    Ok(cluster)
}

/// Creates certificates, adds the client's files and the user to `access`, and returns the folder of the certificates.
fn secured(folder: &Path, access: &mut Map<String, Value>) -> Result<PathBuf> {
    let tls = folder.join("tls");
    let files = identities::make(&tls)?;
    access.extend(files.into_iter().map(|(key, path)| (key.into(), shown(&path).into())));
    access.insert("user".into(), USER.into());
    access.insert("password".into(), PASSWORD.into());
    Ok(tls)
}

impl Cluster {
    /// Starts all nodes, and waits until they are ready.
    fn start(
        mut nodes: Vec<Node>,
        access: Map<String, Value>,
        reserved: Vec<OwnedFd>,
    ) -> Result<Self> {
        nodes.iter_mut().try_for_each(Node::start)?;
        nodes.iter_mut().try_for_each(Node::wait)?;
        Ok(Self { nodes, access, reserved })
    }

    /// Returns the addresses of the listeners with this name, such as `plain` or `tls`, separated by commas.
    pub(crate) fn address(&self, name: &str) -> Option<&str> {
        self.access.get(name)?.as_str()
    }

    /// Returns the processor time of all nodes since their start.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        self.nodes.iter().filter_map(|it| it.process.as_ref()).map(Process::processor_time).sum()
    }

    fn described(&self) -> Value {
        let mut all = self.access.clone();
        all.insert("nodes".into(), self.nodes.iter().map(Node::described).collect());
        all.into()
    }

    fn serve(&mut self) -> Result<()> {
        print(&self.described())?;
        for line in io::stdin().lock().lines() {
            let line = line?;
            let done = self.execute(&line).with_context(|| format!("cannot execute `{line}`"));
            print(&match done {
                Ok(()) => self.described(),
                Err(error) => json!({ "error": format!("{error:#}") }),
            })?;
        }
        Ok(())
    }

    fn execute(&mut self, line: &str) -> Result<()> {
        let (command, id) = line.split_once(' ').context("expected a command and a node")?;
        let node = self.nodes.iter_mut().find(|it| it.id.to_string() == id.trim());
        let node = node.context("unknown node: expected the number of a node")?;
        match command {
            "start" => node.start().and_then(|()| node.wait()),
            "kill" => node.end(Signal::KILL),
            "stop" => node.end(Signal::TERM),
            "pause" => node.signal(Signal::STOP),
            "resume" => node.signal(Signal::CONT),
            _ => bail!("expected `start`, `kill`, `stop`, `pause` or `resume`"),
        }
    }
}

/// Prints a line to standard output, and flushes it.
fn print(value: &Value) -> Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{value}")?;
    output.flush().context("standard output is closed")
}

/// Returns a path as text.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_without_a_known_node_is_rejected() {
        let mut cluster = Cluster { nodes: Vec::new(), access: Map::new(), reserved: Vec::new() };
        for (command, message) in [("kill", "a command and a node"), ("kill 1", "unknown node")] {
            let error = cluster.execute(command).expect_err("the cluster has no node").to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
