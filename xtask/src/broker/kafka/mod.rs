//! Kafka by itself: nodes that are broker and controller in one.

mod jars;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

use super::node::Node;
use super::{Cluster, Common, identities, need, shown};
use crate::running::write;

/// Of the cluster; any 16 bytes in base64 are one.
const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qg";
/// The one user, and the password.
const USER: &str = "alice";
const PASSWORD: &str = "alice-secret";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// A property of the broker; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) properties: Vec<String>,
}

/// How clients reach a node: the name of the listener for Kafka, and that for people.
const PLAIN: (&str, &str) = ("PLAINTEXT", "plain");
const SECURE: [(&str, &str); 3] = [("TLS", "tls"), ("SASL", "sasl"), ("SASLTLS", "sasl_tls")];

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    cluster(arguments)?.stay(arguments.common.json)
}

/// Starts the nodes.
pub(super) fn cluster(arguments: &Arguments) -> Result<Cluster> {
    need("java", "-version", "`apt-get install default-jre-headless`")?;
    need("setpriv", "--version", "util-linux")?;
    if arguments.common.secure {
        need("openssl", "version", "`apt-get install openssl`")?;
    }
    for property in &arguments.properties {
        ensure!(property.contains('='), "--set: expected KEY=VALUE, found `{property}`");
    }
    start(arguments, &jars::find()?)
}

fn start(arguments: &Arguments, jars: &Path) -> Result<Cluster> {
    let secure: &[_] = if arguments.common.secure { &SECURE } else { &[] };
    let listeners: Vec<_> = std::iter::once(&PLAIN).chain(secure).collect();
    let nodes = usize::from(arguments.common.nodes);
    // Each node has a port for each listener, and then one for its controller.
    let each = listeners.len() + 1;
    let (folder, held) = arguments.common.place("kafka", nodes * each)?;
    let ports: Vec<_> = held.chunks(each).collect();
    let at = |port: u16| format!("127.0.0.1:{port}");

    let mut reached: Map<String, Value> = Map::new();
    for (which, (_, name)) in listeners.iter().enumerate() {
        let all: Vec<_> = ports.iter().map(|ports| at(ports[which])).collect();
        reached.insert((*name).into(), all.join(",").into());
    }
    if arguments.common.secure {
        let files = identities::make(&folder.join("tls"))?;
        reached.extend(files.into_iter().map(|(key, path)| (key.into(), shown(&path).into())));
        reached.insert("user".into(), USER.into());
        reached.insert("password".into(), PASSWORD.into());
    }
    let voters: Vec<_> =
        (1..).zip(&ports).map(|(id, it)| format!("{id}@{}", at(it[each - 1]))).collect();
    let mut formats = Vec::new();
    let mut started = Vec::new();
    for (id, ports) in (1..).zip(&ports) {
        let own = folder.join(format!("node-{id}"));
        let listener =
            |(which, (name, _)): (usize, &&(&str, &str))| format!("{name}://{}", at(ports[which]));
        let advertised: Vec<_> = listeners.iter().enumerate().map(listener).collect();
        let advertised = advertised.join(",");
        let replicas = nodes.min(3);
        let config = include_str!("server.properties")
            .replace("@ID@", &id.to_string())
            .replace("@VOTERS@", &voters.join(","))
            .replace("@LISTENERS@", &format!("{advertised},CONTROLLER://{}", at(ports[each - 1])))
            .replace("@ADVERTISED@", &advertised)
            .replace("@DATA@", &shown(&own))
            .replace("@REPLICAS@", &replicas.to_string())
            .replace("@IN_SYNC@", &replicas.div_ceil(2).to_string());
        let security = if arguments.common.secure { secured(&folder) } else { String::new() };
        let further = arguments.properties.join("\n");
        let path = folder.join(format!("node-{id}.properties"));
        write(&path, &format!("{config}{security}{further}\n"))?;
        if !own.join("meta.properties").exists() {
            formats.push(format(jars, &path, arguments.common.secure)?);
        }
        let addresses = listeners.iter().zip(*ports);
        let addresses = addresses.map(|((_, name), port)| ((*name).into(), at(*port).into()));
        let heap = if nodes > 1 { "-Xmx384m" } else { "-Xmx256m" };
        let arguments = java(jars, heap, &["kafka.Kafka".into(), path.into()]);
        let log = folder.join(format!("node-{id}.log"));
        let ready = "Kafka Server started";
        let command = ("java".into(), arguments);
        started.push(Node::new(id, command, log, ready, addresses.collect()));
    }
    for mut child in formats {
        ensure!(child.wait()?.success(), "the storage tool of Kafka failed");
    }
    Cluster::start(started, reached, held)
}

/// The properties of TLS and SASL.
fn secured(folder: &Path) -> String {
    let module = |name: &str, options: &str| {
        format!("org.apache.kafka.common.security.{name}LoginModule required {options};")
    };
    let plain = module("plain.Plain", &format!("user_{USER}=\"{PASSWORD}\""));
    include_str!("secure.properties")
        .replace("@TLS@", &shown(&folder.join("tls")))
        .replace("@PLAIN@", &plain)
        .replace("@SCRAM@", &module("scram.Scram", ""))
        .replace(
            "@BEARER@",
            &module("oauthbearer.OAuthBearer", "unsecuredLoginStringClaim_sub=\"broker\""),
        )
}

/// Prepares the folder of a node's data; users of SCRAM are part of that.
fn format(jars: &Path, config: &Path, is_secure: bool) -> Result<std::process::Child> {
    let mut words: Vec<OsString> =
        ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"].map(OsString::from).into();
    words.push(config.into());
    if is_secure {
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let user = format!("{mechanism}=[name={USER},password={PASSWORD}]");
            words.extend(["--add-scram".into(), user.into()]);
        }
    }
    let mut command = Command::new("java");
    command.args(java(jars, "-Xmx64m", &words));
    let log = fs::File::create(config.with_extension("format.log"))?;
    command.stdout(log.try_clone()?).stderr(log);
    command.spawn().context("cannot start java")
}

/// The arguments of java for one of Kafka's programs: what starts soon, and takes little.
fn java(jars: &Path, heap: &str, words: &[OsString]) -> Vec<OsString> {
    let quick = [heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"];
    let mut all: Vec<OsString> = quick.map(OsString::from).into();
    all.push(jars.join("*").into());
    all.extend_from_slice(words);
    all
}
