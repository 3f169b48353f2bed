//! Cost of `tremor_pdk::tokio`: threads, memory, and a round trip to its thread and back.

use std::{
    fs,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use tremor_pdk::{testing::TestHost, tokio::Tokio};

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

fn status(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn main() {
    let test = TestHost::new();
    let (memory, threads) = (status("VmRSS"), status("Threads"));
    let started = Instant::now();
    let tokio = test.block_on(Tokio::start(&test.host())).unwrap();
    block_on(tokio.run(async {})).unwrap();
    println!("start_us {}", started.elapsed().as_micros());
    println!("threads {}", status("Threads") - threads);
    println!("rss_kib {}", status("VmRSS") - memory);
    for (name, rounds) in [("run", 20_000), ("within", 20_000), ("run_again", 20_000)] {
        let mut samples: Vec<u64> = (0..rounds)
            .map(|_| {
                let started = Instant::now();
                match name {
                    "within" => block_on(tokio.within(async {})),
                    _ => block_on(tokio.run(async {})).unwrap(),
                }
                u64::try_from(started.elapsed().as_nanos()).unwrap()
            })
            .collect();
        samples.sort_unstable();
        println!(
            "{name}_ns p50 {} p90 {} p99 {}",
            samples[rounds / 2],
            samples[rounds * 9 / 10],
            samples[rounds * 99 / 100]
        );
    }
}
