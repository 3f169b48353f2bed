//! Interrupts of tasks by a phase of the flow or by the loss of a connection.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
};

use crate::engine::{
    control::{Control, Phase, Reached, ends::GivesUp},
    handle::connection::{Broken, Connection},
};

/// The conditions that interrupt the work of a task.
pub(crate) struct Interrupt<'t> {
    control: &'t Control,
    phase: Phase,
    reached: Reached<'t>,
    connection: Option<(&'t Connection, Broken<'t>)>,
    /// Name of the connector whose sink has to give up what it has, if that interrupts the work.
    gives_up: Option<(&'t str, GivesUp<'t>)>,
}

/// The condition that ended the work of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The flow has reached the phase, or the sink has to give up what it has.
    Phase,
    /// The connection is broken.
    Broken,
}

impl<'t> Interrupt<'t> {
    /// Creates an interrupt that occurs when the flow reaches `phase`, or when `connection` breaks.
    pub(crate) fn new(
        control: &'t Control,
        phase: Phase,
        connection: Option<&'t Connection>,
    ) -> Self {
        let connection = connection.map(|it| (it, it.broken()));
        let reached = control.reached(phase);
        Self { control, phase, reached, connection, gives_up: None }
    }

    /// Lets the interrupt also occur once the sink of `connector` has to give up what it has.
    pub(crate) fn or_given_up(self, connector: &'t str) -> Self {
        Self { gives_up: Some((connector, self.control.gives_up())), ..self }
    }

    /// Returns the cause if the interrupt has occurred. Does not wait.
    pub(crate) fn now(&self) -> Option<Cause> {
        let has_given_up = |(name, _): &(&str, _)| self.control.has_given_up(name);
        if self.control.has_reached(self.phase) || self.gives_up.as_ref().is_some_and(has_given_up)
        {
            return Some(Cause::Phase);
        }
        let (connection, _) = self.connection.as_ref()?;
        connection.is_broken().then_some(Cause::Broken)
    }

    /// Completes once the interrupt has occurred. May be polled again after that.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<Cause> {
        if self.reached.poll(context).is_ready() {
            return Poll::Ready(Cause::Phase);
        }
        if let Some((name, gives_up)) = &mut self.gives_up
            && gives_up.poll(context, name).is_ready()
        {
            return Poll::Ready(Cause::Phase);
        }
        match &mut self.connection {
            Some((_, broken)) => broken.poll(context).map(|()| Cause::Broken),
            None => Poll::Pending,
        }
    }

    /// Runs `work` and returns its result.
    ///
    /// # Errors
    /// Returns the cause if the interrupt occurs before `work` has completed.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Cause> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => self.poll(context).map(Err),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::{Cause, Interrupt};
    use crate::{
        engine::{
            control::{Control, Phase},
            handle::connection::Connection,
        },
        executor::block_on,
    };

    #[test]
    fn completed_work_takes_precedence_over_an_interrupt() {
        let (control, connection) =
            (Control::new(crate::clock::Clock::default()), Connection::default());
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
}
