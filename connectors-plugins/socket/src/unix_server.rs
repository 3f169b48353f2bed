//! The `unix_server` connector: receives byte streams or datagrams on a Unix socket.
//!
//! ```yaml
//! connectors:
//!   input:
//!     type: unix_server
//!     preprocessors: [lines]
//!     codec: json
//!     config: { listen: /run/tremor.sock, mode: '0660' }
//! ```
//!
//! Each connection is a stream. The source owns all connections, and reads those with data directly
//! into its batch: see [`tremor_pdk::net::Connections`]. With `kind: datagram` each datagram is a
//! message: see [`tremor_pdk::net::UnixDatagrams`].

mod mode;
mod socket;

use std::{
    num::NonZeroUsize,
    os::{
        fd::OwnedFd,
        unix::net::{UnixDatagram, UnixListener},
    },
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tremor_pdk::{
    NoSink, lock,
    net::{Connections, Limits, Listener, ProxyHeaders, UnixDatagrams},
    path_without_placeholders,
    prelude::*,
    units::Interval,
};

pub use self::mode::Mode;
use self::socket::Socket;

/// Time between two checks whether the path still leads to the socket.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the socket. A relative path is resolved against the folder of the flow file.
    #[schemars(extend("x-exclusive" = "file"))]
    pub listen: PathBuf,
    /// Kind of the socket.
    #[serde(default)]
    pub kind: Kind,
    /// Permissions of the socket file, which decide who may connect: `0660`. Default: determined by
    /// the umask of the process.
    pub mode: Option<Mode>,
    /// Maximum number of connections. Further connections wait when the limit is reached. Default:
    /// 10,000.
    pub max_connections: Option<NonZeroUsize>,
    /// Time without data after which a connection is closed: `5m`. Default: no limit.
    pub idle_timeout: Option<Interval>,
    /// `true` if each connection begins with a header of the PROXY protocol, version 1 or 2, from a
    /// load balancer. The header names the client and is believed, so `mode` has to ensure that
    /// nobody else can connect.
    #[serde(default)]
    pub proxy_protocol: bool,
}

/// Kind of a Unix socket.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Clients connect, and each connection is a stream.
    #[default]
    Stream,
    /// Each datagram is a message, such as those that programs send to `/dev/log`.
    Datagram,
}

/// The source of a Unix socket.
#[derive(Debug)]
pub enum Received {
    /// Connections to the socket.
    Streams(Box<Connections>),
    /// Datagrams that the socket receives.
    Datagrams(Box<UnixDatagrams>),
}

impl Source for Received {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        match self {
            Self::Streams(connections) => connections.pull(batch).await,
            Self::Datagrams(datagrams) => datagrams.pull(batch).await,
        }
    }
}

/// Receives byte streams or datagrams on a Unix socket.
#[derive(Debug)]
pub struct UnixServer {
    config: Config,
    context: ComponentContext,
    /// The listening socket. Kept when the runtime reconnects. A task of the source replaces the
    /// socket if the file at its path was deleted or replaced.
    socket: Option<Arc<Mutex<Socket>>>,
}

impl Component for UnixServer {
    const NAME: &str = "unix_server";
    const DESCRIPTION: &str = "Receives byte streams on a Unix socket, each connection a stream, or datagrams, each a message.";
    type Config = Config;

    fn new(mut config: Config, context: ComponentContext) -> Result<Self> {
        if config.listen.as_os_str().is_empty() {
            return Err(Error::configuration(
                "invalid `listen`: expected the path of the socket; it is empty",
            ));
        }
        let of_streams = [
            ("max_connections", config.max_connections.is_some()),
            ("idle_timeout", config.idle_timeout.is_some()),
            ("proxy_protocol", config.proxy_protocol),
        ];
        let set = of_streams.into_iter().find(|(_, is_set)| *is_set);
        if let (Kind::Datagram, Some((key, _))) = (config.kind, set) {
            return Err(Error::configuration(format_args!(
                "invalid `{key}`: a socket with `kind: datagram` has no connections; remove the key"
            )));
        }
        config.listen = path_without_placeholders("listen", config.listen)?;
        Ok(Self { config, context, socket: None })
    }
}

impl Connector for UnixServer {
    type Source = Received;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Received, NoSink>> {
        let socket = match &self.socket {
            Some(socket) => socket,
            None => {
                let path = self.context.resolve(&self.config.listen);
                let socket = Socket::listen(&path, self.config.mode, self.config.kind)?;
                tremor_pdk::info!(self.context, "listens on {}", socket.path().display());
                self.socket.insert(Arc::new(Mutex::new(socket)))
            }
        };
        if self.config.kind == Kind::Datagram {
            let (duplicate, path) = {
                let socket = lock(socket);
                (socket.duplicate::<UnixDatagram>()?, socket.path().to_owned())
            };
            let datagrams = UnixDatagrams::new(&self.context, duplicate, &path)?;
            let datagrams = datagrams.with_renewal(CHECKED_EVERY, renewal(&self.context, socket));
            return Ok(Halves::source(Received::Datagrams(Box::new(datagrams))));
        }
        let limits = Limits {
            max_connections: self
                .config
                .max_connections
                .map_or(Limits::default().max_connections, NonZeroUsize::get),
            idle_timeout: self.config.idle_timeout.map(Interval::get),
        };
        let listener = lock(socket).duplicate::<UnixListener>()?;
        let mut connections = Connections::new(&self.context, listener, limits)?;
        if self.config.proxy_protocol {
            connections = connections.with_proxy_protocol(ProxyHeaders::of_all(&self.context));
        }
        let mut renew = renewal::<UnixListener>(&self.context, socket);
        let connections =
            connections.with_renewal(CHECKED_EVERY, move || renew().map(Listener::from));
        Ok(Halves::source(Received::Streams(Box::new(connections))))
    }

    async fn close(&mut self) -> Result<()> {
        self.socket = None;
        Ok(())
    }
}

/// Returns a function that checks the socket. If clients can no longer reach the current socket,
/// the function returns a new one. The function keeps no socket, because a closed connector removes
/// its socket at once.
fn renewal<S: From<OwnedFd>>(
    host: &Host,
    socket: &Arc<Mutex<Socket>>,
) -> impl FnMut() -> Option<S> + Send + use<S> {
    let (host, socket) = (host.clone(), Arc::downgrade(socket));
    let problem = host.problem("socket");
    let mut has_failed = false;
    move || {
        let socket = socket.upgrade()?;
        let mut socket = lock(&socket);
        if socket.is_reachable() {
            problem.clear();
            has_failed = false;
            return None;
        }
        let path = socket.path().display().to_string();
        match socket.renew() {
            Ok(renewed) => {
                problem.clear();
                has_failed = false;
                tremor_pdk::warn!(
                    host,
                    "`{path}` was deleted or replaced; listening on a new socket there"
                );
                Some(renewed)
            }
            Err(error) => {
                let message = format!(
                    "cannot listen on a new socket at `{path}`, which was deleted or replaced: {error}; \
                     retrying every {CHECKED_EVERY:?}, no client can connect until then"
                );
                if !std::mem::replace(&mut has_failed, true) {
                    tremor_pdk::warn!(host, "{message}");
                }
                problem.set(&Error::new(error.kind(), message));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write,
        os::unix::{
            fs::PermissionsExt,
            net::{UnixDatagram, UnixListener, UnixStream},
        },
        path::{Path, PathBuf},
        time::Duration,
    };

    use tremor_pdk::{
        EventRef, LogLevel, Result,
        testing::{Connection, TestHost, conformance},
    };

    use super::{CHECKED_EVERY, UnixServer};

    /// A server and its own folder.
    struct Scene {
        host: TestHost,
        server: Connection,
        folder: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Result<Self> {
            let (host, folder) = (TestHost::new(), tempfile::tempdir()?);
            host.set_folder(folder.path());
            let server = host.connect::<UnixServer>(r#"{ "listen": "socket" }"#)?;
            Ok(Self { host, server, folder })
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("socket")
        }

        fn client(&self, text: &[u8]) -> Result<UnixStream> {
            let mut client = UnixStream::connect(self.path())?;
            client.write_all(text)?;
            Ok(client)
        }

        fn pulled(&mut self) -> Result<Vec<u8>> {
            let (_, batch) = self.server.pull()?;
            Ok(batch.first().and_then(EventRef::raw).unwrap_or_default().to_vec())
        }

        /// Lets the time of a check of the socket pass, without a pull.
        fn pass(&self) {
            self.host.block_on(self.host.host().sleep(CHECKED_EVERY + Duration::from_millis(1)));
        }

        /// Lets the time of a check of the socket pass, and uses the result of the check in a pull.
        fn check(&mut self) -> Result<()> {
            self.pass();
            assert!(self.server.pull_and_give_up()?.1.is_empty());
            Ok(())
        }

        fn warnings(&self) -> Vec<String> {
            let log = self.host.log().into_iter();
            log.filter(|(level, _)| *level == LogLevel::WARN).map(|(_, text)| text).collect()
        }
    }

    fn folder_is_empty(folder: &Path) -> bool {
        fs::read_dir(folder).is_ok_and(|mut it| it.next().is_none())
    }

    #[test]
    fn deleted_socket_is_bound_again() -> Result<()> {
        let mut scene = Scene::new()?;
        let mut first = scene.client(b"first")?;
        assert_eq!(scene.pulled()?, b"first");
        fs::remove_file(scene.path())?;
        scene.check()?;
        let _second = scene.client(b"second")?;
        assert_eq!(scene.pulled()?, b"second");
        first.write_all(b"third")?;
        assert_eq!(scene.pulled()?, b"third", "connections stay open");
        let warnings = scene.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("was deleted"), "{warnings:?}");
        scene.check()?;
        assert_eq!(scene.warnings().len(), 1);
        scene.server.stop()?;
        assert!(folder_is_empty(scene.folder.path()));
        Ok(())
    }

    #[test]
    fn waiting_client_of_deleted_socket_is_served() -> Result<()> {
        let mut scene = Scene::new()?;
        let _waiting = scene.client(b"waiting")?;
        fs::remove_file(scene.path())?;
        scene.host.advance(CHECKED_EVERY);
        assert_eq!(scene.pulled()?, b"waiting");
        scene.check()?;
        let _later = scene.client(b"later")?;
        assert_eq!(scene.pulled()?, b"later");
        Ok(())
    }

    #[test]
    fn deleted_socket_is_bound_again_without_pulls() -> Result<()> {
        let mut scene = Scene::new()?;
        let mut clients = vec![scene.client(b"0")?];
        for text in [b"1", b"2", b"3"] {
            fs::remove_file(scene.path())?;
            scene.pass();
            clients.push(scene.client(text)?);
        }
        let mut pulled = Vec::new();
        while pulled.len() < clients.len() {
            let (_, batch) = scene.server.pull()?;
            pulled.extend(batch.iter().filter_map(EventRef::raw).map(<[u8]>::to_vec));
        }
        assert_eq!(pulled, [b"0", b"1", b"2", b"3"]);
        assert_eq!(scene.warnings().len(), 3);
        Ok(())
    }

    #[test]
    fn socket_of_another_process_is_not_replaced() -> Result<()> {
        let mut scene = Scene::new()?;
        fs::remove_file(scene.path())?;
        let other = UnixListener::bind(scene.path())?;
        scene.pass();
        assert!(scene.host.problem("socket").is_some(), "the state is true without a pull");
        scene.check()?;
        let warnings = scene.warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("another process listens there"),
            "{warnings:?}"
        );
        assert_eq!(scene.host.problem("socket").as_ref(), warnings.first());
        // The socket file remains, but no process listens on it.
        drop(other);
        scene.check()?;
        assert_eq!(scene.host.problem("socket"), None);
        let _client = scene.client(b"ours again")?;
        assert_eq!(scene.pulled()?, b"ours again");
        Ok(())
    }

    #[test]
    fn data_arrives_until_client_closes() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let host = TestHost::new();
        host.set_folder(folder.path());
        let mut server = host.connect::<UnixServer>(r#"{ "listen": "socket" }"#)?;
        let mut client = UnixStream::connect(folder.path().join("socket"))?;
        client.write_all(b"one\ntwo\n")?;
        let (_, batch) = server.pull()?;
        let event = batch.first().unwrap();
        assert_eq!(event.raw(), Some(&b"one\ntwo\n"[..]));
        assert_eq!(event.origin(), folder.path().join("socket").to_str());
        drop(client);
        assert!(server.pull()?.1.first().unwrap().is_stream_end());
        server.stop()?;
        assert!(!folder.path().join("socket").exists(), "the socket is removed with the server");
        Ok(())
    }

    #[test]
    fn datagrams_are_messages_and_deleted_socket_is_bound_again() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (host, path) = (TestHost::new(), folder.path().join("log"));
        host.set_folder(folder.path());
        let config = r#"{ "listen": "log", "kind": "datagram", "mode": "0666" }"#;
        let mut server = host.connect::<UnixServer>(config)?;
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o666);
        let client = UnixDatagram::unbound()?;
        client.send_to(b"<13>one\0", &path)?;
        client.send_to(b"<13>two", &path)?;
        let (_, batch) = server.pull()?;
        let messages: Vec<_> = batch.iter().filter_map(EventRef::raw).collect();
        assert_eq!(messages, [&b"<13>one\0"[..], b"<13>two"]);
        let event = batch.first().unwrap();
        assert_eq!((event.origin(), event.is_fragment()), (path.to_str(), false));
        fs::remove_file(&path)?;
        host.block_on(host.host().sleep(CHECKED_EVERY + Duration::from_millis(1)));
        client.send_to(b"three", &path)?;
        assert_eq!(server.pull()?.1.first().and_then(EventRef::raw), Some(&b"three"[..]));
        server.stop()?;
        assert!(folder_is_empty(folder.path()));
        Ok(())
    }

    #[test]
    fn keys_of_connections_are_rejected_for_datagrams() {
        let host = TestHost::new();
        for key in
            [r#""max_connections": 9"#, r#""idle_timeout": "1m""#, r#""proxy_protocol": true"#]
        {
            let config = format!(r#"{{ "listen": "socket", "kind": "datagram", {key} }}"#);
            let error = host.component::<UnixServer>(&config).err().unwrap().to_string();
            assert!(error.contains("has no connections; remove the key"), "{error}");
        }
    }

    #[test]
    fn modes_are_octal() {
        let host = TestHost::new();
        for mode in ["0660", "600", "0777"] {
            let config = format!(r#"{{ "listen": "socket", "mode": "{mode}" }}"#);
            host.component::<UnixServer>(&config).unwrap();
        }
        for mode in ["", "rw-rw----", "0888", "77777", "10"] {
            let config = format!(r#"{{ "listen": "socket", "mode": "{mode}" }}"#);
            let error = host.component::<UnixServer>(&config).err().unwrap().to_string();
            assert!(error.starts_with("`mode`: ") && error.contains("`0660`"), "{error}");
        }
    }

    #[test]
    fn connector_passes_conformance_checks() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let config = format!(r#"{{ "listen": "{}" }}"#, path.display());
        conformance::connector::<UnixServer>(&config).expect_no_faults();
        Ok(())
    }
}
