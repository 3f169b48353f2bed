//! The task that calls the connector.

use std::sync::Arc;

use async_channel::Receiver;
use serde_json::Value as Json;
use tremor_abi::connector::{Deliveries, Hook};
use tremor_pdk::{self as pdk, Acks, Error, InFlight, Result, Sides, lock};

use super::{Commands, Shared, sink, source};
use crate::{
    dynamic::{DynConnector, DynHalves},
    executor::{self, Task},
    plugin::{
        ConnectorFactory, HostContext,
        isolated::{
            body::{AcksBody, Connected, Created, SourceBody},
            message::{Kind, Message},
        },
    },
};

/// A message for the connector: NEW, CONNECT, HOOK or CHECK.
pub(super) struct ToConnector(pub(super) Message);

/// Handles messages for the connector, one after the other.
pub(super) async fn run(
    shared: Arc<Shared>,
    factory: ConnectorFactory,
    host: Arc<HostContext>,
    commands: Receiver<ToConnector>,
) {
    let mut instance = None;
    let mut halves = Halves::default();
    while let Ok(ToConnector(message)) = commands.recv().await {
        let Message { kind, call, a, .. } = message;
        let answer = Message::answer(kind, call);
        let result = match (kind, &mut instance) {
            (Kind::NEW | Kind::CHECK, None) => create(&factory, &host, &message).map(|created| {
                let sides = created.sides();
                instance = Some(created).filter(|_| kind == Kind::NEW);
                let (has_source, has_sink) = (sides.has_source(), sides.has_sink());
                answer.json(&Created { has_source, has_sink })
            }),
            (Kind::CONNECT, Some(connector)) => {
                let wanted = Sides::new(a & 1 != 0, a & 2 != 0);
                // The halves of the last connection are dropped before others are made. A source that has ended and
                // waits for acknowledgements remains, because they may come from the sink that connects.
                halves.end(wanted).await;
                let connected = connector.connect(wanted).await;
                connected
                    .and_then(|made| start(&shared, made, &mut halves))
                    .map(|it| answer.json(&it))
            }
            (Kind::HOOK, Some(connector)) => {
                let hook = Hook(u8::try_from(a).unwrap_or(u8::MAX));
                if hook == Hook::CLOSE {
                    halves.end(Sides::BOTH).await;
                }
                let outcome = connector.hook(hook).await;
                if hook == Hook::CLOSE {
                    // The process may be killed as soon as the call is answered.
                    instance = None;
                    _ = shared.send_metrics(&host);
                }
                outcome.map(|()| answer)
            }
            _ => Err(Error::internal(format_args!(
                "unexpected message of kind {} for a connector",
                kind.0
            ))),
        };
        let failed = |error: Error| Message::answer(kind, call).failed(&error);
        shared.send(&result.unwrap_or_else(failed));
    }
}

fn create(
    factory: &ConnectorFactory,
    host: &Arc<HostContext>,
    message: &Message,
) -> Result<Box<dyn DynConnector>> {
    let config: Json = message.read()?;
    factory.create(&config, host)
}

/// The tasks of the halves of a connection.
#[derive(Default)]
struct Halves {
    source: Option<Task<()>>,
    sink: Option<Task<()>>,
}

impl Halves {
    /// Waits until these halves have ended, which the runtime has dropped.
    async fn end(&mut self, sides: Sides) {
        let source = self.source.take_if(|_| sides.has_source());
        let sink = self.sink.take_if(|_| sides.has_sink());
        executor::all(source.into_iter().chain(sink)).await;
    }
}

/// Starts the tasks of the halves of a connection. Returns the answer to CONNECT.
fn start(
    shared: &Arc<Shared>,
    pdk::Halves { source, sink }: DynHalves,
    halves: &mut Halves,
) -> Result<Connected> {
    let mut connected = Connected::default();
    // The second half must not be left without its task if the first one fails, so the properties are read first.
    let source = match source {
        Some(mut source) => {
            let acks = source.acks()?;
            connected.source = Some(SourceBody { acks: acks.as_deref().map(acks_body) });
            Some((source, acks))
        }
        None => None,
    };
    if let Some((half, acks)) = source {
        let (own, commands) = Commands::new();
        *lock(&shared.source) = Some(own);
        let task = source::run(shared.clone(), half, acks, commands);
        halves.source = Some(executor::spawn(shared.clone().counted(task)));
    }
    if let Some(mut half) = sink {
        connected.sink = Some(Deliveries::from(half.demand()).into());
        let (own, commands) = Commands::new();
        *lock(&shared.sink) = Some(own);
        let task = sink::run(shared.clone(), half, commands);
        halves.sink = Some(executor::spawn(shared.clone().counted(task)));
    }
    Ok(connected)
}

fn acks_body(acks: &dyn Acks) -> AcksBody {
    let InFlight { events, bytes, key } = acks.most_in_flight();
    AcksBody {
        events: events as u64,
        bytes: bytes as u64,
        key: key.to_owned(),
        replays_failed: acks.replays_failed(),
    }
}
