//! A source of sockets: each connection is a stream.

use std::{
    collections::HashMap,
    io::Read,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_channel::{Receiver, Sender};
use tremor_pdk::{Descriptors, Registered, prelude::*};

/// The `config` of the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// The address to listen on: `127.0.0.1:9000`.
    listen: SocketAddr,
}

/// The connector.
pub struct Listen {
    config: Config,
    context: Context,
    listener: Option<TcpListener>,
}

impl Component for Listen {
    const NAME: &str = "listen";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        Ok(Self { config, context, listener: None })
    }
}

impl Connector for Listen {
    type Source = Connections;
    type Sink = NoSink;

    async fn connect(&mut self, _attempt: u64) -> Result<bool> {
        // It outlives connections: the address is in use as long as an earlier one ends.
        if self.listener.is_none() {
            let listener = TcpListener::bind(self.config.listen)?;
            listener.set_nonblocking(true)?;
            tremor_pdk::info!(self.context, "listens on {}", listener.local_addr()?);
            self.listener = Some(listener);
        }
        Ok(true)
    }

    async fn create_source(&mut self) -> Result<Option<Connections>> {
        let Some(listener) = &self.listener else { return Ok(None) };
        let descriptors = Descriptors::new(&self.context)?;
        let listener = descriptors.register(listener.try_clone()?)?;
        // So many parts wait; then the peers do.
        let (sender, parts) = async_channel::bounded(64);
        let host: Host = (*self.context).clone();
        let accepts = self.context.spawn("accepts", async move {
            accept(&host, &descriptors, &listener, &sender).await;
        });
        Ok(Some(Connections { parts, _accepts: accepts }))
    }
}

/// A part of what came on a connection.
enum Part {
    Bytes(Vec<u8>),
    End,
    /// The connection was cut off: what has begun of a message never becomes one.
    Abort,
}

/// Accepts connections, and has a task read each of them.
async fn accept(
    host: &Host,
    descriptors: &Descriptors,
    listener: &Registered<TcpListener>,
    parts: &Sender<(u64, Part)>,
) {
    let tasks = Arc::new(Mutex::new(HashMap::new()));
    for stream in 1.. {
        let accepted = listener.read_with(TcpListener::accept).await;
        let socket = accepted.and_then(|(socket, _)| {
            socket.set_nonblocking(true)?;
            descriptors.register(socket)
        });
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => {
                // One connection that fails, or too many of them, end no other.
                tremor_pdk::warn!(host, "cannot accept: {error}");
                host.sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Weak: tasks that kept the map would keep their own handles, and never end.
        let (own, parts) = (Arc::downgrade(&tasks), parts.clone());
        // Locked before the task starts: it may end at once, and then removes itself.
        let mut handles = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let task = host.spawn("reads", async move {
            read(&socket, stream, &parts).await;
            if let Some(own) = own.upgrade() {
                own.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream);
            }
        });
        handles.insert(stream, task);
    }
}

/// Reads one connection to its end.
async fn read(socket: &Registered<TcpStream>, stream: u64, parts: &Sender<(u64, Part)>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let part = match socket.read_with(|mut socket| socket.read(&mut buffer)).await {
            Ok(0) => Part::End,
            Ok(count) => Part::Bytes(buffer[..count].to_vec()),
            Err(_) => Part::Abort,
        };
        let is_last = !matches!(part, Part::Bytes(_));
        if parts.send((stream, part)).await.is_err() || is_last {
            return;
        }
    }
}

/// The source.
pub struct Connections {
    parts: Receiver<(u64, Part)>,
    _accepts: Task,
}

impl Source for Connections {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        let Ok(mut next) = self.parts.recv().await else {
            return Err(Error::connection_lost("the listener is gone"));
        };
        loop {
            match next {
                (stream, Part::Bytes(bytes)) => batch.stream(stream).push_fragment(&bytes),
                (stream, Part::End) => batch.stream(stream).end(),
                (stream, Part::Abort) => batch.stream(stream).abort(),
            }
            if batch.is_full() {
                return Ok(Pull::Events);
            }
            let Ok(more) = self.parts.try_recv() else { return Ok(Pull::Events) };
            next = more;
        }
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
    fn each_connection_is_a_stream_that_ends_with_it() -> Result<()> {
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
    fn a_source_that_is_dropped_closes_its_connections() -> Result<()> {
        let host = TestHost::new();
        let mut listen = host.connect::<Listen>(r#"{ "listen": "127.0.0.1:0" }"#)?;
        let log = host.log();
        let mut client = TcpStream::connect(log[0].1.trim_start_matches("listens on "))?;
        client.write_all(b"one")?;
        let (_, batch) = listen.pull()?;
        assert_eq!(batch.iter().next().and_then(EventRef::raw), Some(&b"one"[..]));
        listen.stop()?;
        // What the host drops, it drops when it comes to it.
        host.block_on(host.host().sleep(Duration::from_millis(1)));
        assert_eq!(client.read(&mut [0; 8])?, 0, "the other side is closed");
        Ok(())
    }
}
