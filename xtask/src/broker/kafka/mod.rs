//! Kafka without `ZooKeeper`: nodes that are both broker and controller.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde_json::{Map, Value};

use super::node::Node;
use super::ports::ports;
use super::{Cluster, Common, PASSWORD, USER, shown};
use crate::process::{Process, Program, need};
use crate::project::{root, run, write};
use crate::tools::fetched;

/// Version of Kafka, the same as in `pom.xml`.
const VERSION: &str = "4.3.1";

/// ID of the cluster: any 16 bytes in base64.
const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qg";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// A property of the broker; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) properties: Vec<String>,
}

/// Listeners: the name in Kafka's configuration, and in the description of the broker that this command prints. The
/// first listener has neither TLS nor SASL. The other listeners are added with `--secure`.
const LISTENERS: [(&str, &str); 4] =
    [("PLAINTEXT", "plain"), ("TLS", "tls"), ("SASL", "sasl"), ("SASLTLS", "sasl_tls")];

/// Starts the nodes.
pub(super) fn cluster(arguments: &Arguments) -> Result<Cluster> {
    need("java", "`apt-get install default-jre-headless`")?;
    arguments.common.check()?;
    let jars = &jars()?;
    let listeners = if arguments.common.secure { &LISTENERS[..] } else { &LISTENERS[..1] };
    let nodes = usize::from(arguments.common.nodes);
    // Each node has a port for each listener, and one for its controller.
    let each = listeners.len() + 1;
    let folder = arguments.common.folder("kafka")?;
    let (ports, reserved) = ports(arguments.common.port, nodes * each)?;
    let ports: Vec<_> = ports.chunks(each).collect();
    let at = |port: u16| format!("127.0.0.1:{port}");

    let mut access: Map<String, Value> = Map::new();
    for (which, (_, name)) in listeners.iter().enumerate() {
        let all: Vec<_> = ports.iter().map(|ports| at(ports[which])).collect();
        access.insert((*name).into(), all.join(",").into());
    }
    if arguments.common.secure {
        super::secured(&folder, &mut access)?;
    }
    let voters: Vec<_> =
        (1..).zip(&ports).map(|(id, it)| format!("{id}@{}", at(it[each - 1]))).collect();
    let mut formats = Vec::new();
    let mut started = Vec::new();
    for (id, ports) in (1..).zip(&ports) {
        let own = folder.join(format!("node-{id}"));
        let advertised = listeners.iter().zip(*ports);
        let advertised: Vec<_> =
            advertised.map(|((name, _), port)| format!("{name}://{}", at(*port))).collect();
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
            formats.push(format(jars, id, &path, arguments.common.secure)?);
        }
        let addresses = listeners.iter().zip(*ports);
        let addresses = addresses.map(|((_, name), port)| ((*name).into(), at(*port).into()));
        let heap = if nodes > 1 { "-Xmx384m" } else { "-Xmx256m" };
        let arguments = java(jars, heap, &["kafka.Kafka".into(), shown(&path)]);
        let command = (Path::new("java"), arguments);
        let ready = "Kafka Server started";
        started.push(Node::new(id, command, &folder, ready, addresses.collect()));
    }
    formats.iter_mut().try_for_each(Process::finish)?;
    Cluster::start(started, access, reserved)
}

/// Returns the properties of TLS and SASL.
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

/// Starts the program that prepares a node's data folder and, if `is_secure` is set, creates the SCRAM users in it.
fn format(jars: &Path, id: u16, config: &Path, is_secure: bool) -> Result<Process> {
    let mut words =
        ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"].map(String::from).to_vec();
    words.push(shown(config));
    if is_secure {
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let user = format!("{mechanism}=[name={USER},password={PASSWORD}]");
            words.extend(["--add-scram".into(), user]);
        }
    }
    let folder = config.parent().unwrap_or(config);
    let program = Program::new("java", &format!("node-{id}.format"), folder);
    program.arguments(java(jars, "-Xmx64m", &words)).start()
}

/// Returns the arguments of java for one of Kafka's programs. The arguments make the program start fast and use little
/// memory.
fn java(jars: &Path, heap: &str, words: &[String]) -> Vec<String> {
    let jars = shown(&jars.join("*"));
    let fast = [heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &jars];
    [&fast.map(String::from)[..], words].concat()
}

/// Returns the folder with Kafka's jars, which Maven downloads once.
fn jars() -> Result<PathBuf> {
    fetched("kafka", VERSION, |folder| {
        need("mvn", "`apt-get install maven`")?;
        eprintln!("downloading Kafka {VERSION} with Maven");
        let mut maven = Command::new("mvn");
        maven.args(["-B", "-q", "-f"]).arg(root().join("xtask/src/broker/kafka/pom.xml"));
        maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
        maven.arg(format!("-Dkafka={VERSION}"));
        maven.arg(format!("-DoutputDirectory={}", folder.display()));
        // Standard output is reserved for the description of the broker.
        maven.stdout(std::io::stderr());
        run(maven)
    })
}

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn version_equals_that_in_the_pom() {
        assert!(include_str!("pom.xml").contains(&format!("<kafka>{VERSION}</kafka>")));
    }
}
