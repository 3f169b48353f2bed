//! A sink on tokio: for clients that cannot do without it.

use std::{net::SocketAddr, time::Duration};

use tokio::{io::AsyncWriteExt, net::TcpStream, runtime, task::AbortHandle};
use tremor_pdk::prelude::*;

/// The `config` of the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// The address to connect to: `127.0.0.1:9000`.
    address: SocketAddr,
}

/// The connector. The runtime of tokio is its own, and ends with it.
pub struct Forward {
    config: Config,
    context: Context,
    runtime: Option<runtime::Runtime>,
    socket: Option<TcpStream>,
}

impl Component for Forward {
    const NAME: &str = "forward";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        Ok(Self { config, context, runtime: None, socket: None })
    }
}

impl Connector for Forward {
    type Source = NoSource;
    type Sink = Lines;

    async fn connect(&mut self, _attempt: u64) -> Result<bool> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build()?,
        };
        let runtime = self.runtime.insert(runtime);
        let address = self.config.address;
        // On tokio's thread: there the future is made as well, and finds its runtime.
        let connected = runtime.spawn(async move { TcpStream::connect(address).await });
        self.socket = Some(connected.await.map_err(Error::internal)??);
        Ok(true)
    }

    async fn create_sink(&mut self) -> Result<Option<Lines>> {
        let (Some(runtime), Some(socket)) = (&self.runtime, self.socket.take()) else {
            return Ok(None);
        };
        Ok(Some(Lines { handle: runtime.handle().clone(), socket: Some(socket) }))
    }

    async fn on_stop(&mut self) -> Result<()> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        // It joins its threads, which blocks.
        let ended = move || runtime.shutdown_timeout(Duration::from_secs(1));
        self.context.blocking(ended).await
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        // Without `on_stop` nothing waits for its threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The sink: a line for each message. The protocol has no acknowledgements: `Ok(())` says only that the
/// operating system has the bytes. If a peer can confirm events, wait for that.
pub struct Lines {
    handle: runtime::Handle,
    /// None while tokio writes to it.
    socket: Option<TcpStream>,
}

impl Sink for Lines {
    const CODEC: CodecRequirement = CodecRequirement::Optional("json");

    async fn deliver(&mut self, batch: &Batch) -> Delivery {
        let mut bytes = Vec::new();
        for message in batch.iter().filter_map(EventRef::raw) {
            bytes.extend_from_slice(message);
            bytes.push(b'\n');
        }
        let Some(mut socket) = self.socket.take() else {
            return Err(
                Error::connection_lost("the last delivery was not written to its end").into()
            );
        };
        let written = self.handle.spawn(async move {
            let written = socket.write_all(&bytes).await;
            (socket, written)
        });
        // Dropped with this future: tokio writes no further then.
        let _aborts = Aborts(written.abort_handle());
        let (socket, written) = written.await.map_err(Error::internal)?;
        // Half a line may be written: whatever the error is, this connection takes no more.
        written.map_err(|error| Error::connection_lost("cannot write").caused_by(&error))?;
        self.socket = Some(socket);
        Ok(())
    }
}

/// Ends a task of tokio when it is dropped.
struct Aborts(AbortHandle);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::TcpListener};

    use tremor_pdk::{Batch, Result, Undelivered, testing::TestHost};

    use super::Forward;

    #[test]
    fn messages_are_lines_on_the_socket() -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let config = format!(r#"{{ "address": "{}" }}"#, listener.local_addr()?);
        let mut sink = TestHost::new().connect::<Forward>(&config)?;
        let (mut peer, _) = listener.accept()?;
        let mut batch = Batch::new();
        batch.push_message(b"one");
        batch.push_message(b"two");
        sink.deliver(&batch).map_err(Undelivered::into_error)?;
        sink.stop()?;
        let mut text = String::new();
        peer.read_to_string(&mut text)?;
        assert_eq!(text, "one\ntwo\n");
        Ok(())
    }
}
