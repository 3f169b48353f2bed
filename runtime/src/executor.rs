//! The executor: the one place that knows async-std. Replacing it is a change in this file.
//! `docs/decisions/0002-async-std.md` says why it is what it is.

use std::{
    future::Future,
    io,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

/// Runs a future to its end on this thread, which helps with others meanwhile.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    async_std::task::block_on(future)
}

/// A task that runs on its own; awaiting it gives its result. Dropping it detaches it.
#[must_use = "a task that nobody waits for should be `detach`ed"]
pub struct Task<T>(async_std::task::JoinHandle<T>);

impl<T> Task<T> {
    /// Lets the task run without anybody waiting for it.
    pub fn detach(self) {}
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<T> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

/// Runs a future on the executor's threads, under a name that debuggers show.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    future: impl Future<Output = T> + Send + 'static,
) -> Task<T> {
    let builder = async_std::task::Builder::new().name(name.into());
    match builder.spawn(future) {
        Ok(handle) => Task(handle),
        Err(error) => unreachable!("async-std starts tasks without asking anybody: {error}"),
    }
}

/// How many tasks may run at the same time.
pub fn processors() -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    // What the executor goes by.
    let threads = std::env::var("ASYNC_STD_THREAD_COUNT").ok();
    threads.and_then(|threads| threads.parse().ok()).map_or(available, |set| available.min(set))
}

/// Runs work that may block on a thread that is there for that.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    Task(async_std::task::spawn_blocking(work))
}

/// Waits.
pub async fn sleep(duration: Duration) {
    async_io::Timer::after(duration).await;
}

/// Waits until a point in time.
pub async fn sleep_until(deadline: Instant) {
    async_io::Timer::at(deadline).await;
}

/// The point in time after this duration, or after a day where it is longer: those who wait for it
/// look again.
pub fn after(duration: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
    Instant::now() + duration.min(LONGEST)
}

/// Waits until a read of the file descriptor would not block.
///
/// # Errors
/// Where the operating system cannot wait for this kind of file.
pub async fn readable(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    async_io::Async::new_nonblocking(descriptor)?.readable().await
}

/// Waits until a write to the file descriptor would not block.
///
/// # Errors
/// As [`readable`].
pub async fn writable(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    async_io::Async::new_nonblocking(descriptor)?.writable().await
}

/// Lets other tasks have their turn.
pub async fn yield_now() {
    async_std::task::yield_now().await;
}

/// The result of whichever future is ready first; the other is dropped.
pub async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|context| match one.as_mut().poll(context) {
        std::task::Poll::Pending => other.as_mut().poll(context),
        ready @ std::task::Poll::Ready(_) => ready,
    })
    .await
}
