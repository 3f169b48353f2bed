//! Resources that only one connector can use at a time: addresses to listen on, and files such as checkpoints.
//!
//! The schema of a connector marks a key whose value is such a resource with `"x-exclusive": KIND`. The kind is `tcp` or
//! `udp` for an address `HOST:PORT`, and `file` for a path. With `"x-shared-by": KEY`, connectors share the resource if
//! each of them sets this key to `true`. The folder of a queue on disk is such a resource too.

use std::{
    collections::HashSet,
    net::IpAddr,
    path::{Component, Path, PathBuf, absolute},
};

use serde_json::Value;

use super::{
    super::{Flow, diagnostic::Report, source::Span, spec::Connector, suggest::quote},
    Kind, Lookup, Resolver,
};

/// A resource that a key of a connector names.
struct Claim<'f> {
    connector: &'f str,
    key: String,
    at: Span,
    resource: Resource,
    /// Key that shares the resource, if there is one.
    shared_by: Option<String>,
    is_shared: bool,
}

#[derive(PartialEq, Eq)]
enum Resource {
    Address { protocol: Protocol, host: Host, port: u16 },
    File(PathBuf),
    Folder(PathBuf),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

#[derive(PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

/// Reports connectors that cannot run at the same time, because they need the same resource.
pub(super) fn check(flow: &Flow, resolver: &dyn Resolver, report: &mut Report) {
    let ends = flow.spec.links.iter().flat_map(|link| [&link.from.name, &link.to.name]);
    let linked: HashSet<_> = ends.collect();
    let mut claims: Vec<Claim<'_>> = Vec::new();
    for connector in &flow.spec.connectors {
        if !linked.contains(&connector.name.value) {
            continue;
        }
        let kind = &connector.component.name.value;
        let own = match resolver.find(Kind::Connector, kind) {
            Lookup::Known { schema: Some(schema) } => claims_of(flow, connector, &schema),
            _ => Vec::new(),
        };
        for claim in own.into_iter().chain(claim_of_queue(flow, connector)) {
            if let Some(other) = claims.iter().find(|other| claim.collides_with(other)) {
                claim.report(other, report);
            }
            claims.push(claim);
        }
    }
}

fn claims_of<'f>(flow: &Flow, connector: &'f Connector, schema: &Value) -> Vec<Claim<'f>> {
    let config = &connector.component.config;
    let keys = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let claim = |(key, schema): (&String, &Value)| {
        let kind = schema.get("x-exclusive")?.as_str()?;
        let value = config.value().get(key)?.as_str()?;
        let shared_by = schema.get("x-shared-by").and_then(Value::as_str);
        let is_set = |key| config.value().get(key) == Some(&Value::Bool(true));
        Some(Claim {
            connector: &connector.name.value,
            key: key.clone(),
            at: config.span(&format!("/{key}")),
            resource: Resource::new(kind, value, flow.folder())?,
            shared_by: shared_by.map(str::to_owned),
            is_shared: shared_by.is_some_and(is_set),
        })
    };
    keys.filter_map(claim).collect()
}

/// Returns the claim of a queue on disk to its folder.
fn claim_of_queue<'f>(flow: &Flow, connector: &'f Connector) -> Option<Claim<'f>> {
    let path = &connector.queue.disk.as_ref()?.path;
    Some(Claim {
        connector: &connector.name.value,
        key: "queue.disk.path".to_owned(),
        at: path.at,
        resource: Resource::Folder(resolved(&flow.folder().join(&path.value))?),
        shared_by: None,
        is_shared: false,
    })
}

impl Claim<'_> {
    fn collides_with(&self, other: &Self) -> bool {
        !(self.is_shared && other.is_shared) && self.resource.overlaps(&other.resource)
    }

    fn report(&self, other: &Self, report: &mut Report) {
        let [own, others] = [self, other].map(|it| format!("`{}.{}`", it.connector, it.key));
        let (what, choice) = match &self.resource {
            Resource::Address { protocol: Protocol::Tcp, .. } => ("TCP port", "port"),
            Resource::Address { protocol: Protocol::Udp, .. } => ("UDP port", "port"),
            Resource::File(_) => ("file", "path"),
            Resource::Folder(_) => ("folder", "path"),
        };
        let mut help = format!("choose another {choice} for one of them");
        if let (Some(key), Some(_)) = (&self.shared_by, &other.shared_by) {
            help = format!("{help}, or set `{key}: true` in both, so that they share it");
        }
        let message = format!(
            "connectors {} and {} need the same {what}: {others} and {own} collide",
            quote(other.connector),
            quote(self.connector)
        );
        let error = report.error(self.at, message).help(help);
        report.push(error.note(other.at, format!("{} needs it as well", quote(other.connector))));
    }
}

impl Resource {
    /// Returns the resource that the value of a key names. Returns `None` for an invalid value, which is reported
    /// elsewhere, and for port 0, for which the system chooses a free port.
    fn new(kind: &str, value: &str, folder: &Path) -> Option<Self> {
        let protocol = match kind {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "file" => return Some(Self::File(resolved(&folder.join(value))?)),
            _ => return None,
        };
        let (host, port) = value.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = match bare.parse::<IpAddr>() {
            Ok(ip) => Host::Ip(ip.to_canonical()),
            Err(_) => Host::Name(bare.to_ascii_lowercase()),
        };
        Some(Self::Address { protocol, host, port })
    }

    /// Returns whether two connectors certainly cannot use the resources at the same time.
    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Address { protocol, host, port },
                Self::Address { protocol: other_protocol, host: other, port: other_port },
            ) => {
                let includes = |one: &Host, other: &Host| match (one, other) {
                    (Host::Ip(IpAddr::V4(ip)), Host::Ip(IpAddr::V4(_))) => ip.is_unspecified(),
                    // A listener on `[::]` includes IPv4.
                    (Host::Ip(IpAddr::V6(ip)), _) => ip.is_unspecified(),
                    _ => false,
                };
                (protocol, port) == (other_protocol, other_port)
                    && (host == other || includes(host, other) || includes(other, host))
            }
            (Self::File(path), Self::File(other)) | (Self::Folder(path), Self::Folder(other)) => {
                path == other
            }
            _ => false,
        }
    }
}

/// Returns the canonical path of a file that need not exist, as far as its folders exist. In the remaining path, `..`
/// removes the name before it.
fn resolved(path: &Path) -> Option<PathBuf> {
    let path = absolute(path).ok()?;
    let existing = path.ancestors().find_map(|it| Some((it, it.canonicalize().ok()?)));
    let (existing, mut canonical) = existing?;
    for part in path.strip_prefix(existing).ok()?.components() {
        match part {
            Component::ParentDir => _ = canonical.pop(),
            Component::Normal(name) => canonical.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(canonical)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::resolved;

    #[test]
    fn paths_of_one_folder_are_equal() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir(base.join("real")).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        for path in [
            "real/queue",
            "link/queue",
            "link/../real/queue",
            "new/../real/./queue",
            "link/new/../queue",
        ] {
            assert_eq!(resolved(&base.join(path)), Some(base.join("real/queue")), "{path}");
        }
        assert_eq!(resolved(&base.join("a/b/../../c")), Some(base.join("c")));
    }
}
