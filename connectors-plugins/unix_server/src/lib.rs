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

use std::{num::NonZeroUsize, path::PathBuf};

use tremor_pdk::{
    net::{Connections, Limits},
    prelude::*,
    units::Interval,
};

pub use self::mode::Mode;
use self::socket::Socket;

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
    context: Context,
    /// It outlives a connection of the runtime's.
    socket: Option<Socket>,
}

impl Component for UnixServer {
    const NAME: &str = "unix_server";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
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
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => {
                let path = self.context.resolve(&self.config.listen);
                let socket = Socket::listen(&path, self.config.mode)?;
                tremor_pdk::info!(self.context, "listens on {}", socket.path().display());
                socket
            }
        };
        let listener = self.socket.insert(socket).listener()?;
        let limits = Limits {
            max_connections: self.config.max_connections.get(),
            idle_timeout: self.config.idle_timeout.map(Interval::get),
        };
        Connections::new(&self.context, listener, limits).map(Halves::source)
    }
}

tremor_pdk::export! { connectors: [UnixServer] }

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream};

    use tremor_pdk::{
        Result,
        testing::{TestHost, conformance},
    };

    use super::UnixServer;

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
