//! A plugin as it should be, with something to see on each way through the boundary: its source
//! waits on the host's clock and sends a number of messages, its sink keeps books in a metric and
//! tells failed events from delivered ones.

use std::{future::poll_fn, task::Poll, time::Duration};

use tremor_pdk::prelude::*;

/// What to send.
#[tremor_pdk::config]
pub struct Config {
    /// How many messages to send; at most 1,000.
    count: u64,
}

/// The connector.
pub struct Relay {
    id: String,
    count: u64,
    host: Host,
}

impl Component for Relay {
    const NAME: &str = "relay";
    const DESCRIPTION: &str = "Sends numbered messages and counts what it is sent.";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        if config.count > 1_000 {
            let message = format!("`count` is {}, at most 1,000", config.count);
            return Err(Error::configuration(message));
        }
        tremor_pdk::info!(context, "made with {} messages", config.count);
        Ok(Self { id: context.id().to_owned(), count: config.count, host: context.into() })
    }
}

impl Connector for Relay {
    const CODEC: CodecRequirement = CodecRequirement::Optional("string");
    type Source = Messages;
    type Sink = Books;

    async fn connect(&mut self, attempt: u64) -> Result<bool> {
        Ok(attempt > 1)
    }

    async fn create_source(&mut self) -> Result<Option<Messages>> {
        Ok(Some(Messages { id: self.id.clone(), rest: 0..self.count, host: self.host.clone() }))
    }

    async fn create_sink(&mut self) -> Result<Option<Books>> {
        Ok(Some(Books {
            delivered: self.host.counter("delivered", "Events that came in."),
            last: None,
            kept: None,
        }))
    }
}

/// The source: `<id> <number>` for each number.
pub struct Messages {
    id: String,
    rest: std::ops::Range<u64>,
    host: Host,
}

async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Source for Messages {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        // A pull waits once at least, however late it is polled.
        yield_once().await;
        self.host.sleep(Duration::from_micros(10)).await;
        while !batch.is_full() {
            let Some(number) = self.rest.next() else {
                return if batch.is_empty() { Ok(Pull::Finished) } else { Ok(Pull::Events) };
            };
            batch.push_message(0, format!("{} {number}", self.id).as_bytes());
        }
        Ok(Pull::Events)
    }
}

/// The sink: events whose text is `bad` fail, those whose text is `later` are to come again. A batch
/// with the text `keep` is kept until the next signal, and let go by a thread of the plugin.
pub struct Books {
    delivered: tremor_pdk::Counter,
    last: Option<Signal>,
    kept: Option<Batch>,
}

impl Sink for Books {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery> {
        let mut delivery = Delivery::done();
        for (position, event) in batch.events().iter().enumerate() {
            match batch.raw(event) {
                Some(b"bad") => delivery.failed(position..position + 1, Error::bad_data("bad")),
                Some(b"later") => delivery.retry(position..position + 1, Error::full("later")),
                Some(b"keep") => self.kept = Some(batch.clone()),
                _ => self.delivered.add(1),
            }
        }
        Ok(delivery)
    }

    async fn on_signal(&mut self, signal: Signal) -> Result<()> {
        if let Some(kept) = self.kept.take() {
            let dropped = std::thread::spawn(move || drop(kept)).join();
            dropped.map_err(|_| Error::internal("a batch could not be dropped"))?;
        }
        // A second drain is an error, so that a test can tell that the first arrived.
        match self.last.replace(signal) {
            Some(Signal::Drain) => Err(Error::internal("drained before")),
            _ => Ok(()),
        }
    }
}

tremor_pdk::export! { connectors: [Relay] }
