//! `length-prefixed`: before every message stands its length.

mod prefix;

use tremor_pdk::{
    Batch, Component, Context, Error, Output, Postprocessor, Result, abi::batch::Cutter,
};

use self::prefix::{Endianness, Head, Prefix};
use super::{
    reassembly::{self, Held, Partial},
    streams::{Cut, States, Streams},
};

/// Cuts byte streams into messages. Before each stands its length in bytes, which does not count
/// itself. A whole message is cut as well, and has to end with a message.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct SplitConfig {
    /// What the length looks like.
    #[serde(default)]
    prefix: Prefix,
    /// The order of the bytes of a length that has several; `varint` has an order of its own.
    #[serde(default)]
    endianness: Endianness,
    /// The longest message that is taken, in bytes. Longer ones go to `err`.
    #[serde(default = "reassembly::max_length")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_length: usize,
}

/// Puts its length in bytes before every message.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct PrependConfig {
    /// What the length looks like.
    #[serde(default)]
    prefix: Prefix,
    /// The order of the bytes of a length that has several; `varint` has an order of its own.
    #[serde(default)]
    endianness: Endianness,
}

/// The preprocessor.
pub(crate) type Split = Streams<Prefixed>;

pub(crate) struct Prefixed {
    config: SplitConfig,
    held: Held,
}

/// Where in a stream a fragment has ended.
pub(crate) enum State {
    Length(Head),
    Message {
        length: u64,
        missing: u64,
        partial: Partial,
    },
    /// A length could not be read, and so nothing tells where the next one is.
    Lost {
        bytes: u64,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Length(Head::default())
    }
}

impl State {
    fn partial(&mut self) -> Option<&mut Partial> {
        match self {
            Self::Message { partial, .. } => Some(partial),
            Self::Length(_) | Self::Lost { .. } => None,
        }
    }
}

impl Component for Split {
    const NAME: &str = "length-prefixed";
    type Config = SplitConfig;

    fn new(config: SplitConfig, context: Context) -> Result<Self> {
        let held = Held::new(Self::NAME, config.max_length, context.memory());
        Ok(Self::cutting(Prefixed { config, held }))
    }
}

impl Cut for Prefixed {
    /// Streams that are between two messages have no state.
    type State = State;

    fn cut(&mut self, states: &mut States<State>, cutter: &mut Cutter<'_>) {
        let event = *cutter.event();
        let mut state = states.remove(&event.stream).unwrap_or_default();
        if let State::Message { partial, .. } = &state {
            self.held.take(partial);
        }
        let mut at = 0;
        while at < cutter.payload().len() {
            state = self.step(state, cutter, &mut at);
            if cutter.is_heavy() && matches!(&state, State::Length(head) if head.is_empty()) {
                return cutter.leave(at);
            }
        }
        if event.is_fragment() {
            if let State::Message { partial, .. } = &mut state {
                self.held.put(partial, states, State::partial);
            }
            if !matches!(&state, State::Length(head) if head.is_empty()) {
                states.insert(event.stream, state);
            }
            return;
        }
        if let Some((shown, error)) = unfinished(state) {
            cutter.reject(&shown, error);
        }
        if event.is_stream_end() {
            cutter.pass();
        }
    }

    fn is_unfinished(state: &State) -> bool {
        !matches!(state, State::Lost { .. })
    }
}

impl Prefixed {
    /// Goes on at a byte of the payload.
    fn step(&self, state: State, cutter: &mut Cutter<'_>, at: &mut usize) -> State {
        let SplitConfig { prefix, endianness, .. } = self.config;
        match state {
            State::Length(mut head) => {
                head.push(cutter.payload()[*at]);
                *at += 1;
                match prefix.length(endianness, &head) {
                    Ok(None) => State::Length(head),
                    Ok(Some(0)) => {
                        cutter.emit(*at..*at);
                        State::default()
                    }
                    Ok(Some(length)) => {
                        State::Message { length, missing: length, partial: Partial::default() }
                    }
                    Err(error) => {
                        cutter.reject(head.bytes(), error);
                        State::Lost { bytes: 0 }
                    }
                }
            }
            State::Message { length, missing, mut partial } => {
                let rest = cutter.payload().len() - *at;
                let count = usize::try_from(missing).map_or(rest, |missing| missing.min(rest));
                let range = *at..*at + count;
                *at += count;
                let missing = missing - count as u64;
                if missing == 0 {
                    partial.complete(cutter, range, &self.held);
                    return State::default();
                }
                partial.extend(&cutter.payload()[range], &self.held);
                State::Message { length, missing, partial }
            }
            State::Lost { bytes } => {
                let rest = cutter.payload().len() - *at;
                *at += rest;
                State::Lost { bytes: bytes + rest as u64 }
            }
        }
    }
}

/// What there is to say of a stream that ends here.
fn unfinished(state: State) -> Option<(Vec<u8>, Error)> {
    match state {
        State::Length(head) if head.is_empty() => None,
        State::Lost { bytes: 0 } => None,
        State::Length(head) => {
            let error = Error::bad_data("the stream ends within a length");
            Some((head.bytes().to_vec(), error))
        }
        State::Message { length, missing, partial } => {
            let error = Error::bad_data(format_args!(
                "the stream ends within a message: {} of {length} bytes have come",
                length - missing
            ));
            Some((partial.shown().to_vec(), error))
        }
        State::Lost { bytes } => {
            let error = Error::bad_data(format_args!(
                "{bytes} bytes after the failure of the stream were not cut into messages"
            ));
            Some((Vec::new(), error))
        }
    }
}

/// The postprocessor.
pub(crate) struct Prepend(PrependConfig);

impl Component for Prepend {
    const NAME: &str = "length-prefixed";
    type Config = PrependConfig;

    fn new(config: PrependConfig, _context: Context) -> Result<Self> {
        Ok(Self(config))
    }
}

impl Postprocessor for Prepend {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let PrependConfig { prefix, endianness } = self.0;
        output.reject_all(batch.cut(|cutter| {
            let length = cutter.payload().len();
            match prefix.head(endianness, length) {
                Ok(head) => cutter.emit_joined(head.bytes(), 0..length),
                Err(error) => cutter.refuse(error),
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
