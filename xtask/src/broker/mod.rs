//! `cargo xtask broker kafka|nats`: a real broker for developers, tests and CI, on the loopback address, until
//! Ctrl-C.
//!
//! With `--json` it answers programs: a line of JSON says where the broker is, and each line of standard input
//! is an order about a node: `kill 1`, `stop 1`, `start 1`, `pause 1`, `resume 1`. What has become of it is
//! the next line. At the end of standard input everything ends.

mod identities;
mod kafka;
mod nats;
mod node;
mod ports;

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use self::node::Node;
use self::ports::Ports;
use crate::process::{Process, Signal, need};
use crate::project::root;
use crate::running::empty_folder;

/// The user who may do all, and the password.
const USER: &str = "alice";
const PASSWORD: &str = "alice-secret";
/// How often is looked whether a node has ended, for a person who watches.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    broker: Broker,
}

#[derive(Debug, clap::Subcommand)]
enum Broker {
    /// Apache Kafka, of jars that Maven brings (needs java and mvn)
    Kafka(kafka::Arguments),
    /// A server of NATS with JetStream, which go builds (needs go)
    Nats(nats::Arguments),
}

/// What all brokers are told.
#[derive(Debug, clap::Args)]
struct Common {
    /// How many nodes to start
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// With TLS and passwords as well
    #[arg(long)]
    secure: bool,
    /// The first port; the others follow it. 0 takes ports that are free
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Where its data, its configuration and its log go, which stay. Unless set, they are new each time
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Speak JSON, take orders from standard input, and end with it
    #[arg(long)]
    json: bool,
}

/// Nodes that run, and what one has to know to reach them.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    /// Addresses, files, names and passwords.
    reached: Map<String, Value>,
    /// Held for as long as it may start a node.
    ports: Vec<Ports>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (mut cluster, common) = match &arguments.broker {
        Broker::Kafka(arguments) => (kafka::cluster(arguments)?, &arguments.common),
        Broker::Nats(arguments) => (nats::cluster(arguments)?, &arguments.common),
    };
    if common.json { cluster.obey() } else { cluster.watch() }
}

impl Common {
    /// One node with its data in a folder.
    fn one(folder: &Path) -> Self {
        Self { nodes: 1, secure: false, port: 0, dir: Some(folder.to_owned()), json: false }
    }

    /// Checks that the programs are there that all brokers need.
    fn check(&self) -> Result<()> {
        need("setpriv", "--version", "util-linux")?;
        if self.secure {
            need("openssl", "version", "`apt-get install openssl`")?;
        }
        Ok(())
    }

    /// Returns the folder of this run, and so many ports.
    fn place(&self, name: &str, ports: usize) -> Result<(PathBuf, Ports)> {
        let folder = if let Some(folder) = &self.dir {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            folder.canonicalize()?
        } else {
            let folder = root().join("target/tools").join(name).join("run");
            empty_folder(&folder)?;
            folder
        };
        Ok((folder, Ports::new(self.port, ports)?))
    }
}

/// Starts Kafka with one node and these properties, in a folder. It ends when it is dropped.
pub(crate) fn kafka(folder: &Path, properties: &[&str]) -> Result<Cluster> {
    let common = Common::one(folder);
    let properties = properties.iter().map(|it| (*it).to_owned()).collect();
    kafka::cluster(&kafka::Arguments { common, properties })
}

/// Starts a server of NATS that says at `monitor` how it is, in a folder. It ends when it is dropped.
pub(crate) fn nats(folder: &Path) -> Result<Cluster> {
    let port = Ports::new(0, 1)?;
    let monitor = format!("127.0.0.1:{}", port[0]);
    let common = Common::one(folder);
    let properties = vec![format!("http: \"{monitor}\"")];
    let mut cluster = nats::cluster(&nats::Arguments { common, verify: false, properties })?;
    cluster.reached.insert("monitor".into(), monitor.into());
    cluster.ports.push(port);
    Ok(cluster)
}

/// Returns a folder of `target/tools`, which `fetch` fills if it is not there.
fn tool(name: &str, version: &str, fetch: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let tools = root().join("target/tools").join(name);
    let folder = tools.join(version);
    if folder.is_dir() {
        return Ok(folder);
    }
    // The folder has another name until it is complete: two processes that do this at a time do not meet.
    let part = tools.join(format!("{version}.{}", std::process::id()));
    empty_folder(&part)?;
    fetch(&part)?;
    if let Err(error) = fs::rename(&part, &folder) {
        fs::remove_dir_all(&part)?;
        ensure!(folder.is_dir(), "cannot keep {}: {error}", folder.display());
    }
    Ok(folder)
}

/// Adds the certificates of a client and a broker to what one has to know, and returns their folder.
fn secured(folder: &Path, reached: &mut Map<String, Value>) -> Result<PathBuf> {
    let tls = folder.join("tls");
    let files = identities::make(&tls)?;
    reached.extend(files.into_iter().map(|(key, path)| (key.into(), shown(&path).into())));
    reached.insert("user".into(), USER.into());
    reached.insert("password".into(), PASSWORD.into());
    Ok(tls)
}

impl Cluster {
    /// Starts all nodes, and waits for them.
    fn start(mut nodes: Vec<Node>, reached: Map<String, Value>, ports: Ports) -> Result<Self> {
        nodes.iter_mut().try_for_each(Node::start)?;
        nodes.iter_mut().try_for_each(Node::wait)?;
        Ok(Self { nodes, reached, ports: vec![ports] })
    }

    /// Where its nodes are reached: `plain`, `tls`.
    pub(crate) fn address(&self, name: &str) -> Option<&str> {
        self.reached.get(name)?.as_str()
    }

    /// How long its nodes have had a processor.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        self.nodes.iter().filter_map(Node::process).map(Process::processor_time).sum()
    }

    fn described(&self) -> Value {
        let mut all = self.reached.clone();
        all.insert("nodes".into(), self.nodes.iter().map(Node::described).collect());
        all.into()
    }

    /// Shows the nodes to a person, until one ends by itself.
    fn watch(&mut self) -> Result<()> {
        for (name, value) in &self.reached {
            eprintln!("{name}: {}", value.as_str().unwrap_or_default());
        }
        for node in &self.nodes {
            eprintln!("node {}: {}", node.id, node.log().display());
        }
        eprintln!("Ctrl-C ends it");
        loop {
            for node in &mut self.nodes {
                node.expect_running()?;
            }
            thread::sleep(LOOK);
        }
    }

    fn obey(&mut self) -> Result<()> {
        say(&self.described())?;
        for line in io::stdin().lock().lines() {
            let line = line?;
            let done = self.order(&line).with_context(|| format!("cannot do `{line}`"));
            say(&match done {
                Ok(()) => self.described(),
                Err(error) => json!({ "error": format!("{error:#}") }),
            })?;
        }
        Ok(())
    }

    fn order(&mut self, line: &str) -> Result<()> {
        let (order, id) = line.split_once(' ').context("expected an order and a node")?;
        let node = self.nodes.iter_mut().find(|it| it.id.to_string() == id.trim());
        let node = node.context("there is no such node")?;
        match order {
            "start" => node.start().and_then(|()| node.wait()),
            "kill" => node.end(Signal::KILL),
            "stop" => node.end(Signal::TERM),
            "pause" => node.signal(Signal::STOP),
            "resume" => node.signal(Signal::CONT),
            _ => bail!("there are `start`, `kill`, `stop`, `pause` and `resume`"),
        }
    }
}

/// A line of standard output, at once.
fn say(value: &Value) -> Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{value}")?;
    output.flush().context("nobody reads what is said")
}

/// A path as a text.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_about_no_node_is_refused() {
        let mut cluster = Cluster { nodes: Vec::new(), reached: Map::new(), ports: Vec::new() };
        for (order, said) in [("kill", "an order and a node"), ("kill 1", "no such node")] {
            let error = cluster.order(order).expect_err("there is no node").to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
