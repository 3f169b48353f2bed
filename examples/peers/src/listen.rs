//! A source that accepts TCP connections. Each connection is a stream.

use std::net::TcpListener;

use tremor_pdk::{
    NoSink,
    net::{self, Address, Connections, Limits},
    prelude::*,
};

/// Configuration of the source in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Address to listen on, such as `127.0.0.1:9000`.
    listen: Address,
}

/// Listens on the address.
pub struct Listen {
    config: Config,
    context: ComponentContext,
    listener: Option<TcpListener>,
}

impl Component for Listen {
    const NAME: &str = "listen";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { config, context, listener: None })
    }
}

impl Connector for Listen {
    type Source = Connections;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Connections, NoSink>> {
        // The listener is kept for the next connection, because another listener could not use the address until the
        // previous `Connections` is dropped.
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let addresses = self.config.listen.resolve(&self.context).await?;
                let listener = net::listen(&addresses, false)?;
                tremor_pdk::info!(self.context, "listens on {}", listener.local_addr()?);
                listener
            }
        };
        let listener = self.listener.insert(listener).try_clone()?;
        Connections::new(&self.context, listener, Limits::default()).map(Halves::source)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        time::Duration,
    };

    use tremor_pdk::{EventRef, Result, testing::TestHost};

    use super::Listen;

    #[test]
    fn connection_is_a_stream_that_ends_with_it() -> Result<()> {
        let host = TestHost::new();
        let mut listen = host.connect::<Listen>(r#"{ "listen": "127.0.0.1:0" }"#)?;
        let log = host.log();
        let address = log[0].1.trim_start_matches("listens on ");
        let mut clients: Vec<_> =
            (0..20).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
        for client in &mut clients {
            client.write_all(b"half a li")?;
            client.write_all(b"ne\n")?;
        }
        drop(clients);
        let (mut bytes, mut ends) = (0, 0);
        while ends < 20 {
            let (_, batch) = listen.pull()?;
            ends += batch.iter().filter(|event| event.is_stream_end()).count();
            bytes += batch.iter().filter_map(EventRef::raw).map(<[u8]>::len).sum::<usize>();
        }
        assert_eq!(bytes, 20 * "half a line\n".len());
        listen.stop()
    }

    #[test]
    fn dropped_source_closes_its_connections() -> Result<()> {
        let host = TestHost::new();
        let mut listen = host.connect::<Listen>(r#"{ "listen": "127.0.0.1:0" }"#)?;
        let log = host.log();
        let mut client = TcpStream::connect(log[0].1.trim_start_matches("listens on "))?;
        client.write_all(b"one")?;
        let (_, batch) = listen.pull()?;
        assert_eq!(batch.iter().next().and_then(EventRef::raw), Some(&b"one"[..]));
        listen.stop()?;
        // The host drops the connections some time after `stop` returns.
        host.block_on(host.host().sleep(Duration::from_millis(1)));
        assert_eq!(client.read(&mut [0; 8])?, 0, "the other side is closed");
        Ok(())
    }
}
