//! A sink that runs on tokio, for client libraries that need it.

use std::net::SocketAddr;

use tokio::{io::AsyncWriteExt, net::TcpStream};
use tremor_pdk::{NoSource, prelude::*, tokio::Tokio};

/// Configuration of the sink in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Address to connect to, such as `127.0.0.1:9000`.
    address: SocketAddr,
}

/// Connects to the address. Each connector has its own tokio runtime, which ends when the last clone of `tokio` is
/// dropped.
pub struct Forward {
    config: Config,
    context: ComponentContext,
    tokio: Option<Tokio>,
}

impl Component for Forward {
    const NAME: &str = "forward";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { config, context, tokio: None })
    }
}

impl Connector for Forward {
    type Source = NoSource;
    type Sink = Lines;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, Lines>> {
        let tokio = match self.tokio.take() {
            Some(tokio) => tokio,
            None => Tokio::start(&self.context).await?,
        };
        let tokio = self.tokio.insert(tokio).clone();
        let address = self.config.address;
        // The future is also created on tokio's thread, where it finds the runtime.
        let socket = tokio.run(async move { TcpStream::connect(address).await }).await??;
        Ok(Halves::sink(Lines { tokio, socket: Some(socket) }))
    }
}

/// Writes each message as a line. The protocol has no acknowledgements, so the result `Ok(())` of a delivery only means
/// that the operating system has the bytes. A sink whose peer confirms events should wait for the confirmations.
pub struct Lines {
    tokio: Tokio,
    /// `None` while tokio writes to the socket, and after a delivery that failed or was dropped.
    socket: Option<TcpStream>,
}

impl Sink for Lines {
    type Batch = RawBatch;
    const DEFAULT_CODEC: Option<&str> = Some("json");

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let mut bytes = Vec::new();
        for event in batch {
            bytes.extend_from_slice(event.raw());
            bytes.push(b'\n');
        }
        let Some(mut socket) = self.socket.take() else {
            return Err(
                Error::connection_lost("the last delivery was not written to its end").into()
            );
        };
        // If this delivery is dropped, tokio stops writing.
        let written = self.tokio.run(async move {
            let written = socket.write_all(&bytes).await;
            (socket, written)
        });
        let (socket, written) = written.await?;
        // Part of a line may have been written, so this connection cannot continue after any error.
        written.map_err(|error| Error::connection_lost("cannot write").caused_by(&error))?;
        self.socket = Some(socket);
        Ok(())
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
