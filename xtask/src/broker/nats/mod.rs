//! NATS: servers with JetStream.

use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value};

use super::node::Node;
use super::ports::ports;
use super::{Cluster, Common, PASSWORD, USER, shown};
use crate::project::write;
use crate::tools::GoProgram;

const SERVER: GoProgram = GoProgram {
    name: "nats-server",
    package: "github.com/nats-io/nats-server/v2",
    version: "2.15.2",
};
/// Name of the user who may not publish to `forbidden`.
const LIMITED: &str = "bob";
const LIMITED_PASSWORD: &str = "bob-secret";
/// Seed of the nkey of a user. The nkey is for tests, and gives access to nothing else.
const SEED: &str = "SUAHMKA5BGQQCHJ2W6SJ3MR7EYE6BCSDYPUXGJEK2ASQRJ7XF2HWD56CKQ";
/// Public half of the nkey.
const PUBLIC: &str = "UBLD5E65E25FK2TBL7XPY5EKHDXB3VSTDMC3ML4AATF5ZTCOGN3BH7XT";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Require certificates of clients
    #[arg(long, requires = "secure")]
    pub(super) verify: bool,
    /// A line for the configuration of the server; may be given several times
    #[arg(long = "set", value_name = "KEY: VALUE")]
    pub(super) properties: Vec<String>,
}

/// Starts the nodes.
pub(super) fn cluster(arguments: &Arguments) -> Result<Cluster> {
    arguments.common.check()?;
    let program = SERVER.build()?;
    let count = usize::from(arguments.common.nodes);
    // Each node has a port for clients, and one for the routes to other nodes.
    let folder = arguments.common.folder("nats")?;
    let (ports, reserved) = ports(arguments.common.port, 2 * count)?;
    let (clients, routes) = ports.split_at(count);
    let at = |port: &u16| format!("127.0.0.1:{port}");
    let all = |ports: &[u16]| ports.iter().map(at).collect::<Vec<_>>();
    let mut access: Map<String, Value> = Map::new();
    let mut lines = Vec::new();
    let name = if arguments.common.secure { "tls" } else { "plain" };
    access.insert(name.into(), all(clients).join(",").into());
    if arguments.common.secure {
        let tls = super::secured(&folder, &mut access)?;
        let all =
            [("limited_user", LIMITED), ("limited_password", LIMITED_PASSWORD), ("nkey", SEED)];
        access.extend(all.into_iter().map(|(key, text)| (key.into(), text.into())));
        lines.push(secured(&tls, arguments.verify));
    }
    lines.extend_from_slice(&arguments.properties);
    // A single node logs `Server is ready`. Several nodes are ready once they have elected a leader, and log `JetStream
    // cluster new metadata leader` or `Self is new JetStream cluster metadata leader`.
    let ready = if count > 1 { "metadata leader" } else { "Server is ready" };
    let mut nodes = Vec::new();
    for (id, (client, route)) in (1..).zip(clients.iter().zip(routes)) {
        let data = shown(&folder.join(format!("data-{id}")));
        let mut own = vec![
            format!("server_name: n{id}"),
            format!("listen: \"{}\"", at(client)),
            format!("jetstream: {{ store_dir: \"{data}\" }}"),
        ];
        if count > 1 {
            let others = all(routes).join("\", \"nats://");
            own.push(format!(
                "cluster: {{ name: nodes, listen: \"{}\", routes: [\"nats://{others}\"] }}",
                at(route)
            ));
        }
        let config = folder.join(format!("node-{id}.conf"));
        write(&config, &([own, lines.clone()].concat().join("\n") + "\n"))?;
        let command = (program.as_path(), ["-c".to_owned(), shown(&config)]);
        let addresses = [(name.into(), at(client).into())].into_iter().collect();
        nodes.push(Node::new(id, command, &folder, ready, addresses));
    }
    Cluster::start(nodes, access, reserved)
}

/// Returns the configuration of TLS, users and permissions.
fn secured(tls: &Path, verify: bool) -> String {
    let file = |name: &str| shown(&tls.join(name));
    format!(
        "tls: {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: {verify}, timeout: 5 }}\n\
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
