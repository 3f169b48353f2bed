//! A host for the tests of plugins: no runtime and no threads. Behind the feature `testing`.
//!
//! Everything happens on the test's own thread, in one order: blocking work runs when a future
//! waits for it, and the clock jumps to the next timer when there is nothing else to do. So a test of a timer takes
//! no time, and a test of a cancelled call cancels it at the same point every time. While something waits for a file
//! descriptor, real time passes: see [`TestHost::set_patience`].
//!
//! ```
//! # use tremor_pdk::{NoSink, prelude::*};
//! # #[tremor_pdk::config]
//! # struct Config { count: u64 }
//! # struct Count(u64);
//! # impl Component for Count {
//! #     const NAME: &str = "count";
//! #     type Config = Config;
//! #     fn new(config: Config, _context: ComponentContext) -> Result<Self> { Ok(Self(config.count)) }
//! # }
//! # impl Connector for Count {
//! #     type Source = Numbers;
//! #     type Sink = NoSink;
//! #     async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Numbers, NoSink>> {
//! #         Ok(Halves::source(Numbers(0..self.0)))
//! #     }
//! # }
//! # struct Numbers(std::ops::Range<u64>);
//! # impl Source for Numbers {
//! #     type Batch = StructuredBatch;
//! #     async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
//! #         while let Some(number) = self.0.next() { batch.push(&number)?; }
//! #         Ok(Pull::Finished)
//! #     }
//! # }
//! use tremor_pdk::testing::TestHost;
//!
//! let host = TestHost::new();
//! let mut count = host.connect::<Count>(r#"{ "count": 3 }"#)?;
//! let batches = count.pull_all()?;
//! assert_eq!(batches[0].len(), 3);
//! # Ok::<_, Error>(())
//! ```

#[cfg(feature = "testing-tls")]
pub mod certificates;
mod codec;
pub mod conformance;
mod connection;
mod deliveries;
mod descriptors;
mod functions;
mod world;

use std::{
    future::Future,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};

/// Methods for tests that call a component themselves and examine its batches and outputs.
pub use tremor_abi::batch::{HostBatch, HostOutput};
use tremor_abi::host::HostHandle;

use self::world::World;
pub use self::{
    codec::{decode, encode},
    connection::Connection,
    deliveries::{batch_of, batch_with_metadata, exceptions},
};
use crate::{
    Batch, Component, ComponentContext, Connector, Error, Host, LogLevel, Output, Preprocessor,
    Result, Sink, Source, Splitter, StreamSplitter, config,
    only::{IsSink, IsSource, Only},
};

/// A host that does nothing by itself and remembers what it was asked for. Clones are handles to
/// one host.
#[derive(Clone, Default)]
pub struct TestHost(Arc<World>);

impl TestHost {
    /// A host whose clock stands at one second past the epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a component asks the host for things with.
    pub fn host(&self) -> Host {
        self.context().into()
    }

    /// What a component is made with. Its name is `test`.
    pub fn context(&self) -> ComponentContext {
        ComponentContext::new("test", self.handle())
    }

    /// The same as it crosses the boundary, for what makes components of loaded libraries.
    pub fn handle(&self) -> HostHandle {
        functions::handle(&self.0)
    }

    /// An instance of a component of any kind, with the configuration as JSON text: made as for a flow.
    ///
    /// # Errors
    /// Those of the constructor, and of reading the configuration.
    pub fn component<T: Component>(&self, config: &str) -> Result<T> {
        let json: serde_json::Value = serde_json::from_str(config).map_err(Error::configuration)?;
        T::new(config::read(json)?, self.context())
    }

    /// An instance of a connector, connected and started, with all sides that it has.
    ///
    /// # Errors
    /// As [`TestHost::component`], and those of connecting and starting.
    pub fn connect<C: Connector>(&self, config: &str) -> Result<Connection> {
        Connection::open(self.clone(), self.component::<C>(config)?)
    }

    /// Makes the preprocessor of a splitter as [`TestHost::component`] makes other components.
    ///
    /// # Errors
    /// The errors of [`TestHost::component`].
    pub fn splitter<T: Component + StreamSplitter>(&self, config: &str) -> Result<Splitter<T>> {
        self.component::<Splitter<T>>(config)
    }

    /// Advances the clock to the time that `preprocessor` asks for, and calls [`Preprocessor::on_time`]. Returns the
    /// batch of that call: an empty one if the preprocessor does not ask for a time.
    ///
    /// # Errors
    /// The errors of the preprocessor, and the first one that it rejected something with.
    pub fn pass_time(&self, preprocessor: &mut impl Preprocessor) -> Result<Batch> {
        let (mut batch, mut output) = (Batch::new(), Output::new());
        if let Some(due) = preprocessor.due() {
            self.0.advance_to(due);
            preprocessor.on_time(self.monotonic_ns(), &mut batch, &mut output)?;
        }
        match output.take_rejected().into_iter().next() {
            Some(rejected) => Err(rejected.error),
            None => Ok(batch),
        }
    }

    /// As [`TestHost::connect`], for a source that is a component by itself.
    ///
    /// # Errors
    /// The errors of [`TestHost::component`].
    pub fn source<T: Component + Source>(&self, config: &str) -> Result<Connection> {
        self.connect::<Only<T, IsSource>>(config)
    }

    /// As [`TestHost::connect`], for a sink that is a component by itself.
    ///
    /// # Errors
    /// The errors of [`TestHost::component`].
    pub fn sink<T: Component + Sink>(&self, config: &str) -> Result<Connection> {
        self.connect::<Only<T, IsSink>>(config)
    }

    /// Runs a future to its end, and with it the tasks that it asks the host for.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = world::Wakeup::new();
        loop {
            let woken = Waker::from(waker.clone());
            if let Poll::Ready(output) =
                future.as_mut().poll(&mut task::Context::from_waker(&woken))
            {
                return output;
            }
            self.0.step(&waker, None);
        }
    }

    /// Polls a future once, and does nothing of what it asks the host for: dropped after that, it
    /// has been cancelled at its first wait.
    pub fn poll_once<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut task::Context::from_waker(Waker::noop()))
    }

    /// The host's clock, in ns since the Unix epoch.
    pub fn now_ns(&self) -> u64 {
        self.0.lock().now_ns()
    }

    /// Returns the host's monotonic clock, in ns. [`TestHost::advance`] moves it, and
    /// [`TestHost::set_now_ns`] does not.
    pub fn monotonic_ns(&self) -> u64 {
        self.0.lock().monotonic_ns
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let now = self.monotonic_ns();
        self.0.advance_to(now.saturating_add(world::nanoseconds(time)));
    }

    /// Sets how long real peers may stay silent, in real time, before a timer ends early. One second unless set.
    ///
    /// While something waits for a file descriptor, the host's clock follows real time, so that a peer has time to
    /// answer: a timeout of five seconds does not end before a server has answered within two milliseconds. If no
    /// awaited descriptor became ready for `patience`, the clock jumps to the next timer. With
    /// [`Duration::ZERO`], timers end as soon as no descriptor is ready.
    pub fn set_patience(&self, patience: Duration) {
        self.0.lock().patience = patience;
    }

    /// Lets no timer end early while something waits for a file descriptor: the clock follows real time then, and
    /// only [`TestHost::advance`] makes it jump.
    pub fn hold_time(&self) {
        self.set_patience(Duration::MAX);
    }

    /// Sets the clock, as a correction of the system's does: no timer is due by that.
    pub fn set_now_ns(&self, now_ns: u64) {
        self.0.lock().set_now_ns(now_ns);
    }

    /// Says which folder relative paths of a configuration start from. At first it is the one that
    /// the test runs in.
    pub fn set_folder(&self, folder: impl AsRef<Path>) {
        self.0.lock().folder = folder.as_ref().to_string_lossy().into_owned();
    }

    /// The lines that were logged.
    pub fn log(&self) -> Vec<(LogLevel, String)> {
        self.0.lock().log.clone()
    }

    /// What a metric stands at: the sum of a counter, the last value of a gauge, the number of
    /// observations of a histogram.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let state = self.0.lock();
        state.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }

    /// The reasons for which the run was to be stopped.
    pub fn stop_requests(&self) -> Vec<String> {
        self.0.lock().stop_requests.clone()
    }

    /// Sets how many bytes of [memory](crate::Memory) components may borrow together; without a call, any number.
    pub fn set_memory_limit(&self, bytes: usize) {
        self.0.lock().memory_limit = Some(bytes);
    }

    /// Returns the number of bytes that components have borrowed.
    pub fn memory(&self) -> usize {
        self.0.lock().memory
    }

    /// How often the connection was reported lost.
    pub fn connections_lost(&self) -> u64 {
        self.0.lock().connections_lost
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::{
        future::{Future, poll_fn},
        io::{Read, Write},
        os::unix::net::UnixStream,
        task::Poll,
        thread,
    };
    use std::{pin::pin, time::Duration};

    use super::TestHost;
    #[cfg(unix)]
    use crate::Host;
    use crate::{ErrorKind, LogLevel};

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn time_passes_only_when_there_is_nothing_else_to_do() {
        let test = TestHost::new();
        let host = test.host();
        let start = test.now_ns();
        let worked = test.block_on(async {
            let worked = host.blocking(|| 7).await;
            assert_eq!(host.now_ns(), start);
            host.sleep(HOUR).await;
            worked
        });
        assert_eq!(worked, Ok(7));
        assert_eq!(u128::from(test.now_ns() - start), HOUR.as_nanos());
    }

    #[test]
    fn no_time_passes_before_work_that_a_task_has_asked_for() {
        let test = TestHost::new();
        let host = test.host();
        let counter = host.counter("worked", "");
        let works = host.clone();
        let _task = host.spawn("works", async move {
            works.blocking(|| ()).await.unwrap();
            assert_eq!(works.now_ns(), 1_000_000_000);
            counter.add(1);
        });
        test.block_on(host.sleep(HOUR));
        assert_eq!(test.metric("worked"), Some(1.0));
    }

    #[test]
    fn timers_end_in_their_order_and_not_before_their_time() {
        let test = TestHost::new();
        let host = test.host();
        let (mut long, mut short) = (pin!(host.sleep(2 * HOUR)), pin!(host.sleep(HOUR)));
        assert!(test.poll_once(long.as_mut()).is_pending());
        assert!(test.poll_once(short.as_mut()).is_pending());
        test.advance(HOUR);
        assert!(test.poll_once(long).is_pending());
        assert!(test.poll_once(short).is_ready());
    }

    #[test]
    fn a_polled_future_can_be_dropped_before_its_work_is_done() {
        let test = TestHost::new();
        let host = test.host();
        let mut work = host.blocking(|| "done");
        assert!(test.poll_once(pin!(&mut work)).is_pending());
        assert_eq!(test.block_on(&mut work), Ok("done"));
    }

    #[test]
    fn work_that_panics_is_an_error() {
        let test = TestHost::new();
        let error = test.block_on(test.host().blocking(|| -> () { panic!("no") })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PANICKED);
    }

    #[test]
    fn tasks_run_beside_the_test() {
        let test = TestHost::new();
        let host = test.host();
        let counter = host.counter("ticks", "how many ticks there were");
        let ticking = host.clone();
        let task = host.spawn("ticks", async move {
            for _ in 0..3 {
                ticking.sleep(HOUR).await;
                counter.add(1);
            }
        });
        test.block_on(host.sleep(2 * HOUR + HOUR / 2));
        assert_eq!(test.metric("ticks"), Some(2.0));
        drop(task);
        test.block_on(host.sleep(2 * HOUR));
        assert_eq!(test.metric("ticks"), Some(2.0), "a task ends with its handle");
    }

    #[cfg(unix)]
    #[test]
    fn where_time_is_held_no_timer_ends_before_a_peer_answers() {
        let test = TestHost::new();
        test.hold_time();
        let host = test.host();
        let (one, mut other) = UnixStream::pair().unwrap();
        let (waits, counter) = (host.clone(), host.counter("late", ""));
        let _task = host.spawn("waits", async move {
            waits.sleep(HOUR).await;
            counter.add(1);
        });
        let mut readable = pin!(host.readable(&one));
        let mut polls = 0;
        let answers = poll_fn(|context| {
            polls += 1;
            if polls == 3 {
                other.write_all(b"x").unwrap();
            }
            readable.as_mut().poll(context)
        });
        test.block_on(answers).unwrap();
        assert_eq!(test.metric("late"), Some(0.0));
        test.advance(HOUR);
        test.block_on(host.readable(&one)).unwrap();
        assert_eq!(test.metric("late"), Some(1.0));
    }

    /// Waits for `readable` or for a timer, as a handshake with a timeout does. Returns `true` for the descriptor.
    #[cfg(unix)]
    async fn answers_within(host: &Host, socket: &UnixStream, timeout: Duration) -> bool {
        let (mut readable, mut timer) = (pin!(host.readable(socket)), pin!(host.sleep(timeout)));
        poll_fn(|context| {
            if readable.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            timer.as_mut().poll(context).map(|()| false)
        })
        .await
    }

    #[cfg(unix)]
    #[test]
    fn peer_on_another_thread_answers_before_a_timeout() {
        let test = TestHost::new();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let peer = thread::spawn(move || {
            for _ in 0..20 {
                theirs.read_exact(&mut [0]).unwrap();
                theirs.write_all(b"y").unwrap();
            }
        });
        for _ in 0..20 {
            (&ours).write_all(b"x").unwrap();
            assert!(test.block_on(answers_within(&test.host(), &ours, Duration::from_secs(5))));
            (&ours).read_exact(&mut [0]).unwrap();
        }
        peer.join().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn timer_beside_silent_peer_ends_early() {
        let test = TestHost::new();
        test.set_patience(Duration::from_millis(1));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let start = test.monotonic_ns();
        assert!(!test.block_on(answers_within(&test.host(), &ours, HOUR)));
        assert!(u128::from(test.monotonic_ns() - start) >= HOUR.as_nanos());
    }

    #[cfg(unix)]
    #[test]
    fn timer_beside_awaited_descriptor_ends_in_real_time() {
        let test = TestHost::new();
        test.hold_time();
        let host = test.host();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let waits = host.clone();
        let _task = host.spawn("waits for a peer", async move {
            let _ = waits.readable(&ours).await;
        });
        let start = test.monotonic_ns();
        test.block_on(host.sleep(Duration::from_millis(5)));
        assert!(test.monotonic_ns() - start >= 5_000_000);
    }

    #[test]
    fn what_the_host_is_told_can_be_looked_up() {
        let test = TestHost::new();
        let host = test.host();
        warn!(host, "{} is off", "something");
        host.gauge("level", "").set(4.0);
        host.gauge("level", "").set(3.0);
        host.histogram("size", "").observe(9.0);
        host.connection_lost();
        host.request_stop("enough");
        assert_eq!(test.log(), [(LogLevel::WARN, "something is off".to_owned())]);
        assert_eq!((test.metric("level"), test.metric("size")), (Some(3.0), Some(1.0)));
        assert_eq!(test.connections_lost(), 1);
        assert_eq!(test.stop_requests(), ["enough"]);
    }
}
