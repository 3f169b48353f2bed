//! The `unix_client` connector: connects to a Unix socket for byte streams or datagrams.
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
//! The data that the peer sends on one connection is one stream. Messages are written one after the
//! other, without copying them. If the connection is lost, the runtime reconnects.

use std::path::PathBuf;

use tremor_pdk::{
    Descriptors,
    net::{Link, StreamSink, StreamSource, UnixDatagramSink, UnixStream, socket_origin},
    path_without_placeholders,
    prelude::*,
};

use crate::unix_server::Kind;

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the peer's socket. A relative path is resolved against the folder of the flow file.
    pub path: PathBuf,
    /// Kind of the peer's socket. With `datagram`, each message is a datagram, and the connector is
    /// a sink only.
    #[serde(default)]
    pub kind: Kind,
}

/// The sink of a Unix socket.
#[derive(Debug)]
pub enum Sent {
    /// Writes messages to a connection.
    Stream(StreamSink<UnixStream>),
    /// Sends each message as a datagram.
    Datagrams(UnixDatagramSink),
}

impl Sink for Sent {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        match self {
            Self::Stream(sink) => sink.deliver(batch).await,
            Self::Datagrams(sink) => sink.deliver(batch).await,
        }
    }

    async fn close(&mut self) -> Result<()> {
        match self {
            Self::Stream(sink) => sink.close().await,
            Self::Datagrams(sink) => sink.close().await,
        }
    }
}

/// Connects to a Unix socket: reads a stream and writes messages.
#[derive(Debug)]
pub struct UnixClient {
    path: PathBuf,
    kind: Kind,
    context: ComponentContext,
    /// Number of connections that were made, which is the stream number of the current connection.
    connections: u64,
}

impl Component for UnixClient {
    const NAME: &str = "unix_client";
    const DESCRIPTION: &str =
        "Connects to a Unix socket: reads what the peer sends, and writes messages to it.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        if config.path.as_os_str().is_empty() {
            return Err(Error::configuration(
                "invalid `path`: expected the path of the peer's socket; it is empty",
            ));
        }
        let path = context.resolve(path_without_placeholders("path", config.path)?);
        UnixStream::check_path(&path)?;
        Ok(Self { path, kind: config.kind, context, connections: 0 })
    }
}

impl Connector for UnixClient {
    type Source = StreamSource<UnixStream>;
    type Sink = Sent;

    fn sides(&self) -> Sides {
        Sides::new(self.kind == Kind::Stream, true)
    }

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Self::Source, Self::Sink>> {
        if self.kind == Kind::Datagram {
            let sink = UnixDatagramSink::connect(&self.context, &self.path)?;
            return Ok(Halves::sink(Sent::Datagrams(sink)));
        }
        let peer = self.path.display();
        let failed = |error: Error| error.context(format_args!("cannot connect to `{peer}`"));
        let descriptors = Descriptors::new(&self.context).map_err(failed)?;
        // A missing file is not final, because the peer creates the socket when it starts.
        let stream = UnixStream::connect(&descriptors, &self.path).await.map_err(|error| {
            Error::connection_refused(format_args!("cannot connect to `{peer}`: {error}"))
        })?;
        self.connections += 1;
        let link = Link::new(stream).with_stream(self.connections);
        let Halves { source, sink } =
            StreamSource::halves(&self.context, link, &socket_origin(&self.path), wanted);
        Ok(Halves { source, sink: sink.map(Sent::Stream) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use tremor_pdk::{Batch, ErrorKind, EventRef, Result, testing::TestHost};

    use super::UnixClient;
    use crate::tests::expect_exchange;

    #[test]
    fn closed_connection_ends_its_stream_and_is_lost() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let host = TestHost::new();
        host.set_folder(folder.path());
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path)?;
        let mut client = host.connect::<UnixClient>(r#"{ "path": "socket" }"#)?;
        let (mut peer, _) = listener.accept()?;
        expect_exchange(&mut client, &mut peer, path.to_str().unwrap())?;
        drop(peer);
        assert!(client.pull()?.1.first().is_some_and(EventRef::is_stream_end));
        assert_eq!(client.pull().unwrap_err().kind(), ErrorKind::CONNECTION_LOST);
        client.stop()
    }

    #[test]
    fn each_message_is_a_datagram() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("log");
        let peer = UnixDatagram::bind(&path)?;
        let config = format!(r#"{{ "path": "{}", "kind": "datagram" }}"#, path.display());
        let mut client = TestHost::new().connect::<UnixClient>(&config)?;
        let mut batch = Batch::new();
        ["one", "two"].iter().for_each(|message| batch.push_message(message.as_bytes()));
        assert!(client.deliver(&batch).is_ok());
        let mut bytes = [0; 9];
        for message in ["one", "two"] {
            let count = peer.recv(&mut bytes)?;
            assert_eq!(&bytes[..count], message.as_bytes());
        }
        client.stop()
    }

    #[test]
    fn missing_socket_error_is_not_final() {
        let error = TestHost::new().connect::<UnixClient>(r#"{ "path": "/nowhere/socket" }"#);
        let error = error.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        assert!(error.to_string().contains("`/nowhere/socket`"), "{error}");
    }

    #[test]
    fn too_long_path_is_a_configuration_error() {
        let config = format!(r#"{{ "path": "/{}" }}"#, "x".repeat(200));
        let error = TestHost::new().component::<UnixClient>(&config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("at most 107 bytes"), "{error}");
    }
}
