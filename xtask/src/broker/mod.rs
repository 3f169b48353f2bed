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

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use self::node::Node;
use self::ports::Ports;
use crate::project::root;
use crate::running::{empty_folder, processor_time};

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
    match &arguments.broker {
        Broker::Kafka(arguments) => kafka::run(arguments),
        Broker::Nats(arguments) => nats::run(arguments),
    }
}

impl Common {
    /// The folder of this run, and so many ports.
    fn place(&self, name: &str, ports: usize) -> Result<(PathBuf, Ports)> {
        let folder = if let Some(folder) = &self.dir {
            std::fs::create_dir_all(folder)
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
    let common =
        Common { nodes: 1, secure: false, port: 0, dir: Some(folder.to_owned()), json: false };
    let properties = properties.iter().map(|it| (*it).to_owned()).collect();
    kafka::cluster(&kafka::Arguments { common, properties })
}

/// Starts a server of NATS that says at `monitor` how it is, in a folder. It ends when it is dropped.
pub(crate) fn nats(folder: &Path) -> Result<Cluster> {
    let port = Ports::new(0, 1)?;
    let monitor = format!("127.0.0.1:{}", port[0]);
    let common =
        Common { nodes: 1, secure: false, port: 0, dir: Some(folder.to_owned()), json: false };
    let properties = vec![format!("http: \"{monitor}\"")];
    let mut cluster = nats::cluster(&nats::Arguments { common, verify: false, properties })?;
    cluster.reached.insert("monitor".into(), monitor.into());
    cluster.ports.push(port);
    Ok(cluster)
}

/// # Errors
/// The program is not there; what brings it is named.
pub(crate) fn need(program: &str, option: &str, brought_by: &str) -> Result<()> {
    let mut asked = Command::new(program);
    asked.arg(option).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match asked.status() {
        Ok(_) => Ok(()),
        Err(error) => bail!("missing: `{program}` ({error}); {brought_by} brings it"),
    }
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
        self.nodes.iter().filter_map(Node::process).map(processor_time).sum()
    }

    fn described(&self) -> Value {
        let mut all = self.reached.clone();
        all.insert("nodes".into(), self.nodes.iter().map(Node::described).collect());
        all.into()
    }

    /// Stays until it is told to end.
    ///
    /// # Errors
    /// A node has ended by itself.
    fn stay(&mut self, json: bool) -> Result<()> {
        if json { self.obey() } else { self.watch() }
    }

    fn watch(&mut self) -> Result<()> {
        for (name, value) in &self.reached {
            eprintln!(
                "{name}: {}",
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            );
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
            "kill" => node.end("KILL"),
            "stop" => node.end("TERM"),
            "pause" => node.signal("STOP"),
            "resume" => node.signal("CONT"),
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

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_brings_it() {
        let error = need("no-such-program", "--version", "nobody").expect_err("it is not there");
        let error = error.to_string();
        assert!(error.starts_with("missing: `no-such-program`"), "{error}");
        assert!(error.ends_with("nobody brings it"), "{error}");
    }
}
