//! Interrupts of tasks: the end of the flow, and the loss of the connection.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
};

use crate::engine::{
    control::{Control, Phase, Reached},
    handle::connection::{Broken, Connection},
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
}
