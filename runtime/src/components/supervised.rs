//! Supervision of codecs and processors of plugins: a panic costs the messages that caused it.
//!
//! An instance that has panicked is replaced. A codec or a postprocessor then gets the messages of the batch one by
//! one, so that only those on which it panics again fail. If no message succeeds, the part is soon not called any more:
//! [`PartRestarts`].

use std::sync::Arc;

use tremor_abi::batch::{Event, HostBatch, Rejected};
use tremor_pdk::{Batch, Error, ErrorKind, Output, Postprocessor, Preprocessor, Result};

use crate::{
    clock::Clock,
    engine::{Part, PartRestarts},
    watchdog::Calls,
};

/// Creates the instances of a part of a connector.
pub(super) struct Maker<T> {
    /// Name of the connector.
    pub(super) connector: String,
    /// Description of the part, such as "codec `x`".
    pub(super) part: String,
    pub(super) make: Box<dyn Fn() -> Result<T> + Send + Sync>,
    pub(super) calls: Arc<Calls>,
    pub(super) clock: Clock,
}

/// An instance of a part that is replaced when it panics.
pub(super) struct Supervised<T> {
    pub(super) instance: T,
    maker: Arc<Maker<T>>,
    restarts: Arc<PartRestarts>,
    /// `true` if the instance has panicked and was not replaced, because the budget was exhausted.
    is_gone: bool,
    /// `true` if the last call has succeeded.
    has_succeeded: bool,
    /// `true` if a panic in a method without an error was found by the call after it. Then only two successive calls
    /// show that the instance works.
    needs_two: bool,
}

impl<T> Supervised<T> {
    /// Creates an instance. `restarts` are those of all instances that do the same work.
    pub(super) fn new(maker: Arc<Maker<T>>, restarts: Arc<PartRestarts>) -> Result<Self> {
        let instance = (maker.make)()?;
        let (is_gone, has_succeeded, needs_two) = (false, false, false);
        Ok(Self { instance, maker, restarts, is_gone, has_succeeded, needs_two })
    }

    /// Makes a call. After a panic, replaces the instance.
    ///
    /// # Errors
    /// Returns the error of the call, or one of kind panicked if the part is not called any more.
    pub(super) fn call<R>(&mut self, call: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.restarts.check(&self.maker.part)?;
        if self.is_gone {
            self.instance = (self.maker.make)()?;
            self.is_gone = false;
        }
        let result = call(&mut self.instance);
        match &result {
            Ok(_) if self.needs_two && !self.has_succeeded => {}
            Ok(_) => {
                self.needs_two = false;
                self.restarts.succeed();
            }
            Err(error) if error.kind() == ErrorKind::PANICKED => self.restart(error),
            Err(_) => {}
        }
        self.has_succeeded = result.is_ok();
        result
    }

    #[cold]
    fn restart(&mut self, error: &Error) {
        let Maker { connector, part, make, calls, clock } = &*self.maker;
        let part = Part { component: connector, label: part, calls, now: clock.now() };
        match self.restarts.restart(part, error, make) {
            Some(instance) => self.instance = instance,
            None => self.is_gone = self.restarts.is_exhausted(),
        }
    }

    /// Returns whether the messages of a batch have to be passed one by one, after a call for all of them failed, so
    /// that only those fail that are the cause.
    pub(super) fn divides(&self, messages: usize) -> bool {
        messages > 1 && !self.restarts.is_exhausted()
    }
}

/// A postprocessor that is replaced when it panics.
pub(super) struct SupervisedPostprocessor {
    supervised: Supervised<Box<dyn Postprocessor>>,
    suffix: Option<Vec<u8>>,
    /// Messages of the current batch.
    events: Vec<Event>,
}

impl SupervisedPostprocessor {
    pub(super) fn new(supervised: Supervised<Box<dyn Postprocessor>>) -> Self {
        let suffix = supervised.instance.suffix().map(<[u8]>::to_vec);
        Self { supervised, suffix, events: Vec::new() }
    }

    /// Processes the messages of a batch one by one. The messages that fail are rejected.
    #[cold]
    fn process_each(&mut self, batch: &mut Batch, output: &mut Output) {
        let mut left = Vec::with_capacity(self.events.len());
        for event in std::mem::take(&mut self.events) {
            batch.set_events(&[event]);
            // A message that was overwritten before the panic cannot be passed again.
            let is_whole = batch.validate().map(|_| ());
            let result =
                is_whole.and_then(|()| self.supervised.call(|it| it.process(batch, output)));
            match result {
                Ok(()) => left.extend_from_slice(batch.events()),
                Err(error) => output.reject_all(vec![Rejected { event, error }]),
            }
        }
        batch.set_events(&left);
    }
}

impl Postprocessor for SupervisedPostprocessor {
    fn suffix(&self) -> Option<&[u8]> {
        self.suffix.as_deref()
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.events.clear();
        self.events.extend_from_slice(batch.events());
        let result = self.supervised.call(|it| it.process(batch, output));
        match result {
            Err(error)
                if error.kind() == ErrorKind::PANICKED
                    && self.supervised.divides(self.events.len()) =>
            {
                output.clear();
                self.process_each(batch, output);
                Ok(())
            }
            result => result,
        }
    }
}

/// A preprocessor that is replaced when it panics. The input of the call is rejected as a whole, because the
/// preprocessor may have processed a part of it.
pub(super) struct SupervisedPreprocessor {
    supervised: Supervised<Box<dyn Preprocessor>>,
    /// Input of the current call.
    events: Vec<Event>,
}

impl SupervisedPreprocessor {
    pub(super) fn new(supervised: Supervised<Box<dyn Preprocessor>>) -> Self {
        Self { supervised, events: Vec::new() }
    }

    /// Makes a call. After a panic, leaves the input of the call in the batch, unless its buffers are gone.
    fn call(
        &mut self,
        batch: &mut Batch,
        call: impl FnOnce(&mut dyn Preprocessor, &mut Batch) -> Result<()>,
    ) -> Result<()> {
        self.events.clear();
        self.events.extend_from_slice(batch.events());
        let result = self.supervised.call(|it| call(&mut **it, batch));
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::PANICKED) {
            self.supervised.needs_two |= self.events.is_empty();
            batch.set_events(&self.events);
            if batch.validate().is_err() {
                batch.set_events(&[]);
            }
        }
        result
    }
}

impl Preprocessor for SupervisedPreprocessor {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.call(batch, |it, batch| it.process(batch, output))
    }

    fn has_more(&self) -> bool {
        self.supervised.instance.has_more()
    }

    fn due(&self) -> Option<u64> {
        self.supervised.instance.due()
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.call(batch, |it, batch| it.on_time(now, batch, output))
    }

    fn buffers(&self, stream: u64) -> bool {
        self.supervised.instance.buffers(stream)
    }

    fn buffered_since(&self, stream: u64) -> Option<u64> {
        self.supervised.instance.buffered_since(stream)
    }

    fn streams(&self) -> Vec<u64> {
        self.supervised.instance.streams()
    }
}
