//! The `unix_server` connector: receives byte streams on a Unix socket.
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
//! Each connection is a stream. The source has all of them, and reads those that have something straight
//! into its batch: see [`tremor_pdk::net::Connections`].

#[cfg(not(target_os = "linux"))]
compile_error!("the unix_server connector waits for many sockets, as Linux does with epoll");

mod mode;
mod socket;

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tremor_pdk::{
    NoSink,
    net::{Connections, Limits, Listener},
    prelude::*,
    units::Interval,
};

pub use self::mode::Mode;
use self::socket::Socket;

/// Time between two checks that the path of the socket still leads to it.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// Where to listen, and for whom.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The path of the socket. A relative path starts at the folder of the flow file.
    pub listen: PathBuf,
    /// Who may connect, as the permissions of a file: `0660`. Unless set, whoever the process's umask
    /// lets.
    pub mode: Option<Mode>,
    /// How many connections there may be at a time. At this number further ones wait.
    #[serde(default = "default_max_connections")]
    pub max_connections: NonZeroUsize,
    /// After how much time without a byte a connection is closed: `5m`. Unless set, never.
    pub idle_timeout: Option<Interval>,
}

fn default_max_connections() -> NonZeroUsize {
    NonZeroUsize::new(Limits::default().max_connections).unwrap_or(NonZeroUsize::MIN)
}

/// The connector.
#[derive(Debug)]
pub struct UnixServer {
    config: Config,
    context: ComponentContext,
    /// The socket is kept when the runtime reconnects. The source replaces it if its path was taken away.
    socket: Option<Arc<Mutex<Socket>>>,
}

impl Component for UnixServer {
    const NAME: &str = "unix_server";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        if config.listen.as_os_str().is_empty() {
            return Err(Error::configuration("`listen` is empty: name the path of the socket"));
        }
        Ok(Self { config, context, socket: None })
    }
}

impl Connector for UnixServer {
    type Source = Connections;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Connections, NoSink>> {
        let socket = match &self.socket {
            Some(socket) => socket,
            None => {
                let path = self.context.resolve(&self.config.listen);
                let socket = Socket::listen(&path, self.config.mode)?;
                tremor_pdk::info!(self.context, "listens on {}", socket.path().display());
                self.socket.insert(Arc::new(Mutex::new(socket)))
            }
        };
        let limits = Limits {
            max_connections: self.config.max_connections.get(),
            idle_timeout: self.config.idle_timeout.map(Interval::get),
        };
        let listener = socket.lock().unwrap_or_else(PoisonError::into_inner).listener()?;
        let connections = Connections::new(&self.context, listener, limits)?;
        Ok(Halves::source(connections.with_renewal(CHECKED_EVERY, renewal(&self.context, socket))))
    }

    async fn close(&mut self) -> Result<()> {
        self.socket = None;
        Ok(())
    }
}

/// Returns a check of the socket, which returns another listener if clients can no longer reach the present one.
fn renewal(
    host: &Host,
    socket: &Arc<Mutex<Socket>>,
) -> impl FnMut() -> Option<Listener> + Send + use<> {
    let (host, socket) = (host.clone(), socket.clone());
    let mut has_failed = false;
    move || {
        let mut socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
        if socket.is_reachable() {
            has_failed = false;
            return None;
        }
        let path = socket.path().display().to_string();
        match socket.renew() {
            Ok(listener) => {
                has_failed = false;
                tremor_pdk::warn!(
                    host,
                    "`{path}` was deleted or replaced: listens on a new socket there"
                );
                Some(listener.into())
            }
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tremor_pdk::warn!(
                        host,
                        "`{path}` was deleted or replaced, and no client can connect until there is a new \
                         socket, which is tried every second: {error}"
                    );
                }
                None
            }
        }
    }
}

tremor_pdk::export! { connectors: [UnixServer] }

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write,
        os::unix::net::{UnixListener, UnixStream},
        path::{Path, PathBuf},
        time::Duration,
    };

    use tremor_pdk::{
        EventRef, LogLevel, Result,
        testing::{Connection, TestHost, conformance},
    };

    use super::{CHECKED_EVERY, UnixServer};

    /// A server in a folder of its own.
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

        /// Lets the time pass after which the server checks its socket.
        fn check(&mut self) -> Result<()> {
            self.host.advance(CHECKED_EVERY);
            // The task of the timer runs, and then the pull.
            self.host.block_on(self.host.host().sleep(Duration::from_millis(1)));
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
    fn socket_of_another_process_is_left_alone() -> Result<()> {
        let mut scene = Scene::new()?;
        fs::remove_file(scene.path())?;
        let other = UnixListener::bind(scene.path())?;
        scene.check()?;
        scene.check()?;
        let warnings = scene.warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("another process listens there"),
            "{warnings:?}"
        );
        // The socket file remains, but no process listens on it.
        drop(other);
        scene.check()?;
        let _client = scene.client(b"ours again")?;
        assert_eq!(scene.pulled()?, b"ours again");
        Ok(())
    }

    #[test]
    fn what_clients_have_sent_comes_until_they_close() -> Result<()> {
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
        assert!(!folder.path().join("socket").exists(), "and is gone with the server");
        Ok(())
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
    fn it_keeps_the_contract_of_plugins() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let config = format!(r#"{{ "listen": "{}" }}"#, path.display());
        conformance::connector::<UnixServer>(&config).expect_no_faults();
        Ok(())
    }
}
