//! The time for which threads wait for a processor.
//!
//! A thread inside a call may wait because other programs keep all processors busy. Its call is not slow, and neither
//! another thread nor a restart of its component would help. So the watchdog counts a sample only once the thread has
//! been on a processor, or has slept, for the time between two samples.

use std::{cell::Cell, collections::HashMap, fs, time::Duration};

use super::PERIOD;

thread_local! {
    /// Number of this thread in the system, or 0 before the first use.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of this thread in the system.
pub(super) fn own_thread() -> u32 {
    THREAD.with(|it| {
        if it.get() == 0 {
            it.set(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        }
        it.get()
    })
}

/// State of a thread in the scheduler of the system.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scheduled {
    /// `true` if the thread runs, or waits for a processor.
    pub(super) is_runnable: bool,
    /// Time for which the thread was on a processor.
    pub(super) ran: Duration,
    /// Time for which the thread has waited for a processor. A wait that still lasts is not included.
    pub(super) waited: Duration,
}

impl Scheduled {
    /// Returns the state of a thread of this process. Returns `None` if the thread has ended, or the system does not
    /// report its state (`/proc/PID/task/TID/stat` and `schedstat`, whose first two numbers are in ns: see proc(5), and
    /// `Documentation/scheduler/sched-stats.rst` of Linux).
    fn of_system(thread: u32) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/task/{thread}/{name}")).ok();
        let (stat, times) = (read("stat")?, read("schedstat")?);
        // The name of the thread is in parentheses, and may contain any character.
        let state = stat.rsplit_once(')')?.1.trim_start();
        let mut times = times.split_ascii_whitespace().map_while(|it| it.parse().ok());
        let [ran, waited] = [times.next()?, times.next()?].map(Duration::from_nanos);
        // A system that does not account for the times reports zeros.
        let is_known = !ran.is_zero();
        is_known.then(|| Self { is_runnable: state.starts_with('R'), ran, waited })
    }

    /// Returns for how long the thread waited for a processor since the sample before, at which its state was `last`.
    fn waited_since(&self, last: &Self) -> Duration {
        let waited = self.waited.saturating_sub(last.waited);
        let unused = PERIOD.saturating_sub(self.ran.saturating_sub(last.ran));
        // A thread that is runnable now may have waited since the sample before.
        if self.is_runnable { unused } else { waited.min(PERIOD) }
    }
}

/// Observation of one thread.
struct Seen {
    /// Number of the sample.
    sample: u64,
    state: Scheduled,
    /// Time for which the thread was on a processor or slept, and that no counted sample has used yet.
    own: Duration,
    is_waiting: bool,
}

type Read = Box<dyn FnMut(u32) -> Option<Scheduled> + Send>;

/// The threads that were inside the same poll in the last samples.
pub(super) struct Waits {
    read: Read,
    sample: u64,
    threads: HashMap<u32, Seen>,
}

impl Waits {
    /// Returns the threads of this process.
    pub(super) fn of_system() -> Self {
        Self::new(Scheduled::of_system)
    }

    /// Returns threads whose states are what `read` returns for their numbers.
    pub(super) fn new(read: impl FnMut(u32) -> Option<Scheduled> + Send + 'static) -> Self {
        Self { read: Box::new(read), sample: 0, threads: HashMap::new() }
    }

    /// Begins the next sample.
    pub(super) fn next_sample(&mut self) {
        let last = self.sample;
        self.threads.retain(|_, seen| seen.sample == last);
        self.sample += 1;
    }

    /// Returns whether this sample does not count for the call of a thread, because the thread waits for a processor.
    /// The first sample of a thread always counts.
    pub(super) fn is_waiting(&mut self, thread: u32) -> bool {
        let last = self.threads.get(&thread);
        if let Some(seen) = last.filter(|it| it.sample == self.sample) {
            return seen.is_waiting;
        }
        let Some(state) = (self.read)(thread) else { return false };
        // The system updates the times with each tick of its clock, so the first counted sample leaves half a period.
        let (own, is_waiting) = last.map_or((PERIOD / 2, false), |last| {
            let own = last.own + PERIOD.saturating_sub(state.waited_since(&last.state));
            (own.checked_sub(PERIOD).unwrap_or(own), own < PERIOD)
        });
        self.threads.insert(thread, Seen { sample: self.sample, state, own, is_waiting });
        is_waiting
    }
}

#[cfg(test)]
mod tests {
    use std::{
        hint::spin_loop,
        sync::{
            Arc, Mutex,
            atomic::{AtomicBool, Ordering},
        },
        thread,
        time::Duration,
    };

    use super::{PERIOD, Scheduled, Waits, own_thread};

    /// Returns how many of `samples` count for a thread that is on a processor for `ran` between two samples, waits for
    /// one for `waited`, and sleeps for the rest. `is_runnable` is its state at each sample.
    fn counted(samples: usize, ran: Duration, waited: Duration, is_runnable: bool) -> usize {
        let mut state = Scheduled { is_runnable, ..Scheduled::default() };
        let mut waits = Waits::new(move |_| {
            state.ran += ran;
            state.waited += waited;
            Some(state)
        });
        let is_counted = |_: &usize| {
            waits.next_sample();
            !waits.is_waiting(1)
        };
        (0..samples).filter(is_counted).count()
    }

    #[test]
    fn sleeping_and_running_threads_are_counted_in_each_sample() {
        assert_eq!(counted(20, Duration::ZERO, Duration::ZERO, false), 20);
        assert_eq!(counted(20, PERIOD, Duration::ZERO, true), 20);
    }

    #[test]
    fn waits_for_a_processor_are_not_counted() {
        // The system adds a wait to the times only when it is over.
        assert_eq!(counted(20, Duration::ZERO, Duration::ZERO, true), 1);
        assert_eq!(counted(20, Duration::ZERO, PERIOD, false), 1);
        assert_eq!(counted(21, PERIOD / 4, Duration::ZERO, true), 6, "a quarter of 20 periods");
        assert_eq!(counted(21, PERIOD / 2, PERIOD / 2, false), 11, "half of 20 periods");
    }

    #[test]
    fn sample_of_a_thread_has_one_result() {
        let states = Arc::new(Mutex::new(Vec::new()));
        let own = states.clone();
        let mut waits = Waits::new(move |thread| {
            own.lock().unwrap().push(thread);
            Some(Scheduled { is_runnable: true, ..Scheduled::default() })
        });
        for is_waiting in [false, true] {
            waits.next_sample();
            assert_eq!([7, 7, 8, 8].map(|it| waits.is_waiting(it)), [is_waiting; 4]);
        }
        assert_eq!(*states.lock().unwrap(), [7, 8, 7, 8]);
    }

    #[test]
    fn thread_without_a_known_state_counts() {
        let mut waits = Waits::new(|_| None);
        waits.next_sample();
        assert!(!waits.is_waiting(1));
    }

    #[test]
    fn system_reports_running_and_sleeping_threads() {
        // The system may not have accounted for a thread yet that has just begun.
        let state = |thread: u32| {
            std::iter::repeat_with(|| Scheduled::of_system(thread)).flatten().next().unwrap()
        };
        assert!(state(own_thread()).is_runnable);
        let is_over = Arc::new(AtomicBool::new(false));
        let (spins, (sender, receiver)) = (is_over.clone(), std::sync::mpsc::channel());
        let spinning = thread::spawn(move || {
            sender.send(own_thread()).unwrap();
            while !spins.load(Ordering::Relaxed) {
                spin_loop();
            }
            thread::park();
        });
        let number = receiver.recv().unwrap();
        while state(number).ran < Duration::from_millis(1) {}
        is_over.store(true, Ordering::Relaxed);
        while state(number).is_runnable {}
        spinning.thread().unpark();
        spinning.join().unwrap();
    }
}
