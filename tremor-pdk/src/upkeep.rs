//! Periodic work on the state of a component, whether or not the component is called.

use std::{
    future::{Future, pending, poll_fn},
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use crate::{Error, Host, Result, Task, lock};

/// State that a component shares with a task, which works on the state periodically. Created by [`Host::upkeep`].
///
/// A source is not pulled while it is paused, while a sink is down, and while too many of its events are in flight. Use
/// this type for work that must not wait until then, such as metrics that describe the input, and input that would be
/// lost if the source does not look for it in time.
///
/// Either the task or one call of the component uses the state at a time. A call takes the state with
/// [`hold`](Upkeep::hold). The task does not wait for the state: while a call holds it, the task omits its work. Therefore
/// a call that holds the state for a long time has to do the work itself.
///
/// Dropping this value ends the task and drops the state, or as soon as the current user returns the state.
///
/// ```
/// # use std::{collections::VecDeque, time::Duration};
/// # use tremor_pdk::{Held, Upkeep, prelude::*, testing::TestHost};
/// # struct Inbox(VecDeque<u64>);
/// # impl Inbox { fn waiting(&self) -> usize { self.0.len() } }
/// struct Letters {
///     inbox: Upkeep<Inbox>,
/// }
///
/// impl Letters {
///     fn start(host: &Host, inbox: Inbox) -> Self {
///         let waiting = host.gauge("letters", "Letters that were not read.");
///         let inbox = host.upkeep("letters", Duration::from_secs(1), inbox, move |inbox| {
///             waiting.set_integer(inbox.waiting() as u64);
///             Ok(())
///         });
///         Self { inbox }
///     }
/// }
///
/// impl Source for Letters {
///     type Batch = StructuredBatch;
///
///     async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
///         let mut inbox = self.inbox.hold().await?;
///         let Some(letter) = inbox.0.pop_front() else {
///             return Ok(Pull::Idle(Duration::from_secs(1)));
///         };
///         batch.push(&letter)?;
///         Ok(Pull::Events)
///     }
/// }
///
/// let test = TestHost::new();
/// let mut source = Letters::start(&test.host(), Inbox(VecDeque::from([7, 8, 9])));
/// // The source is not pulled, but its gauge is set.
/// test.block_on(test.host().sleep(Duration::from_secs(2)));
/// assert_eq!(test.metric("letters"), Some(3.0));
/// # assert_eq!(test.block_on(source.pull(&mut StructuredBatch::new())), Ok(Pull::Events));
/// ```
pub struct Upkeep<T> {
    shared: Arc<Shared<T>>,
    _task: Task,
}

/// The state of an [`Upkeep`] while a call uses it. Dropping this value returns the state.
///
/// The value can be moved into [`Host::blocking`].
pub struct Held<T> {
    shared: Arc<Shared<T>>,
    /// `None` only while the value is dropped.
    state: Option<State<T>>,
}

shows!(Upkeep<T>, Held<T>);

type Work<T> = Box<dyn FnMut(&mut T) -> Result<()> + Send>;

/// The state, and the work on it.
type State<T> = Box<(T, Work<T>)>;

struct Shared<T>(Mutex<Slot<T>>);

struct Slot<T> {
    /// `None` while the state is held.
    state: Option<State<T>>,
    /// `true` if a user of the state has panicked, so that the state may be inconsistent.
    is_poisoned: bool,
    /// `true` once the [`Upkeep`] was dropped.
    is_over: bool,
    /// Calls that wait for the state.
    waiting: Vec<Waker>,
}

impl Host {
    /// Starts a task that calls `work` with `state` once in each `interval`, first after one `interval`, until the
    /// returned value is dropped.
    ///
    /// The task runs in any case: while the component is paused, while a sink is down, and while no call of the component
    /// is made. `work` may block, because it runs on a thread for [blocking work](Host::blocking).
    ///
    /// If `work` fails, the error is logged, the state of the connector shows it as the [problem](crate::Problem)
    /// `name`, and the task calls `work` again after `interval`. If `work` panics, the panic is reported in the same
    /// way, the task ends, and [`Upkeep::hold`] fails.
    ///
    /// A constructor must not call this method, because a constructor must not start a task.
    pub fn upkeep<T: Send + 'static>(
        &self,
        name: &str,
        interval: Duration,
        state: T,
        work: impl FnMut(&mut T) -> Result<()> + Send + 'static,
    ) -> Upkeep<T> {
        let state: State<T> = Box::new((state, Box::new(work)));
        let slot =
            Slot { state: Some(state), is_poisoned: false, is_over: false, waiting: Vec::new() };
        let shared = Arc::new(Shared(Mutex::new(slot)));
        let task = run(self.clone(), name.to_owned(), interval, shared.clone());
        Upkeep { shared, _task: self.spawn(name, task) }
    }
}

/// Works on the state once in each `interval`.
async fn run<T: Send + 'static>(
    host: Host,
    name: String,
    interval: Duration,
    shared: Arc<Shared<T>>,
) {
    let problem = host.problem(&name);
    let mut failed = None;
    loop {
        host.sleep(interval).await;
        let Ok(held) = try_hold(&shared) else {
            // A call of the component has panicked, and the runtime has reported the panic.
            return;
        };
        let Some(mut held) = held else { continue };
        let worked = host.blocking(move || {
            let (state, work) = held.parts();
            work(state)
        });
        let result = worked.await.and_then(|result| result);
        if lock(&shared.0).is_poisoned {
            let result = result.map_err(|error| error.context(format!("cannot work on `{name}`")));
            if let Err(error) = &result {
                error!(host, "{error}; the work is not repeated: restart the connector");
            }
            problem.update(&result);
            // The problem exists until the connector is restarted.
            return pending().await;
        }
        problem.update(&result);
        match &result {
            Err(error) if failed.as_ref() != Some(error) => {
                warn!(host, "{name}: {error}; retrying");
            }
            Ok(()) if failed.is_some() => info!(host, "{name}: works again"),
            _ => {}
        }
        failed = result.err();
    }
}

impl<T> Upkeep<T> {
    /// Waits until the state is not used, and takes it.
    ///
    /// # Errors
    /// Returns an error of the kind panicked if `work` or an earlier call has panicked while it used the state.
    pub fn hold(&self) -> impl Future<Output = Result<Held<T>>> + Send + use<T>
    where
        T: Send,
    {
        let shared = self.shared.clone();
        poll_fn(move |context| poll_hold(&shared, context))
    }

    /// Takes the state, or returns `None` if the state is used at the moment.
    ///
    /// # Errors
    /// Returns the errors of [`Upkeep::hold`].
    pub fn try_hold(&self) -> Result<Option<Held<T>>> {
        try_hold(&self.shared)
    }
}

impl<T> Drop for Upkeep<T> {
    fn drop(&mut self) {
        let state = {
            let mut slot = lock(&self.shared.0);
            slot.is_over = true;
            slot.state.take()
        };
        // The executor drops the task, which has a reference to `shared`, only later.
        drop(state);
    }
}

fn poll_hold<T>(shared: &Arc<Shared<T>>, context: &Context<'_>) -> Poll<Result<Held<T>>> {
    let mut slot = lock(&shared.0);
    match take(shared, &mut slot) {
        Ok(None) => {
            if !slot.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                slot.waiting.push(context.waker().clone());
            }
            Poll::Pending
        }
        Ok(Some(held)) => Poll::Ready(Ok(held)),
        Err(error) => Poll::Ready(Err(error)),
    }
}

fn try_hold<T>(shared: &Arc<Shared<T>>) -> Result<Option<Held<T>>> {
    take(shared, &mut lock(&shared.0))
}

fn take<T>(shared: &Arc<Shared<T>>, slot: &mut Slot<T>) -> Result<Option<Held<T>>> {
    if slot.is_poisoned {
        return Err(Error::panicked("cannot use the state: an earlier use of it has panicked"));
    }
    let state = slot.state.take();
    Ok(state.map(|state| Held { shared: shared.clone(), state: Some(state) }))
}

impl<T> Held<T> {
    fn parts(&mut self) -> (&mut T, &mut Work<T>) {
        let (state, work) = &mut **self.state.as_mut().expect("the state is held until the drop");
        (state, work)
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state.as_ref().expect("the state is held until the drop").0
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.parts().0
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        let waiting = {
            let mut slot = lock(&self.shared.0);
            if !slot.is_over {
                slot.state = self.state.take();
            }
            slot.is_poisoned |= thread::panicking();
            std::mem::take(&mut slot.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

    use super::{Held, Upkeep};
    use crate::{Error, ErrorKind, LogLevel, testing::TestHost};

    const SECOND: Duration = Duration::from_secs(1);

    /// Starts work that counts its calls.
    fn counting(test: &TestHost) -> Upkeep<u64> {
        test.host().upkeep("count", SECOND, 0, |count| {
            *count += 1;
            Ok(())
        })
    }

    fn pass(test: &TestHost, seconds: u32) {
        test.block_on(test.host().sleep(SECOND * seconds + SECOND / 2));
    }

    fn held<T: Send>(test: &TestHost, upkeep: &Upkeep<T>) -> Held<T> {
        test.block_on(upkeep.hold()).unwrap()
    }

    #[test]
    fn work_is_done_without_calls_until_handle_is_dropped() {
        let test = TestHost::new();
        let upkeep = counting(&test);
        pass(&test, 3);
        assert_eq!(*held(&test, &upkeep), 3);
        let shared = Arc::downgrade(&upkeep.shared);
        drop(upkeep);
        pass(&test, 1);
        assert!(shared.upgrade().is_none(), "the task has ended");
    }

    #[test]
    fn state_is_dropped_with_handle_or_returned_last() {
        let test = TestHost::new();
        for is_held in [false, true] {
            let state = Arc::new(());
            let upkeep = test.host().upkeep("state", SECOND, state.clone(), |_| Ok(()));
            let held = is_held.then(|| held(&test, &upkeep));
            drop(upkeep);
            assert_eq!(Arc::strong_count(&state), 1 + usize::from(is_held));
            drop(held);
            assert_eq!(Arc::strong_count(&state), 1);
        }
    }

    #[test]
    fn work_is_omitted_while_a_call_holds_the_state() {
        let test = TestHost::new();
        let upkeep = counting(&test);
        let state = held(&test, &upkeep);
        assert!(upkeep.try_hold().unwrap().is_none());
        pass(&test, 3);
        assert_eq!(*state, 0);
        drop(state);
        pass(&test, 2);
        assert_eq!(*held(&test, &upkeep), 2);
    }

    #[test]
    fn call_waits_until_the_state_is_returned() {
        let test = TestHost::new();
        let upkeep = counting(&test);
        let mut state = held(&test, &upkeep);
        let mut waits = pin!(upkeep.hold());
        assert!(matches!(test.poll_once(waits.as_mut()), Poll::Pending));
        let returned = test.host().blocking(move || {
            *state += 40;
            drop(state);
        });
        let state = test.block_on(waits).unwrap();
        assert_eq!(*state, 40);
        test.block_on(returned).unwrap();
    }

    #[test]
    fn error_of_work_is_a_problem_until_work_succeeds() {
        let test = TestHost::new();
        let upkeep = test.host().upkeep("files", SECOND, true, |fails| {
            if *fails { Err(Error::full("no space left on device")) } else { Ok(()) }
        });
        pass(&test, 3);
        assert!(test.problem("files").unwrap().contains("no space left on device"));
        *held(&test, &upkeep) = false;
        pass(&test, 1);
        assert_eq!(test.problem("files"), None);
        let log = test.log();
        let is_logged =
            |level, text: &str| log.iter().filter(|it| it.0 == level && it.1 == text).count();
        assert_eq!(is_logged(LogLevel::WARN, "files: no space left on device; retrying"), 1);
        assert_eq!(is_logged(LogLevel::INFO, "files: works again"), 1);
    }

    #[test]
    fn panic_of_work_is_a_problem_and_fails_calls() {
        let test = TestHost::new();
        let upkeep = test.host().upkeep("files", SECOND, (), |()| panic!("an index is wrong"));
        pass(&test, 3);
        assert!(test.problem("files").unwrap().contains("an index is wrong"));
        let error = test.block_on(upkeep.hold()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PANICKED);
        let errors = test.log().into_iter().filter(|(level, _)| *level == LogLevel::ERROR);
        assert_eq!(errors.count(), 1);
        drop(upkeep);
        pass(&test, 1);
        assert_eq!(test.problem("files"), None, "the problem ends with the task");
    }

    #[test]
    fn panic_of_call_ends_the_work() {
        let test = TestHost::new();
        let upkeep = counting(&test);
        let state = held(&test, &upkeep);
        let panics = test.host().blocking(move || {
            let _state = state;
            panic!("an index is wrong")
        });
        test.block_on(panics).unwrap_err();
        pass(&test, 2);
        assert!(upkeep.try_hold().is_err());
        assert_eq!(test.problem("count"), None);
    }
}
