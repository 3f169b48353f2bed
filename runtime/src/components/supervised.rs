//! Supervision of codecs and processors of plugins: a panic costs the messages that caused it.
//!
//! An instance that has panicked is replaced. A codec or a postprocessor then gets the messages of the batch one by
//! one, so that only those on which it panics again fail. If no message of several batches succeeds, the part is not
//! called any more: [`PartRestarts`].

use std::{collections::BTreeSet, sync::Arc};

use tremor_abi::batch::{Event, HostBatch, HostOutput, Rejected};
use tremor_pdk::{Batch, Error, ErrorKind, Output, Postprocessor, Preprocessor, Result};

use crate::{
    clock::Clock,
    engine::{PANICS_IN_A_ROW, Part, PartRestarts},
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
    /// Number of panics in a row while the messages of a batch are passed one by one. `None` at other times.
    panics: Option<usize>,
}

impl<T> Supervised<T> {
    /// Creates an instance. `restarts` are those of all instances that do the same work.
    pub(super) fn new(maker: Arc<Maker<T>>, restarts: Arc<PartRestarts>) -> Result<Self> {
        let instance = (maker.make)()?;
        let (is_gone, has_succeeded, needs_two) = (false, false, false);
        Ok(Self { instance, maker, restarts, is_gone, has_succeeded, needs_two, panics: None })
    }

    /// Makes a call. After a panic, replaces the instance.
    ///
    /// # Errors
    /// Returns the error of the call, or one of kind panicked if the part is not called any more.
    pub(super) fn call<R>(&mut self, call: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.restarts.check(&self.maker.part)?;
        if self.panics.is_some_and(|panics| panics >= PANICS_IN_A_ROW) {
            return Err(Error::panicked(format_args!(
                "{} has panicked on {PANICS_IN_A_ROW} messages in a row, and is not called for the remaining messages \
                 of the batch",
                self.maker.part
            )));
        }
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
                self.panics = self.panics.map(|_| 0);
            }
            Err(error) if error.kind() == ErrorKind::PANICKED => self.restart(error),
            Err(_) => {}
        }
        self.has_succeeded = result.is_ok();
        result
    }

    /// Begins to pass the messages of a batch one by one, if that is possible after a call for all of them failed, so that
    /// only those fail that are the cause. Returns `false` if it is not possible.
    pub(super) fn divide(&mut self, messages: usize) -> bool {
        let can_divide = messages > 1 && !self.restarts.is_exhausted();
        self.panics = can_divide.then_some(0);
        can_divide
    }

    /// Ends what [`Supervised::divide`] began.
    pub(super) fn end_division(&mut self) {
        self.panics = None;
    }

    #[cold]
    fn restart(&mut self, error: &Error) {
        let Maker { connector, part, make, calls, clock } = &*self.maker;
        let part = Part { component: connector, label: part, calls, now: clock.now() };
        let Some(panics) = &mut self.panics else {
            match self.restarts.restart(part, error, make) {
                Some(instance) => self.instance = instance,
                None => self.is_gone = self.restarts.is_exhausted(),
            }
            return;
        };
        *panics += 1;
        if let Some(instance) = PartRestarts::replace(part, make) {
            self.instance = instance;
        }
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
    ///
    /// # Errors
    /// Returns an error if the call that failed has changed the messages.
    #[cold]
    fn process_each(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let events = std::mem::take(&mut self.events);
        batch.set_events(&events);
        batch.validate()?;
        let most = batch.bytes().len().saturating_add(batch.output_at_most()).min(MAX_BYTES);
        for event in &events {
            let mut alone = batch.copy_of(event);
            let result = self.supervised.call(|it| it.process(&mut alone, output));
            if let Err(error) = result.and_then(|()| append(batch, alone, most)) {
                output.reject_all(vec![Rejected { event: *event, error }]);
            }
        }
        let processed = batch.events()[events.len()..].to_vec();
        batch.set_events(&processed);
        Ok(())
    }
}

/// Maximum number of bytes of a batch, because offsets have 32 bits.
pub(super) const MAX_BYTES: usize = (4 << 30) - 1;

/// Appends the results of a call for a single message to `batch`, which then has at most `most` bytes. A message is
/// passed alone in a copy, because a call takes time linear in the size of its batch.
///
/// # Errors
/// Kind bad data, if the batch would have more bytes.
pub(super) fn append(batch: &mut Batch, results: Batch, most: usize) -> Result<()> {
    if batch.bytes().len().saturating_add(results.bytes().len()) > most {
        return Err(Error::bad_data(format_args!(
            "the messages of a batch would have more than {most} bytes"
        )));
    }
    batch.append(results);
    Ok(())
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
                    && self.supervised.divide(self.events.len()) =>
            {
                output.clear();
                let result = self.process_each(batch, output);
                self.supervised.end_division();
                result
            }
            result => result,
        }
    }
}

/// A preprocessor that is replaced when it panics. The input of the call is rejected as a whole, because the
/// preprocessor may have processed a part of it.
///
/// A message has a position in its pull only if it is certain that the preprocessor did not join several events: a
/// failed message would otherwise count as the failure of one of them alone.
pub(super) struct SupervisedPreprocessor {
    supervised: Supervised<Box<dyn Preprocessor>>,
    /// Input of the current call.
    events: Vec<Event>,
    /// Streams of which the preprocessor buffers messages.
    begun: BTreeSet<u64>,
}

impl SupervisedPreprocessor {
    pub(super) fn new(supervised: Supervised<Box<dyn Preprocessor>>) -> Self {
        Self { supervised, events: Vec::new(), begun: BTreeSet::new() }
    }

    /// Makes a call. After a panic, leaves the input of the call in the batch, unless its buffers are gone.
    fn call(
        &mut self,
        batch: &mut Batch,
        output: &mut Output,
        call: impl FnOnce(&mut dyn Preprocessor, &mut Batch, &mut Output) -> Result<()>,
    ) -> Result<()> {
        batch.events_mut().iter_mut().filter(|it| it.is_fragment()).for_each(forget_position);
        self.events.clear();
        self.events.extend_from_slice(batch.events());
        let before = output.rejected().len();
        let result = self.supervised.call(|it| call(&mut **it, batch, output));
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::PANICKED) {
            self.supervised.needs_two |= self.events.is_empty();
            batch.set_events(&self.events);
            if batch.validate().is_err() {
                batch.set_events(&[]);
            }
        }
        let has_position = |event: &Event| event.position().is_some();
        if !self.begun.is_empty() || self.events.iter().any(has_position) {
            self.forget_joined(batch, output, before);
        }
        result
    }

    /// Removes the positions of the results of a call in streams of which an event may be a part of another one. The
    /// first `before` rejected events are those of earlier calls.
    fn forget_joined(&mut self, batch: &mut Batch, output: &mut Output, before: usize) {
        let Self { supervised, events, begun } = self;
        let rejected = output.rejected().iter().skip(before).map(|it| &it.event);
        let known = |it: &Event| it.position().map(|position| (it.stream, position));
        let mut left: Vec<_> = batch.events().iter().chain(rejected).filter_map(known).collect();
        left.sort_unstable();
        let gone = events.iter().filter_map(known).filter(|it| left.binary_search(it).is_err());
        let mut joined = std::mem::take(begun);
        joined.extend(gone.map(|(stream, _)| stream));
        if joined.is_empty() {
            return;
        }
        let is_joined = |event: &Event| joined.contains(&event.stream);
        batch.events_mut().iter_mut().filter(|it| is_joined(it)).for_each(forget_position);
        let mut rejected = output.take_rejected();
        let own = rejected.iter_mut().skip(before).map(|it| &mut it.event);
        own.filter(|it| is_joined(it)).for_each(forget_position);
        output.reject_all(rejected);
        joined.retain(|stream| supervised.instance.buffers(*stream));
        *begun = joined;
    }
}

fn forget_position(event: &mut Event) {
    event.set_position(usize::MAX);
}

impl Preprocessor for SupervisedPreprocessor {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.call(batch, output, Preprocessor::process)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.call(batch, output, |it, batch, output| it.on_time(now, batch, output))
    }

    fn has_more(&self) -> bool {
        self.supervised.instance.has_more()
    }

    fn due(&self) -> Option<u64> {
        self.supervised.instance.due()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tremor_abi::batch::{Event, HostBatch};
    use tremor_pdk::{Batch, Error, Output, Postprocessor, Preprocessor, Result};

    use super::{Maker, Supervised, SupervisedPostprocessor, SupervisedPreprocessor};
    use crate::{clock::Clock, watchdog::Calls};

    /// A postprocessor that panics for several messages, and appends the size of the batch to a single message.
    struct Sizes;

    impl Postprocessor for Sizes {
        fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
            if batch.len() > 1 {
                return Err(Error::panicked("several"));
            }
            let size = batch.bytes().len().to_string();
            output.reject_all(batch.cut(|cutter| match cutter.payload() {
                b"bad" => cutter.refuse(Error::bad_data("bad")),
                _ => cutter.emit_followed(size.as_bytes()),
            }));
            Ok(())
        }
    }

    fn supervised<T: 'static>(make: fn() -> T) -> Supervised<T> {
        let maker = Maker {
            connector: "output".to_owned(),
            part: "processor `x`".to_owned(),
            make: Box::new(move || Ok(make())),
            calls: Arc::<Calls>::default(),
            clock: Clock::simulated(0),
        };
        Supervised::new(Arc::new(maker), Arc::default()).unwrap()
    }

    /// A preprocessor that adds each message that ends with `+` to the next one of its stream, and rejects `bad`.
    #[derive(Default)]
    struct Plus(Vec<u8>);

    impl Preprocessor for Plus {
        fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
            output.reject_all(batch.cut(|cutter| match cutter.payload() {
                [first @ .., b'+'] => self.0.extend_from_slice(first),
                [.., b'-'] => cutter.refuse(Error::bad_data("bad")),
                payload => cutter.emit_joined(&std::mem::take(&mut self.0), 0..payload.len()),
            }));
            Ok(())
        }

        fn buffers(&self, stream: u64) -> bool {
            stream == 1 && !self.0.is_empty()
        }
    }

    /// Returns the results of a call of [`Plus`]: their positions, by message and then by rejected message.
    fn positions(
        plus: &mut SupervisedPreprocessor,
        input: &[(u64, &str)],
        is_fragment: bool,
    ) -> Vec<Option<usize>> {
        let (mut batch, mut output) = (Batch::new(), Output::new());
        for (position, (stream, text)) in input.iter().enumerate() {
            let mut stream = batch.stream(*stream);
            if is_fragment {
                stream.push_fragment(text.as_bytes());
            } else {
                stream.push_message(text.as_bytes());
            }
            batch.events_mut()[position].set_position(position);
        }
        plus.process(&mut batch, &mut output).unwrap();
        let rejected = output.rejected().iter().map(|it| &it.event);
        batch.events().iter().chain(rejected).map(Event::position).collect()
    }

    #[test]
    fn messages_that_may_have_been_joined_have_no_position() {
        let mut plus = SupervisedPreprocessor::new(supervised(|| {
            Box::<Plus>::default() as Box<dyn Preprocessor>
        }));
        let separate = positions(&mut plus, &[(1, "a"), (1, "b-"), (1, "c")], false);
        assert_eq!(separate, [Some(0), Some(2), Some(1)]);
        let joined = [(1, "a"), (1, "b+"), (1, "c"), (2, "d"), (1, "e-")];
        assert_eq!(positions(&mut plus, &joined, false), [None, None, Some(3), None]);
        assert_eq!(positions(&mut plus, &[(1, "f+")], false), []);
        assert_eq!(positions(&mut plus, &[(1, "g"), (2, "h")], false), [None, Some(1)]);
        assert_eq!(positions(&mut plus, &[(1, "i")], false), [Some(0)]);
        assert_eq!(positions(&mut plus, &[(1, "j")], true), [None], "the bytes may be of two");
    }

    #[test]
    fn messages_that_are_processed_alone_are_in_small_batches() {
        let supervised = supervised(|| Box::new(Sizes) as Box<dyn Postprocessor>);
        let (mut batch, mut output) = (Batch::new(), Output::new());
        for number in 0..100 {
            batch.push_message(if number == 7 { b"bad" } else { b"text" });
            batch.events_mut()[number].pull = number as u64;
        }
        SupervisedPostprocessor::new(supervised).process(&mut batch, &mut output).unwrap();
        assert_eq!((batch.len(), output.rejected().len()), (99, 1));
        assert_eq!(output.rejected()[0].event.pull, 7);
        assert!(batch.iter().all(|it| it.raw() == Some(b"text4")));
        assert!(batch.events().iter().map(|it| it.pull).eq((0..100).filter(|it| *it != 7)));
    }
}
