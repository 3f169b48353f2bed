//! A test host for plugins, without a runtime and without threads. Enabled by the feature `testing`.
//!
//! Everything runs on the thread of the test, in a deterministic order. Blocking work runs when a future waits for it,
//! and the clock jumps to the next timer when there is nothing else to do. Therefore a test of a timer takes no time,
//! and a test of a cancelled call cancels the call at the same point every time. Real time passes only while a file
//! descriptor is awaited: see [`TestHost::set_patience`].
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
mod problem;
mod world;

use std::{
    future::Future,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};

/// Traits for tests that call a component directly and examine its batches and outputs.
pub use tremor_abi::batch::{HostBatch, HostOutput};
use tremor_abi::host::HostHandle;

#[cfg(feature = "template")]
pub use self::deliveries::batch_with_fields;
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

/// A host for tests. It runs the tasks of components, and records their log lines, metrics and requests. Clones refer
/// to the same host.
#[derive(Clone)]
pub struct TestHost(
    Arc<World>,
    #[expect(dead_code, reason = "dropping the guard drops the tasks")] Arc<TaskGuard>,
);

/// Drops the tasks of a host together with the last [`TestHost`]. Otherwise a task that captures a handle to the host
/// would keep the host alive and its descriptors open, although nothing polls the task.
struct TaskGuard(Arc<World>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut self.0.lock().tasks);
        drop(tasks);
    }
}

impl Default for TestHost {
    fn default() -> Self {
        let world = Arc::<World>::default();
        Self(world.clone(), Arc::new(TaskGuard(world)))
    }
}

impl TestHost {
    /// Creates a host whose clock is one second after the epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the host as components use it.
    pub fn host(&self) -> Host {
        self.context().into()
    }

    /// Returns the context with which components are created. The name of the component is `test`.
    pub fn context(&self) -> ComponentContext {
        ComponentContext::new("test", self.handle())
    }

    /// Returns the host as a handle of the ABI, for constructors of loaded libraries.
    pub fn handle(&self) -> HostHandle {
        functions::handle(&self.0)
    }

    /// Creates an instance of a component of any kind as a flow does. `config` is the configuration as JSON text.
    ///
    /// # Errors
    /// Returns the errors of the constructor, and of reading the configuration.
    pub fn component<T: Component>(&self, config: &str) -> Result<T> {
        let json: serde_json::Value = serde_json::from_str(config).map_err(Error::configuration)?;
        T::new(config::read(json)?, self.context())
    }

    /// Creates an instance of a connector, connects all its sides, and calls [`Connector::on_start`].
    ///
    /// # Errors
    /// Returns the errors of [`TestHost::component`], of connecting, and of starting.
    pub fn connect<C: Connector>(&self, config: &str) -> Result<Connection> {
        Connection::open(self.clone(), self.component::<C>(config)?)
    }

    /// Creates the preprocessor of a splitter as [`TestHost::component`] creates other components.
    ///
    /// # Errors
    /// Returns the errors of [`TestHost::component`].
    pub fn splitter<T: Component + StreamSplitter>(&self, config: &str) -> Result<Splitter<T>> {
        self.component::<Splitter<T>>(config)
    }

    /// Advances the clock to the time that [`Preprocessor::due`] returns, and calls [`Preprocessor::on_time`]. Returns
    /// the batch of that call, or an empty batch if `due` returns `None`.
    ///
    /// # Errors
    /// Returns the errors of the preprocessor, and the first error with which it rejected input.
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

    /// Creates and connects a source that is a component without a connector, as [`TestHost::connect`] does.
    ///
    /// # Errors
    /// Returns the errors of [`TestHost::component`].
    pub fn source<T: Component + Source>(&self, config: &str) -> Result<Connection> {
        self.connect::<Only<T, IsSource>>(config)
    }

    /// Creates and connects a sink that is a component without a connector, as [`TestHost::connect`] does.
    ///
    /// # Errors
    /// Returns the errors of [`TestHost::component`].
    pub fn sink<T: Component + Sink>(&self, config: &str) -> Result<Connection> {
        self.connect::<Only<T, IsSink>>(config)
    }

    /// Runs a future until it completes. Tasks and blocking work that components have started on the host run
    /// meanwhile.
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

    /// Polls a future once, without running tasks or blocking work. To test the cancellation of a future at its first
    /// `await` that waits, drop the future afterwards.
    pub fn poll_once<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut task::Context::from_waker(Waker::noop()))
    }

    /// Returns the time of the host's clock, in ns since the Unix epoch.
    pub fn now_ns(&self) -> u64 {
        self.0.lock().now_ns()
    }

    /// Returns the time of the host's monotonic clock, in ns. [`TestHost::advance`] changes this clock, and
    /// [`TestHost::set_now_ns`] does not.
    pub fn monotonic_ns(&self) -> u64 {
        self.0.lock().monotonic_ns
    }

    /// Advances both clocks by `time`.
    pub fn advance(&self, time: Duration) {
        let now = self.monotonic_ns();
        self.0.advance_to(now.saturating_add(world::nanoseconds(time)));
    }

    /// Sets the real time that the host waits for peers before it lets a timer end early. The default is one second.
    ///
    /// While a file descriptor is awaited, the clock of the host follows real time, so that the peer can answer before
    /// a timeout ends. If no awaited descriptor became ready for `patience`, the clock jumps to the next timer. With
    /// [`Duration::ZERO`], timers end as soon as no descriptor is ready.
    pub fn set_patience(&self, patience: Duration) {
        self.0.lock().patience = patience;
    }

    /// Prevents timers from ending early while a file descriptor is awaited. The clock then follows real time, and
    /// jumps only with [`TestHost::advance`].
    pub fn follow_real_time(&self) {
        self.set_patience(Duration::MAX);
    }

    /// Sets the clock, like a correction of the system clock. Timers are not affected.
    pub fn set_now_ns(&self, now_ns: u64) {
        self.0.lock().set_now_ns(now_ns);
    }

    /// Sets the folder from which relative paths of a configuration start. The default is the current folder of the
    /// test.
    pub fn set_folder(&self, folder: impl AsRef<Path>) {
        self.0.lock().folder = folder.as_ref().to_string_lossy().into_owned();
    }

    /// Returns the lines that were logged.
    pub fn log(&self) -> Vec<(LogLevel, String)> {
        self.0.lock().log.clone()
    }

    /// Returns the value of a metric: the sum of a counter, the last value of a gauge, or the number of observations
    /// of a histogram. `None` if there is no metric `name`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let state = self.0.lock();
        state.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }

    /// Returns the reasons of the requests to stop the run.
    pub fn stop_requests(&self) -> Vec<String> {
        self.0.lock().stop_requests.clone()
    }

    /// Sets the number of bytes of [memory](crate::Memory) that components may borrow together. The default is no
    /// limit.
    pub fn set_memory_limit(&self, bytes: usize) {
        self.0.lock().memory_limit = Some(bytes);
    }

    /// Returns the number of bytes of memory that components have borrowed.
    pub fn memory(&self) -> usize {
        self.0.lock().memory
    }

    /// Returns the number of times that a component reported its connection as lost.
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
    use std::{pin::pin, sync::Arc, time::Duration};

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
    fn dropped_host_drops_its_tasks() {
        let test = TestHost::new();
        let kept = Arc::new(());
        let captured = (kept.clone(), test.host());
        let _task = test.host().spawn("waits", async move {
            std::future::pending::<()>().await;
            drop(captured);
        });
        drop(test.clone());
        assert_eq!(Arc::strong_count(&kept), 2, "another handle polls the task");
        drop(test);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn work_of_a_task_runs_before_time_passes() {
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
    fn timers_end_in_order_and_on_time() {
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
    fn polled_work_can_be_awaited_later() {
        let test = TestHost::new();
        let host = test.host();
        let mut work = host.blocking(|| "done");
        assert!(test.poll_once(pin!(&mut work)).is_pending());
        assert_eq!(test.block_on(&mut work), Ok("done"));
    }

    #[test]
    fn panic_in_work_is_an_error() {
        let test = TestHost::new();
        let error = test.block_on(test.host().blocking(|| -> () { panic!("no") })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PANICKED);
    }

    #[test]
    fn tasks_run_alongside_the_test() {
        let test = TestHost::new();
        let host = test.host();
        let counter = host.counter("ticks", "number of ticks");
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
    fn follow_real_time_prevents_timers_from_ending_early() {
        let test = TestHost::new();
        test.follow_real_time();
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

    /// Waits for `readable` or for a timer, like a handshake with a timeout. Returns `true` if the descriptor was
    /// ready first.
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
    fn timer_ends_early_if_peer_is_silent() {
        let test = TestHost::new();
        test.set_patience(Duration::from_millis(1));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let start = test.monotonic_ns();
        assert!(!test.block_on(answers_within(&test.host(), &ours, HOUR)));
        assert!(u128::from(test.monotonic_ns() - start) >= HOUR.as_nanos());
    }

    #[cfg(unix)]
    #[test]
    fn timer_ends_in_real_time_with_awaited_descriptor() {
        let test = TestHost::new();
        test.follow_real_time();
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
    fn requests_to_the_host_are_recorded() {
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
