//! A source that does what its script says, one step after the other, and logs what it hears of its
//! pulls: for what depends on the order of things.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tremor_pdk::prelude::*;

/// What the source does.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// The steps, a list for each connection. After the last one the source is finished.
    connections: Vec<Vec<Step>>,
    /// Whether it wants to know what becomes of its pulls.
    #[serde(default)]
    transactional: bool,
}

/// A step.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// One pull with these fragments, each with its stream.
    Pull(Vec<(u64, String)>),
    /// One pull with these messages.
    Messages(Vec<String>),
    /// One pull with the end of a stream.
    End(u64),
    /// One pull with the end of a stream that is cut off.
    Abort(u64),
    /// Waits until so many pulls of this connection are acknowledged.
    Acknowledged(usize),
    /// Waits until so many pulls of this connection have failed.
    Failed(usize),
    /// Pulls messages without end, until so many are acknowledged.
    PullUntilAcknowledged(usize),
    /// The connection is lost.
    Lose,
    /// The run is to end; sources bring nothing more.
    Drain,
}

/// The connector.
pub struct Script {
    config: Config,
    host: Host,
    connections: usize,
    /// The next connection's number.
    next: Arc<AtomicUsize>,
}

impl Component for Script {
    const NAME: &str = "script";
    const DESCRIPTION: &str = "Does what its script says.";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        let connections = config.connections.len();
        Ok(Self { config, host: context.into(), connections, next: Arc::default() })
    }
}

impl Connector for Script {
    const CODEC: CodecRequirement = CodecRequirement::Optional("string");
    type Source = Steps;
    type Sink = NoSink;

    async fn create_source(&mut self) -> Result<Option<Steps>> {
        let connection = self.next.fetch_add(1, Ordering::Relaxed);
        let steps = self.config.connections.get(connection).cloned().unwrap_or_default();
        Ok(Some(Steps {
            connection: connection + 1,
            is_last: connection + 1 >= self.connections,
            left: steps.into_iter().rev().collect(),
            transactional: self.config.transactional,
            host: self.host.clone(),
            pulls: 0,
            acknowledged: 0,
            failed: 0,
        }))
    }
}

/// The source of one connection.
pub struct Steps {
    connection: usize,
    is_last: bool,
    /// The next one is the last.
    left: Vec<Step>,
    transactional: bool,
    host: Host,
    pulls: usize,
    acknowledged: usize,
    failed: usize,
}

impl Source for Steps {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        let Some(step) = self.left.pop() else {
            if self.is_last {
                return Ok(Pull::Finished);
            }
            return Err(Error::connection_lost("the script goes on with another connection"));
        };
        let again = step.clone();
        match step {
            Step::Pull(fragments) => {
                for (stream, fragment) in fragments {
                    batch.push_fragment(stream, fragment.as_bytes());
                }
            }
            Step::Messages(messages) => {
                messages.iter().for_each(|message| batch.push_message(0, message.as_bytes()));
            }
            Step::End(stream) => batch.end_stream(stream),
            Step::Abort(stream) => batch.abort_stream(stream),
            Step::Acknowledged(pulls) if self.acknowledged < pulls => self.wait(again).await,
            Step::Failed(pulls) if self.failed < pulls => self.wait(again).await,
            Step::Acknowledged(_) | Step::Failed(_) => {}
            Step::PullUntilAcknowledged(pulls) => {
                if self.acknowledged < pulls {
                    self.left.push(again);
                    while !batch.is_full() {
                        batch.push_message(0, b"more");
                    }
                }
            }
            Step::Lose => return Err(Error::connection_lost("the script says so")),
            Step::Drain => {
                self.host.request_stop("the script says so");
                self.left.clear();
                pending::<()>().await;
            }
        }
        self.pulls += usize::from(!batch.is_empty());
        Ok(Pull::Events)
    }

    fn is_transactional(&self) -> bool {
        self.transactional
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.acknowledged += 1;
        if self.acknowledged <= 100 {
            tremor_pdk::info!(self.host, "connection {}: acknowledged {pull}", self.connection);
        }
        Ok(())
    }

    fn fail(&mut self, pull: u64) -> Result<()> {
        self.failed += 1;
        tremor_pdk::info!(self.host, "connection {}: failed {pull}", self.connection);
        Ok(())
    }
}

impl Steps {
    /// Waits for what the source hears: then this is dropped, and the step comes again.
    async fn wait(&mut self, step: Step) {
        self.left.push(step);
        pending::<()>().await;
    }
}

tremor_pdk::export! { connectors: [Script] }
