//! Clients of an HTTP server, each of which sends numbered lines until they are accepted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::poster::Poster;

/// Maximum time for an answer. After that, the line is sent again on another connection.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after an attempt that failed.
const PAUSE: Duration = Duration::from_millis(20);

/// Clients, which send lines until they are stopped.
pub(super) struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Address of the server, which changes when the server is restarted.
    address: Mutex<String>,
    /// Number of the next line.
    next: AtomicU64,
    stops: AtomicBool,
    answers: Mutex<Answers>,
}

/// Times of answers that accept a line.
#[derive(Clone, Copy, Default)]
pub(super) struct Answers {
    pub(super) count: u64,
    /// Time of the first answer since the last call of [`Clients::restart_time`].
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    /// Starts `count` clients, whose lines have `len` bytes.
    pub(super) fn start(count: usize, address: String, len: usize) -> Self {
        let shared = Arc::new(Shared {
            address: Mutex::new(address),
            next: AtomicU64::new(0),
            stops: AtomicBool::new(false),
            answers: Mutex::default(),
        });
        let start = |_| {
            let shared = shared.clone();
            thread::spawn(move || shared.run(len))
        };
        let threads = (0..count).map(start).collect();
        Self { shared, threads }
    }

    /// Sets the address of a server that was restarted.
    pub(super) fn turn_to(&self, address: String) {
        *lock(&self.shared.address) = address;
    }

    pub(super) fn answers(&self) -> Answers {
        *lock(&self.shared.answers)
    }

    /// Forgets the time of the first answer.
    pub(super) fn restart_time(&self) {
        lock(&self.shared.answers).first = None;
    }

    /// Waits until the last line of each client is accepted, and returns the number of lines.
    ///
    /// # Errors
    /// A client has panicked.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.shared.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| anyhow!("a client has panicked"))?;
        }
        Ok(self.shared.next.load(Ordering::Relaxed))
    }
}

impl Drop for Clients {
    /// Makes the threads end, which otherwise would send their lines for ever.
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        lock(&self.shared.address).clear();
    }
}

impl Shared {
    fn run(&self, len: usize) {
        let mut poster = Poster::new(TIMEOUT);
        while !self.stops.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let mark = format!("#{number}#");
            let line = format!("{mark}{}", ".".repeat(len - mark.len()));
            loop {
                let address = lock(&self.address).clone();
                match address.as_str() {
                    "" => return,
                    address if poster.send(address, &line).unwrap_or(false) => break,
                    _ => thread::sleep(PAUSE),
                }
            }
            let now = Instant::now();
            let mut answers = lock(&self.answers);
            answers.count += 1;
            answers.first = answers.first.or(Some(now));
            answers.last = Some(now);
        }
    }
}
