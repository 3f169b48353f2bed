//! The source of a connector whose plugin runs in a process of its own.

use std::{
    ops::Range,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tremor_abi::{connector::EventRange, frame::MAX_EVENTS};
use tremor_pdk::{Acks, Batch, Error, Exception, InFlight, Pull, Result};

use super::{
    body::{AcksBody, RangeBody},
    kept::kept,
    link::Call,
    memory::PULLS,
    message::{Kind, Message, flags},
    process::Process,
};
use crate::{
    dynamic::{BoxFuture, DynSource},
    plugin::claims,
};

/// Maximum number of bytes that a pull is asked for. A frame has twice as many, for a message that exceeds the limit.
const MAX_BYTES: u32 = 32 << 20;

/// Maximum time for which a thread waits for the events of a pull that is cancelled.
const CANCEL: Duration = Duration::from_millis(100);

/// Maximum time of this wait while the flow drains, because no later pull would return the events.
const LAST_CANCEL: Duration = Duration::from_secs(5);

/// The source of one connection.
pub(super) struct IsolatedSource {
    process: Arc<Process>,
    acks: Option<AcksBody>,
    /// The pull that is not answered yet.
    pull: Option<Call>,
    /// Outcome of a pull that was cancelled when its answer had arrived. The next pull returns it.
    deferred: Option<Result<Pull>>,
}

impl IsolatedSource {
    pub(super) fn new(process: Arc<Process>, acks: Option<AcksBody>) -> Self {
        Self { process, acks, pull: None, deferred: None }
    }

    /// Sends PULL.
    fn begin(&self, batch: &Batch) -> Call {
        let limit = batch.limit();
        let events = u64::from(limit.events.max(1)).min(MAX_EVENTS as u64);
        let bytes = u64::from(limit.bytes.clamp(1, MAX_BYTES));
        let (a, b) = (batch.pull(), events << 32 | bytes);
        self.process.link.call(Message { a, b, slot: PULLS, ..Message::new(Kind::PULL) })
    }

    /// Moves the events of an answer to `batch`, and returns the outcome of the pull.
    fn end(&self, answer: Result<Message>, batch: &mut Batch) -> Result<Pull> {
        let answer = answer?;
        if answer.a > 0 {
            let read = self.process.link.memory.read(PULLS, answer.a)?;
            let (mut read, claims) = read;
            claims::settle(&mut read, &claims);
            batch.exchange(&mut read);
        }
        // Events that the source read before an error are in the batch.
        answer.check()?;
        Ok(if answer.has(flags::FINISHED) {
            Pull::Finished
        } else if answer.has(flags::IDLE) {
            Pull::Idle(Duration::from_nanos(answer.b))
        } else {
            Pull::Events
        })
    }
}

impl DynSource for IsolatedSource {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        if let Some(deferred) = self.deferred.take() {
            return Poll::Ready(deferred);
        }
        let mut call = self.pull.take().unwrap_or_else(|| self.begin(batch));
        match std::pin::Pin::new(&mut call).poll(context) {
            Poll::Ready(answer) => Poll::Ready(self.end(answer, batch)),
            Poll::Pending => {
                self.pull = Some(call);
                Poll::Pending
            }
        }
    }

    /// Cancels the pull in the process. Waits for the answer, because the events that the source has read so far are in
    /// it. If the process does not answer in time, the next pull returns these events.
    fn give_up(&mut self, batch: &mut Batch) {
        let Some(mut call) = self.pull.take() else { return };
        let cancel = Message { slot: PULLS, ..Message::new(Kind::GIVE_UP) };
        self.process.link.send(&cancel);
        let drains = self.process.link.host.services().is_draining();
        match call.wait(if drains { LAST_CANCEL } else { CANCEL }) {
            None => self.pull = Some(call),
            Some(answer) => match self.end(answer, batch) {
                Ok(Pull::Events | Pull::Idle(_)) => {}
                outcome => self.deferred = Some(outcome),
            },
        }
    }

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        let process = self.process.clone();
        let acks = self.acks.clone().map(|properties| {
            let needed = process.acks.clone();
            IsolatedAcks { process, properties, _is_needed: needed }
        });
        Ok(acks.map(|acks| Box::new(acks) as Box<dyn Acks>))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let link = &self.process.link;
            match link.call(Message::new(Kind::CLOSE_SOURCE)).await {
                Ok(answer) => answer.check(),
                // Without its process, the source has nothing to close.
                Err(error) => {
                    let component = link.host.component();
                    tracing::warn!(component, %error, "the process ended before its source was closed");
                    Ok(())
                }
            }
        })
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.process.link.send(&Message { a: open.into(), ..Message::new(Kind::BREAKER) });
        self.process.link.check()
    }
}

impl Drop for IsolatedSource {
    fn drop(&mut self) {
        if self.pull.is_some() {
            // The answer may have events, which would be lost without a trace. After the end of its process, a source with
            // acknowledgements reads them again.
            let reason = "its process was killed: it had not answered a pull that was cancelled";
            self.process.link.kill(Error::timeout(reason));
        }
        self.process.link.send(&Message::new(Kind::DROP_SOURCE));
    }
}

/// Sends acknowledgements to the process. Errors of the plugin are the result of the next pull. After the end of the
/// process they are discarded, because the next one reads the events again.
struct IsolatedAcks {
    process: Arc<Process>,
    properties: AcksBody,
    /// Shows that the process is needed.
    _is_needed: Arc<()>,
}

impl Acks for IsolatedAcks {
    fn most_in_flight(&self) -> InFlight {
        let narrow = |most: u64| usize::try_from(most).unwrap_or(usize::MAX);
        let AcksBody { events, bytes, key, .. } = &self.properties;
        InFlight { events: narrow(*events), bytes: narrow(*bytes), key: kept(key) }
    }

    fn replays_failed(&self) -> bool {
        self.properties.replays_failed
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.process.link.send(&Message { a: pull, ..Message::new(Kind::ACK) });
        Ok(())
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        let range =
            |it: &Range<usize>| EventRange { start: narrow(it.start), len: narrow(it.len()) };
        let events: Vec<_> = events.iter().map(range).map(|it| [it.start, it.len]).collect();
        self.process.link.send(&Message { a: pull, ..Message::new(Kind::FAIL).json(&events) });
        Ok(())
    }

    fn undecodable(&mut self, pull: u64, messages: &[Exception]) -> Result<()> {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        let range = |Exception { events, error }: &Exception| RangeBody {
            start: narrow(events.start),
            len: narrow(events.len()),
            error: error.into(),
        };
        let messages: Vec<_> = messages.iter().map(range).collect();
        let message = Message { a: pull, ..Message::new(Kind::UNDECODABLE).json(&messages) };
        self.process.link.send(&message);
        Ok(())
    }
}
