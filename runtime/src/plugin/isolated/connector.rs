//! A connector whose plugin runs in a process of its own.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use serde_json::Value as Json;
use tremor_abi::connector::Hook;
use tremor_pdk::{Demand, Error, Halves, Result, Sides, Value, lock};

use super::{
    body::{Connected, to_json},
    message::{Kind, Message},
    process::{Ended, OnEnd, Process},
    sink::IsolatedSink,
    source::IsolatedSource,
    subject::Subject,
};
use crate::{
    clock::Clock,
    dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSink, DynSource},
    executor,
    plugin::{Describer, HostContext, Library},
};

/// Maximum time for a process to load its library and to report that it is ready.
const START: Duration = Duration::from_secs(10);

/// Factory of the instances of one connector, each in a process of its own.
pub(crate) struct IsolatedFactory {
    settings: Arc<Settings>,
    sides: Sides,
}

struct Settings {
    subject: Subject,
    hang_limit: Duration,
    /// The process of the last instance.
    last: Mutex<Option<(Weak<Process>, Ended)>>,
}

impl IsolatedFactory {
    /// Creates the factory of a connector of a library. Runs no code of the library.
    ///
    /// `memory` is the maximum number of bytes of memory of each process. A process is killed if it does not answer
    /// within `hang_limit`.
    ///
    /// # Errors
    /// Errors of [`Library::check`]. Kind [`UnknownArtefact`](crate::plugin::ErrorKind::UnknownArtefact) if the library
    /// has no such connector.
    pub(crate) fn new(
        describer: &Describer,
        library: &Library,
        connector: &str,
        sides: Sides,
        memory: u64,
        hang_limit: Duration,
    ) -> std::result::Result<Self, crate::plugin::Error> {
        let (tremor, policy) = (describer.binary(), describer.policy());
        let subject = Subject::new(tremor, library, connector, policy, memory)?;
        let last = Mutex::default();
        Ok(Self { settings: Arc::new(Settings { subject, hang_limit, last }), sides })
    }

    /// Creates an instance. Its process starts when the instance connects. If the process ends while the instance still
    /// exists, `on_end` is called with the reason.
    ///
    /// # Errors
    /// Kind configuration, if the configuration has no form in JSON.
    pub(crate) fn create(
        &self,
        config: &Value<'_>,
        host: &Arc<HostContext>,
        on_end: impl Fn(Error) + Send + Sync + 'static,
    ) -> Result<Box<dyn DynConnector>> {
        Ok(Box::new(IsolatedConnector {
            settings: self.settings.clone(),
            sides: self.sides,
            config: to_json(config)?,
            host: host.clone(),
            on_end: Arc::new(on_end),
            process: None,
            is_called: false,
        }))
    }
}

/// Waits for a step of the start of a process.
///
/// # Errors
/// The error of the step. Kind timeout, if it takes longer than [`START`].
async fn within<T>(clock: &Clock, step: impl Future<Output = Result<T>>) -> Result<T> {
    let late = async {
        clock.sleep(START).await;
        Err(Error::timeout(format_args!("its process was not ready within {START:?}")))
    };
    executor::first(step, late).await
}

/// An instance of a connector.
struct IsolatedConnector {
    settings: Arc<Settings>,
    sides: Sides,
    config: Json,
    host: Arc<HostContext>,
    on_end: OnEnd,
    /// The process, once the instance has been created in it.
    process: Option<Arc<Process>>,
    /// `true` while the process has not answered CONNECT or HOOK, also if the engine waits no longer for the answer.
    is_called: bool,
}

impl IsolatedConnector {
    /// Starts the process, and creates the instance in it.
    async fn start(&self) -> Result<Arc<Process>> {
        let Self { settings, host, .. } = self;
        let clock = host.services().clock();
        let last = lock(&settings.last).clone();
        if let Some((process, ended)) = last {
            let process = process.upgrade();
            // A source that has ended and waits for acknowledgements still needs its process.
            if !process.as_ref().is_some_and(|it| it.is_acknowledging()) {
                // The last process may still listen at an address, or have locked a file.
                process.iter().for_each(|it| it.link.group.kill());
                drop(process);
                let ended = async {
                    _ = ended.recv().await;
                    Ok(())
                };
                within(&clock, ended).await?;
            }
        }
        let subject = &settings.subject;
        let hello = subject.hello(host.component(), host.folder());
        let on_end = self.on_end.clone();
        let (process, hello, ended) =
            Process::start(subject, hello, host, settings.hang_limit, on_end).await?;
        let process = Arc::new(process);
        *lock(&settings.last) = Some((Arc::downgrade(&process), ended));
        subject.check_welcome(&within(&clock, hello).await?)?;
        let created = process.link.call(Message::new(Kind::NEW).json(&self.config)).await?;
        let sides = subject.sides(&created)?;
        if sides != self.sides {
            return Err(Error::internal(format_args!(
                "the instance has the sides {sides:?}, but {:?} when its configuration was checked",
                self.sides
            )));
        }
        Ok(process)
    }

    /// Kills the process if it still works on a call for which the engine does not wait any more, and returns whether it
    /// does. Such a call cannot be cancelled in the process, and the next one would wait for it.
    fn end_cancelled(&mut self, process: &Process) -> bool {
        let is_called = std::mem::take(&mut self.is_called);
        if is_called {
            let reason = "its process was killed: it had not answered a call that was cancelled";
            process.link.kill(Error::timeout(reason));
        }
        is_called
    }

    async fn hook(&mut self, hook: Hook) -> Result<()> {
        let Some(process) = self.process.clone() else { return Ok(()) };
        let is_killed = self.end_cancelled(&process);
        let call = Message { a: hook.0.into(), ..Message::new(Kind::HOOK) };
        self.is_called = true;
        let answer = process.link.call(call).await;
        self.is_called = false;
        match answer {
            Err(_) if is_killed && hook == Hook::CLOSE => Ok(()),
            answer => answer?.check(),
        }
    }

    async fn connect(&mut self, wanted: Sides) -> Result<DynHalves> {
        let process = match &self.process {
            Some(process) => process.clone(),
            None => self.process.insert(self.start().await?).clone(),
        };
        let sides = u64::from(wanted.has_source()) | u64::from(wanted.has_sink()) << 1;
        let connect = Message { a: sides, ..Message::new(Kind::CONNECT) };
        self.end_cancelled(&process);
        self.is_called = true;
        let connected = process.link.call(connect).await;
        self.is_called = false;
        let connected = connected?;
        connected.check()?;
        let Connected { source, sink } = connected.read()?;
        let source = source.filter(|_| wanted.has_source()).map(|it| {
            Box::new(IsolatedSource::new(process.clone(), it.acks)) as Box<dyn DynSource>
        });
        let sink = sink.filter(|_| wanted.has_sink()).map(|demand| {
            let demand = Demand::from(tremor_abi::connector::Deliveries::from(demand));
            Box::new(IsolatedSink::new(process.clone(), demand)) as Box<dyn DynSink>
        });
        Ok(Halves { source, sink })
    }
}

impl DynConnector for IsolatedConnector {
    fn codec_requirement(&self) -> CodecRequirement {
        self.settings.subject.codec
    }

    fn sides(&self) -> Sides {
        self.sides
    }

    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        Box::pin(self.connect(wanted))
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.hook(hook))
    }
}
