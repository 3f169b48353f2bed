//! A proxy to a broker whose connections can be cut, delayed and silenced.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use crate::{Acceptor, PATIENCE};

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

/// A proxy that accepts connections until it is dropped.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    _acceptor: Arc<Acceptor>,
}

struct Shared {
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
        let state = Mutex::new(State { way: Way::Cut, to: None, streams: Vec::new() });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let own = shared.clone();
        let (acceptor, address) = Acceptor::tcp(move |client| own.accept(&client)).unwrap();
        Self { shared, address, _acceptor: Arc::new(acceptor) }
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sets the address of the broker for new connections.
    pub fn lead_to(&self, address: &str) {
        self.shared.state.lock().unwrap().to = Some(address.parse().unwrap());
        self.set(Way::Open);
    }

    /// Sets the treatment of bytes.
    pub fn set(&self, way: Way) {
        let mut state = self.shared.state.lock().unwrap();
        state.way = way;
        if way == Way::Cut {
            for stream in state.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, client: &TcpStream) {
        let mut state = self.state.lock().unwrap();
        let Some(to) = state.to.filter(|_| state.way != Way::Cut) else { return };
        let Ok(broker) = TcpStream::connect_timeout(&to, PATIENCE) else { return };
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
            let mut state = self.state.lock().unwrap();
            while state.way == Way::Silent {
                state = self.changed.wait(state).unwrap();
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
