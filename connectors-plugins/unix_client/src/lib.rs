//! The `unix_client` connector: connects to a Unix socket.
//!
//! ```yaml
//! connectors:
//!   output:
//!     type: unix_client
//!     codec: json
//!     postprocessors: [lines]
//!     config: { path: /run/collector.sock }
//! ```
//!
//! What the peer sends is one stream. Messages are written one after the other, without a copy. If the
//! connection is lost, the runtime connects again.

#[cfg(not(target_os = "linux"))]
compile_error!("the unix_client connector waits for sockets as Linux does, with epoll");

use std::path::PathBuf;

use tremor_pdk::{
    Descriptors,
    net::{Link, StreamSink, StreamSource, UnixStream},
    prelude::*,
};

/// Whom to connect to.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The socket of the peer. A relative path starts at the folder of the flow file.
    pub path: PathBuf,
}

/// The connector.
#[derive(Debug)]
pub struct UnixClient {
    path: PathBuf,
    context: ComponentContext,
    /// Number of connections so far, which numbers their streams.
    connections: u64,
}

impl Component for UnixClient {
    const NAME: &str = "unix_client";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        if config.path.as_os_str().is_empty() {
            return Err(Error::configuration("`path` is empty: name the socket of the peer"));
        }
        let path = context.resolve(config.path);
        UnixStream::check_path(&path)?;
        Ok(Self { path, context, connections: 0 })
    }
}

impl Connector for UnixClient {
    type Source = StreamSource<UnixStream>;
    type Sink = StreamSink<UnixStream>;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Self::Source, Self::Sink>> {
        let peer = self.path.display();
        let failed = |error: Error| error.context(format_args!("cannot connect to `{peer}`"));
        let descriptors = Descriptors::new(&self.context).map_err(failed)?;
        // If there is no file at the path, the peer creates the socket when it starts.
        let stream = UnixStream::connect(&descriptors, &self.path).await.map_err(|error| {
            Error::connection_refused(format_args!("cannot connect to `{peer}`: {error}"))
        })?;
        self.connections += 1;
        let link = Link::new(stream).with_stream(self.connections);
        Ok(StreamSource::halves(&self.context, link, &peer, wanted))
    }
}

tremor_pdk::export! { connectors: [UnixClient] }

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixListener,
        thread,
    };

    use tremor_pdk::{
        Batch, ErrorKind, EventRef, Result,
        testing::{TestHost, conformance},
    };

    use super::UnixClient;

    /// Checks that other tests of this process prevent, that need a source with an end or with acknowledgements, or a
    /// sink that takes several deliveries at a time.
    const SKIPPED: [&str; 7] = [
        "stays_inside",
        "leaves_nothing",
        "stays_finished",
        "hears_acknowledgements",
        "flushes",
        "reads_again",
        "takes_several",
    ];

    #[test]
    fn it_writes_to_the_peer_and_reads_from_it() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let host = TestHost::new();
        host.set_folder(folder.path());
        let listener = UnixListener::bind(folder.path().join("socket"))?;
        let mut client = host.connect::<UnixClient>(r#"{ "path": "socket" }"#)?;
        let (mut peer, _) = listener.accept()?;
        let mut batch = Batch::new();
        batch.push_message(b"one\n");
        client.deliver(&batch).unwrap();
        let mut received = [0; 4];
        peer.read_exact(&mut received)?;
        assert_eq!(&received, b"one\n");
        peer.write_all(b"answer")?;
        let (_, batch) = client.pull()?;
        let event = batch.first().unwrap();
        assert_eq!(event.raw(), Some(&b"answer"[..]));
        assert_eq!(event.origin(), folder.path().join("socket").to_str());
        drop(peer);
        assert!(client.pull()?.1.first().is_some_and(EventRef::is_stream_end));
        assert_eq!(client.pull().unwrap_err().kind(), ErrorKind::CONNECTION_LOST);
        client.stop()
    }

    #[test]
    fn a_socket_that_is_not_there_may_be_there_later() {
        let error = TestHost::new().connect::<UnixClient>(r#"{ "path": "/nowhere/socket" }"#);
        let error = error.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        assert!(error.to_string().contains("`/nowhere/socket`"), "{error}");
    }

    #[test]
    fn a_path_that_is_too_long_is_the_configurations_fault() {
        let config = format!(r#"{{ "path": "/{}" }}"#, "x".repeat(200));
        let error = TestHost::new().component::<UnixClient>(&config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("107 bytes at most"), "{error}");
    }

    #[test]
    fn real_peer_that_sends_lets_the_client_pass_all_checks() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path)?;
        thread::spawn(move || {
            for mut peer in listener.incoming().flatten() {
                let mut reads = peer.try_clone().unwrap();
                thread::spawn(move || std::io::copy(&mut reads, &mut std::io::sink()));
                let lines: Vec<_> = (0..1_000).map(|line| format!("line {line}")).collect();
                // A client that is dropped reads no further.
                thread::spawn(move || peer.write_all(lines.join("\n").as_bytes()));
            }
        });
        let config = format!(r#"{{ "path": "{}" }}"#, path.display());
        conformance::connector::<UnixClient>(&config).expect_all_but(&SKIPPED);
        Ok(())
    }

    #[test]
    fn it_keeps_the_contract_of_plugins() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path)?;
        thread::spawn(move || {
            for peer in listener.incoming() {
                let Ok(mut peer) = peer else { return };
                thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()));
            }
        });
        let config = format!(r#"{{ "path": "{}" }}"#, path.display());
        conformance::connector::<UnixClient>(&config).expect_no_faults();
        Ok(())
    }
}
