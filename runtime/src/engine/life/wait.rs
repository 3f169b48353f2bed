//! What tasks wait for besides their work: that their flow ends, that their connection breaks, and times.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
    time::Instant,
};

use crate::{
    engine::life::{
        connection::{Broken, Connection},
        control::{Control, Phase, Reached},
    },
    executor,
};

/// What ends the work of a task wherever it is.
pub(crate) struct Interrupt<'t> {
    control: &'t Control,
    phase: Phase,
    reached: Reached<'t>,
    connection: Option<(&'t Connection, Broken<'t>)>,
}

/// What has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The flow is in the phase, or in a later one.
    Phase,
    /// The connection is broken.
    Broken,
}

impl<'t> Interrupt<'t> {
    /// Ends work when the flow is in `phase`, or when the connection breaks.
    pub(crate) fn new(
        control: &'t Control,
        phase: Phase,
        connection: Option<&'t Connection>,
    ) -> Self {
        let connection = connection.map(|it| (it, it.broken()));
        Self { control, phase, reached: control.reached(phase), connection }
    }

    /// Whether work has to end now, without a wait for it.
    pub(crate) fn now(&self) -> Option<Cause> {
        if self.control.has_reached(self.phase) {
            return Some(Cause::Phase);
        }
        let (connection, _) = self.connection.as_ref()?;
        connection.is_broken().then_some(Cause::Broken)
    }

    /// Ready once work has to end, however often it is asked.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<Cause> {
        if self.reached.poll(context).is_ready() {
            return Poll::Ready(Cause::Phase);
        }
        match &mut self.connection {
            Some((_, broken)) => broken.poll(context).map(|()| Cause::Broken),
            None => Poll::Pending,
        }
    }

    /// The result of `work`.
    ///
    /// # Errors
    /// Work had to end before that, for this reason.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Cause> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => self.poll(context).map(Err),
        })
        .await
    }
}

/// Times that a task waits for, the earliest of several at once.
#[derive(Debug, Default)]
pub(crate) struct Alarm(executor::Alarm);

impl Alarm {
    /// Ready with the name of the earliest time once that has come; of two that are the same, the first.
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
        future::{pending, poll_fn, ready},
        time::{Duration, Instant},
    };

    use super::{Alarm, Cause, Interrupt};
    use crate::{
        engine::life::{
            connection::Connection,
            control::{Control, Phase},
        },
        executor::block_on,
    };

    #[test]
    fn work_that_is_done_counts_even_where_it_had_to_end() {
        let (control, connection) = (Control::new(), Connection::default());
        let mut interrupt = Interrupt::new(&control, Phase::Draining, Some(&connection));
        assert_eq!((interrupt.now(), block_on(interrupt.or(ready(1)))), (None, Ok(1)));
        connection.break_off();
        assert_eq!(interrupt.now(), Some(Cause::Broken));
        assert_eq!(block_on(interrupt.or(ready(1))), Ok(1));
        assert_eq!(block_on(interrupt.or(pending::<()>())), Err(Cause::Broken));
        control.advance(Phase::Stopped);
        assert_eq!(interrupt.now(), Some(Cause::Phase));
        assert_eq!(block_on(interrupt.or(pending::<()>())), Err(Cause::Phase));
    }

    #[test]
    fn the_earliest_time_comes_first_and_a_later_one_when_it_is_asked_for() {
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
