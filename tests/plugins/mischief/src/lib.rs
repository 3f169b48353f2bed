//! Components other than connectors that go wrong: where the event that they are given says so.
//!
//! All of them know these words: `panic`, `error`, `forge`, `block`.

use std::{thread, time::Duration};

use tremor_pdk::{abi::ByteBuffer, prelude::*};

/// There is nothing to configure but the ports.
#[tremor_pdk::config]
pub struct Config {
    /// The operator's ports: an event that is the name of one leaves by it. One that is named
    /// `panic` panics when it is asked for ports.
    #[serde(default)]
    ports: Vec<String>,
    /// Whether the operator's constructor never returns.
    #[serde(default)]
    blocks: bool,
}

/// Never returns.
fn block() -> ! {
    loop {
        thread::sleep(Duration::from_hours(1));
    }
}

fn obey(word: Option<&str>) -> Result<bool> {
    match word {
        Some("panic") => panic!("told to"),
        Some("error") => Err(Error::bad_data("told to")),
        Some("forge") => Ok(true),
        Some("block") => block(),
        _ => Ok(false),
    }
}

/// An event that points to where nothing is.
fn forge(batch: &mut Batch) {
    let mut other = Batch::new();
    for _ in 0..1_000 {
        other.push_message(0, &[0; 1_000]);
    }
    let stolen = *other.events().last().expect("a message was pushed");
    if let Some(event) = batch.events_mut().first_mut() {
        *event = stolen;
    }
}

/// The operator: `hold` is held back until the next event, or until time passes, `keep` until the
/// next event, and `double` is put out twice when it has been held, and nothing is said of that;
/// `vanish` vanishes, `copy` is put out twice, and nothing is said of either; `forget` is held, and
/// nobody is told of which batch.
pub struct Operate {
    ports: Vec<String>,
    held: Option<Held>,
    holds: Holds,
    forgotten: usize,
}

/// What is held.
struct Held {
    value: Value<'static>,
    /// In ns since the Unix epoch.
    due: Option<u64>,
    /// How often it is put out.
    copies: usize,
}

impl Held {
    fn put_out(self, batch: &mut Batch) {
        for _ in 0..self.copies {
            batch.push_copy(0, ValueRef::from(&self.value));
        }
    }
}

impl Component for Operate {
    const NAME: &str = "mischief";
    type Config = Config;

    fn new(config: Config, _context: Context) -> Result<Self> {
        // A flow is to start that has such an operator.
        let is_checked = std::env::args().any(|argument| argument == "plugin-describe");
        if config.blocks && !is_checked {
            block();
        }
        Ok(Self { ports: config.ports, held: None, holds: Holds::default(), forgotten: 0 })
    }
}

impl Operator for Operate {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut forged = false;
        let mut failed = None;
        let before = self.held.take();
        let (mut replaced, mut copied) = (0, 0);
        output.release(&mut self.holds);
        output.divert(batch, |batch, position| {
            let event = batch.events()[position];
            let word = batch.value(&event).and_then(ValueRef::as_str).unwrap_or_default();
            if let Some(port) = self.ports.iter().position(|port| port == word) {
                return Verdict::Port(u16::try_from(port).unwrap_or(u16::MAX));
            }
            if word == "reject" {
                return Verdict::Reject(Error::bad_data("told to"));
            }
            if ["hold", "keep", "double"].contains(&word) {
                let due = (word != "keep").then_some(event.ingest_ns + 1_000_000);
                let copies = if word == "double" { 2 } else { 1 };
                let held = Held { value: Value::from("held".to_owned()), due, copies };
                replaced += usize::from(self.held.replace(held).is_some());
                return Verdict::Hold;
            }
            if word == "vanish" {
                return Verdict::Hold;
            }
            if word == "forget" {
                self.forgotten += 1;
                return Verdict::Hold;
            }
            copied += usize::from(word == "copy");
            match obey(Some(word)) {
                Ok(told) => forged |= told,
                Err(error) => failed = Some(error),
            }
            Verdict::Keep
        });
        output.discard(replaced);
        if self.held.is_some() {
            output.hold(&mut self.holds);
        }
        if let Some(held) = before {
            held.put_out(batch);
        }
        for _ in 0..copied {
            batch.push_value(0, &"copy")?;
        }
        if forged {
            forge(batch);
        }
        failed.map_or(Ok(()), Err)
    }

    fn due(&self) -> Option<u64> {
        self.held.as_ref().and_then(|held| held.due)
    }

    fn on_time(&mut self, _now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.on_drain(batch, output)
    }

    fn on_drain(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.release(&mut self.holds);
        if let Some(held) = self.held.take() {
            held.put_out(batch);
        }
        Ok(())
    }

    fn held(&self) -> usize {
        usize::from(self.held.is_some()) + self.forgotten
    }

    fn ports(&self) -> Vec<String> {
        assert!(!self.ports.iter().any(|port| port == "panic"), "told to");
        self.ports.clone()
    }
}

/// The codec: text, as it is.
pub struct Text;

impl Component for Text {
    const NAME: &str = "mischief";
    type Config = Config;

    fn new(_config: Config, _context: Context) -> Result<Self> {
        Ok(Self)
    }
}

impl Codec for Text {
    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()> {
        let text = std::str::from_utf8(message).map_err(Error::bad_data)?;
        if obey(Some(text))? {
            // Two values, where one is to be.
            value.null();
        }
        value.str(text);
        Ok(())
    }

    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()> {
        let text = value.as_str().ok_or_else(|| Error::bad_data("not text"))?;
        // What the encoder is told is one letter longer, for the decoder to let it pass.
        obey(text.strip_prefix('>'))?;
        message.extend_from_copy_slice(text.as_bytes());
        Ok(())
    }
}

/// The processor, on either side.
pub struct Pass;

fn pass(batch: &mut Batch, output: &mut Output) {
    let words: Vec<_> =
        batch.events().iter().map(|event| batch.raw(event).map(<[u8]>::to_vec)).collect();
    for (position, word) in words.into_iter().enumerate() {
        let word = word.map(|word| String::from_utf8_lossy(&word).into_owned());
        match obey(word.as_deref()) {
            Ok(true) => forge(batch),
            Ok(false) => {}
            Err(error) => output.reject(batch.events()[position], error),
        }
    }
    batch.retain(|batch, event| batch.raw(event) != Some(b"error"));
}

impl Component for Pass {
    const NAME: &str = "mischief";
    type Config = Config;

    fn new(_config: Config, _context: Context) -> Result<Self> {
        Ok(Self)
    }
}

impl Preprocessor for Pass {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        pass(batch, output);
        Ok(())
    }

    fn streams(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// The postprocessor.
pub struct After;

impl Component for After {
    const NAME: &str = "mischief";
    type Config = Config;

    fn new(_config: Config, _context: Context) -> Result<Self> {
        Ok(Self)
    }
}

impl Postprocessor for After {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        pass(batch, output);
        Ok(())
    }
}

tremor_pdk::export! {
    operators: [Operate],
    codecs: [Text],
    preprocessors: [Pass],
    postprocessors: [After],
}
