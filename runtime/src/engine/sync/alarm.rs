//! A timer for tasks that wait for one of several times.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use crate::executor;

/// A timer that completes at the earliest of several times.
#[derive(Debug, Default)]
pub(crate) struct Alarm(executor::Alarm);

impl Alarm {
    /// Completes with the name of the earliest time once that time is reached. If several times are equal, the first
    /// entry counts. Entries without a time are ignored.
    pub(crate) fn poll<N: Copy, const COUNT: usize>(
        &mut self,
        context: &mut Context<'_>,
        times: [(Option<Instant>, N); COUNT],
    ) -> Poll<N> {
        let times = times.into_iter().filter_map(|(at, name)| Some((at?, name)));
        match times.min_by_key(|(at, _)| *at) {
            Some((at, name)) => self.0.poll(context, at).map(|()| name),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        time::{Duration, Instant},
    };

    use super::Alarm;
    use crate::executor::block_on;

    #[test]
    fn earliest_time_is_due_first() {
        let (mut alarm, now) = (Alarm::default(), Instant::now());
        let soon = now + Duration::from_millis(1);
        let times = |first| [(first, "first"), (None, "never"), (Some(soon), "soon")];
        let mut next = |first| block_on(poll_fn(|context| alarm.poll(context, times(first))));
        assert_eq!(next(Some(now)), "first");
        assert_eq!(next(Some(soon)), "first");
        assert_eq!(next(None), "soon");
        assert_eq!(next(Some(now)), "first");
    }
}
