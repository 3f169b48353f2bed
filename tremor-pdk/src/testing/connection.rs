//! A connector in use, called as the runtime calls it.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use tremor_abi::connector::Hook;

use super::TestHost;
use crate::{
    Acks, Batch, Connector, ConnectorDriver, Delivery, Error, Halves, Pull, Result, Signal,
    dynamic::{DynConnector, DynSink, DynSource},
};

/// A connector, connected and started, with its source and its sink, in the same drivers that
/// the runtime uses.
pub struct Connection {
    host: TestHost,
    connector: Box<dyn DynConnector>,
    source: Option<Box<dyn DynSource>>,
    acks: Option<Box<dyn Acks>>,
    sink: Option<Box<dyn DynSink>>,
    /// How many pulls have brought something.
    pulls: u64,
}

impl Connection {
    pub(super) fn open<C: Connector>(host: TestHost, connector: C) -> Result<Self> {
        let wanted = connector.sides();
        let mut connector: Box<dyn DynConnector> = Box::new(ConnectorDriver::new(connector));
        let Halves { mut source, sink } = host.block_on(connector.connect(wanted))?;
        host.block_on(connector.hook(Hook::START))?;
        let acks = source.as_mut().map_or(Ok(None), |source| source.acks())?;
        Ok(Self { host, connector, source, acks, sink, pulls: 0 })
    }

    /// The source.
    ///
    /// # Errors
    /// Kind unsupported, where the connector has none; so do all methods that need one.
    pub fn source(&mut self) -> Result<&mut dyn DynSource> {
        Ok(&mut **self.source.as_mut().ok_or_else(|| Error::unsupported("there is no source"))?)
    }

    /// What hears of acknowledgements.
    ///
    /// # Errors
    /// Kind unsupported, where the source has no such thing.
    pub fn acks(&mut self) -> Result<&mut dyn Acks> {
        let none = || Error::unsupported("the source hears of no acknowledgements");
        Ok(&mut **self.acks.as_mut().ok_or_else(none)?)
    }

    /// The sink.
    ///
    /// # Errors
    /// Kind unsupported, where the connector has none; so do all methods that need one.
    pub fn sink(&mut self) -> Result<&mut dyn DynSink> {
        Ok(&mut **self.sink.as_mut().ok_or_else(|| Error::unsupported("there is no sink"))?)
    }

    /// A batch for the next pull: one that brings nothing leaves its number to the next.
    fn batch(&self) -> Batch {
        let mut batch = Batch::new();
        batch.set_pull(self.pulls + 1);
        batch
    }

    /// Pulls once.
    ///
    /// # Errors
    /// Those of the source.
    pub fn pull(&mut self) -> Result<(Pull, Batch)> {
        let (host, mut batch) = (self.host.clone(), self.batch());
        let source = self.source()?;
        let pull = host.block_on(poll_fn(|context| source.poll_pull(context, &mut batch)));
        self.pulls += u64::from(!batch.is_empty());
        Ok((pull?, batch))
    }

    /// Pulls until the source has finished, and gives every batch that is not empty. Where the
    /// source is idle, time passes.
    ///
    /// # Errors
    /// Those of the source.
    pub fn pull_all(&mut self) -> Result<Vec<Batch>> {
        let mut batches = Vec::new();
        loop {
            let (pull, batch) = self.pull()?;
            if !batch.is_empty() {
                batches.push(batch);
            }
            match pull {
                Pull::Events => {}
                Pull::Idle(time) => self.host.advance(time),
                Pull::Finished => return Ok(batches),
            }
        }
    }

    /// Starts a pull and gives it up at its first wait, as the runtime does for a pause. Gives
    /// what is in the batch by then; `None` says that the pull was given up, anything else that it
    /// had nothing to wait for.
    ///
    /// # Errors
    /// Those of the source.
    pub fn pull_and_give_up(&mut self) -> Result<(Option<Pull>, Batch)> {
        let mut batch = self.batch();
        let source = self.source()?;
        let mut context = Context::from_waker(Waker::noop());
        let pull = match source.poll_pull(&mut context, &mut batch) {
            Poll::Ready(pull) => Some(pull?),
            Poll::Pending => None,
        };
        source.give_up(&mut batch);
        self.pulls += u64::from(!batch.is_empty());
        Ok((pull, batch))
    }

    /// Delivers a batch.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn deliver(&mut self, batch: &Batch) -> Delivery {
        let host = self.host.clone();
        let sink = self.sink()?;
        let mut batch = batch.clone();
        host.block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch)))?.into()
    }

    /// Sends the sink a signal.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        let host = self.host.clone();
        host.block_on(self.sink()?.on_signal(signal))
    }

    /// Drains and stops, as the runtime does at the end of a run.
    ///
    /// # Errors
    /// Those of the connector, its source and its sink.
    pub fn stop(mut self) -> Result<()> {
        if let Some(source) = &mut self.source {
            self.host.block_on(source.close())?;
        }
        if self.sink.is_some() {
            self.signal(Signal::Drain)?;
        }
        self.source = None;
        self.sink = None;
        self.host.block_on(self.connector.hook(Hook::CLOSE))
    }
}
