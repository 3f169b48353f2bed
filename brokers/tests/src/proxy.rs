//! A way to a broker that can be cut, delayed and made silent.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They pass.
    Open,
    /// They pass after so many milliseconds.
    Slow(u64),
    /// They wait, and connections stay: the peer seems to be there.
    Silent,
    /// Connections are closed, and so is each new one.
    Cut,
}

/// It, until the test ends.
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
    /// One that knows no broker yet.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Mutex::new(State { way: Way::Cut, to: None, streams: Vec::new() });
        let proxy = Self(Arc::new(Shared { port, state, changed: Condvar::new() }));
        let own = proxy.clone();
        thread::spawn(move || listener.incoming().flatten().for_each(|it| own.accept(&it)));
        proxy
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.0.port)
    }

    /// From here on connections lead there.
    pub fn lead_to(&self, address: &str) {
        self.0.state.lock().unwrap().to = Some(address.parse().unwrap());
        self.set(Way::Open);
    }

    /// From here on that becomes of bytes.
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
