//! A proxy to a broker whose connections can be cut, delayed and silenced.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

/// Treatment of the bytes between client and broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Bytes pass.
    Open,
    /// Bytes pass after a delay, in milliseconds.
    Slow(u64),
    /// Bytes wait in the proxy and connections stay open, so that the broker seems to be alive.
    Silent,
    /// Open connections and new ones are closed.
    Cut,
}

/// A proxy that runs until the test ends.
#[derive(Clone)]
pub struct Proxy(Arc<Shared>);

struct Shared {
    port: u16,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    way: Way,
    to: Option<SocketAddr>,
    streams: Vec<TcpStream>,
}

impl Default for Proxy {
    fn default() -> Self {
        Self::new()
    }
}

impl Proxy {
    /// Starts a proxy that does not have the address of a broker yet.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Mutex::new(State { way: Way::Cut, to: None, streams: Vec::new() });
        let proxy = Self(Arc::new(Shared { port, state, changed: Condvar::new() }));
        let own = proxy.clone();
        thread::spawn(move || listener.incoming().flatten().for_each(|it| own.accept(&it)));
        proxy
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.0.port)
    }

    /// Sets the address of the broker for new connections.
    pub fn lead_to(&self, address: &str) {
        self.0.state.lock().unwrap().to = Some(address.parse().unwrap());
        self.set(Way::Open);
    }

    /// Sets the treatment of bytes.
    pub fn set(&self, way: Way) {
        let mut state = self.0.state.lock().unwrap();
        state.way = way;
        if way == Way::Cut {
            for stream in state.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.0.changed.notify_all();
    }

    fn accept(&self, client: &TcpStream) {
        let mut state = self.0.state.lock().unwrap();
        let Some(to) = state.to.filter(|_| state.way != Way::Cut) else { return };
        let Ok(broker) = TcpStream::connect(to) else { return };
        for (from, to) in [(client, &broker), (&broker, client)] {
            state.streams.push(from.try_clone().unwrap());
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let own = self.clone();
            thread::spawn(move || own.copy(from, to));
        }
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count) = from.read(&mut bytes) {
            let mut state = self.0.state.lock().unwrap();
            while state.way == Way::Silent {
                state = self.0.changed.wait(state).unwrap();
            }
            let way = state.way;
            drop(state);
            if let Way::Slow(milliseconds) = way {
                thread::sleep(Duration::from_millis(milliseconds));
            }
            if count == 0 || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
