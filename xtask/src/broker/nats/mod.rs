//! NATS: a server with JetStream.

mod server;

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Map, Value};

use super::node::Node;
use super::{Cluster, Common, identities, need, shown};
use crate::running::write;

/// Who may do all, with a password or a token.
const USER: &str = "alice";
const PASSWORD: &str = "alice-secret";
/// Who may not publish to `forbidden`.
const LIMITED: &str = "bob";
const LIMITED_PASSWORD: &str = "bob-secret";
/// Who has an nkey: the seed, and the public half of it. It is for tests, and opens nothing else.
const SEED: &str = "SUAHMKA5BGQQCHJ2W6SJ3MR7EYE6BCSDYPUXGJEK2ASQRJ7XF2HWD56CKQ";
const PUBLIC: &str = "UBLD5E65E25FK2TBL7XPY5EKHDXB3VSTDMC3ML4AATF5ZTCOGN3BH7XT";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// A line for the configuration of the server; may be given several times
    #[arg(long = "set", value_name = "KEY: VALUE")]
    properties: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    need("setpriv", "--version", "util-linux")?;
    if arguments.common.secure {
        need("openssl", "version", "`apt-get install openssl`")?;
    }
    ensure!(arguments.common.nodes == 1, "--nodes: there is one node of NATS");
    for property in &arguments.properties {
        ensure!(property.contains(':'), "--set: expected KEY: VALUE, found `{property}`");
    }
    let program = server::find()?;
    let mut cluster = start(arguments, &program)?;
    cluster.stay(arguments.common.json)
}

fn start(arguments: &Arguments, program: &Path) -> Result<Cluster> {
    let (folder, ports) = arguments.common.place("nats", 1)?;
    let mut reached: Map<String, Value> = Map::new();
    let address = format!("127.0.0.1:{}", ports[0]);
    let mut lines = vec![
        format!("listen: \"{address}\""),
        format!("jetstream: {{ store_dir: \"{}\" }}", shown(&folder.join("data"))),
    ];
    let name = if arguments.common.secure { "tls" } else { "plain" };
    reached.insert(name.into(), address.clone().into());
    if arguments.common.secure {
        let files = identities::make(&folder.join("tls"))?;
        reached.extend(files.into_iter().map(|(key, path)| (key.into(), shown(&path).into())));
        let all = [
            ("user", USER),
            ("password", PASSWORD),
            ("limited_user", LIMITED),
            ("limited_password", LIMITED_PASSWORD),
            ("nkey", SEED),
        ];
        reached.extend(all.into_iter().map(|(key, text)| (key.into(), text.into())));
        lines.push(secured(&folder.join("tls")));
    }
    lines.extend_from_slice(&arguments.properties);
    let config = folder.join("nats.conf");
    write(&config, &(lines.join("\n") + "\n"))?;
    let command = (program.into(), vec!["-c".into(), config.into()]);
    let addresses = [(name.into(), address.into())].into_iter().collect();
    let node = Node::new(1, command, folder.join("node-1.log"), "Server is ready", addresses);
    Cluster::start(vec![node], reached)
}

/// TLS, and who may do what.
fn secured(tls: &Path) -> String {
    let file = |name: &str| shown(&tls.join(name));
    format!(
        "tls: {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", timeout: 5 }}\n\
         authorization: {{ users: [\n  \
           {{ user: {USER}, password: \"{PASSWORD}\" }}\n  \
           {{ user: {LIMITED}, password: \"{LIMITED_PASSWORD}\", permissions: {{ publish: {{ deny: [forbidden] }} }} }}\n  \
           {{ nkey: {PUBLIC} }}\n\
         ] }}",
        file("broker.pem"),
        file("broker.key"),
        file("ca.pem"),
    )
}
