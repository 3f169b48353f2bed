//! What the tasks of a flow share to begin, go on and end: phases, connections, waits, what the log says.

pub(crate) mod backoff;
pub(crate) mod breaker;
pub(crate) mod buffers;
pub(crate) mod connection;
pub(crate) mod control;
pub(crate) mod gate;
pub(crate) mod gauge;
pub(crate) mod last_call;
pub(crate) mod losses;
pub(crate) mod notices;
pub(crate) mod overrun;
pub(crate) mod queues;
pub(crate) mod series;
pub(crate) mod standing;
pub(crate) mod turn;
pub(crate) mod wait;
pub(crate) mod wakers;
pub(crate) mod watch;
