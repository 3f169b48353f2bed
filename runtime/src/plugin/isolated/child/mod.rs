//! The process of a plugin: calls one connector on request of the runtime.
//!
//! The main thread reads messages. It runs no code of the plugin, so it also answers while the plugin blocks threads.
//! Tasks of the executor call the connector, its source and its sink.

mod calls;
mod confine;
mod connector;
mod output;
mod services;
mod sink;
mod source;

use std::{
    convert::Infallible,
    ffi::OsString,
    future::Future,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use async_channel::{Receiver, Sender};
use tremor_pdk::{Error, ErrorPolicy, Result, lock};

use self::{
    calls::Calls, connector::ToConnector, output::Output, services::Services, sink::ToSink,
    source::ToSource,
};
use super::{
    body::{Hello, MetricBody},
    memory::{Memory, PULLS},
    message::{Kind, Message, Parser, VERSION},
};
use crate::{
    executor,
    plugin::{ConnectorFactory, HostContext, Library, program},
};

/// Maximum number of messages that wait for a task. If a task is blocked for so long, the runtime ends the process.
const WAITING: usize = 65_536;

/// State that the main thread and the tasks of the process share.
struct Shared {
    output: Output,
    memory: Memory,
    calls: Calls,
    /// Highest level of log lines that the runtime writes.
    log_level: AtomicU8,
    is_draining: AtomicBool,
    /// Senders to the tasks of the current connection.
    source: Mutex<Option<Half<ToSource>>>,
    sink: Mutex<Option<Half<ToSink>>>,
}

/// The main thread's end of a half of the current connection. The half ends when the value is dropped.
struct Half<T> {
    commands: Sender<T>,
    /// Tells the half that it was dropped, also while commands wait.
    _is_needed: Sender<Infallible>,
}

/// The messages of a half.
struct Commands<T> {
    commands: Receiver<T>,
    is_needed: Receiver<Infallible>,
}

impl<T> Commands<T> {
    /// Creates both ends.
    fn new() -> (Half<T>, Self) {
        let (sender, commands) = async_channel::bounded(WAITING);
        let (needs, is_needed) = async_channel::bounded(1);
        (Half { commands: sender, _is_needed: needs }, Self { commands, is_needed })
    }

    /// Completes with the next message, or `None` once the runtime has dropped the half.
    async fn next(&self) -> Option<T> {
        self.commands.recv().await.ok()
    }

    /// Returns the outcome of a call, or `None` if the runtime drops the half before. The call is cancelled then, because
    /// the runtime has given it up, and waits for the end of the half.
    async fn while_needed<O>(&self, call: impl Future<Output = O>) -> Option<O> {
        let dropped = async {
            _ = self.is_needed.recv().await;
            None
        };
        executor::first(async { Some(call.await) }, dropped).await
    }
}

/// Runs the hidden command `plugin-process`: calls the connector that the runtime on standard input requests.
///
/// Call this only in a separate process, because it runs the code of a plugin.
///
/// `library` is the library to load instead of the one that the runtime names. With it, the command can be that of an
/// executable.
pub fn process_main(library: Option<&Path>) -> ExitCode {
    let served = if program::end_with_parent() {
        serve(library)
    } else {
        Err(io::Error::other("the parent has ended"))
    };
    match served {
        // Code of the plugin that runs when a process ends regularly could block it.
        Ok(()) => confine::exit(0),
        Err(error) => {
            _ = writeln!(io::stderr(), "plugin-process: internal command of tremor: {error}");
            confine::exit(1)
        }
    }
}

/// Runs the hidden command `plugin-process` for an executable: limits this process to `memory` bytes, and replaces it
/// with the program and the arguments in `command`.
pub fn exec_main(memory: u64, command: &[OsString]) -> ExitCode {
    let begun = program::end_with_parent()
        .then_some(())
        .ok_or_else(|| io::Error::other("the parent has ended"))
        .and_then(|()| confine::limit(memory))
        .and_then(|()| command.split_first().ok_or_else(|| io::Error::other("no program")));
    let error = match begun {
        Ok((program, arguments)) => {
            confine::close_at_exec();
            Command::new(program).args(arguments).env_remove("TREMOR_THREADS").exec()
        }
        Err(error) => error,
    };
    let program = command.first().map(|it| it.display().to_string()).unwrap_or_default();
    _ = writeln!(io::stderr(), "cannot run `{program}`: {error}");
    confine::exit(127)
}

/// Serves the runtime until it closes the connection.
fn serve(library: Option<&Path>) -> io::Result<()> {
    let (socket, memory) = confine::take_descriptors()?;
    let mut input = Input { socket: socket.try_clone()?, parser: Parser::default() };
    let Some(first) = input.next()? else { return Ok(()) };
    let invalid = |error: Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    let mut hello: Hello = first.read().map_err(invalid)?;
    if let Some(library) = library {
        (hello.library, hello.hash) = (library.to_string_lossy().into_owned(), None);
    }
    let shared = Arc::new(Shared {
        output: Output::new(socket),
        memory: Memory::of(memory),
        calls: Calls::default(),
        log_level: AtomicU8::new(u8::try_from(first.b).unwrap_or_default()),
        is_draining: AtomicBool::new(false),
        source: Mutex::default(),
        sink: Mutex::default(),
    });
    let welcome = Message { a: VERSION, ..Message::answer(Kind::HELLO, first.call) };
    if first.kind != Kind::HELLO || first.a != VERSION {
        // The runtime compares the versions and reports the difference.
        return shared.output.send(&welcome);
    }
    // The limits hold for the initialisers of the library as well.
    let host = confine::limit(hello.memory)
        .map_err(|error| {
            let what = format_args!("cannot limit the memory of the process to {}", hello.memory);
            Error::from(error).context(what)
        })
        .and_then(|()| load(&hello))
        .map(|factory| {
            let services = Services::new(shared.clone(), hello.memory);
            (factory, HostContext::new(hello.component, hello.folder, services))
        });
    let (factory, host) = match host {
        Ok(created) => created,
        Err(error) => {
            shared.output.send(&welcome.failed(&error))?;
            // The runtime ends the process when it has read the error.
            while input.next()?.is_some() {}
            return Ok(());
        }
    };
    // Prepares timers.
    executor::block_on(async {});
    shared.output.send(&welcome)?;
    let (sender, commands) = async_channel::bounded(WAITING);
    executor::spawn(shared.clone().counted(connector::run(
        shared.clone(),
        factory,
        host.clone(),
        commands,
    )))
    .detach();
    while let Some(message) = input.next()? {
        if message.kind == Kind::PING {
            shared.answer_ping(&host, &message)?;
        } else {
            shared.dispatch(message, &sender);
        }
    }
    Ok(())
}

/// Loads the library.
fn load(hello: &Hello) -> Result<ConnectorFactory> {
    let configuration = |error: crate::plugin::Error| Error::configuration(error);
    let library = Library::inspect(Path::new(&hello.library)).map_err(configuration)?;
    let hash = library.hash().map(|hash| hash.to_string());
    if hello.hash.is_some() && hash != hello.hash {
        let error = Error::configuration(format_args!(
            "the library `{}` has changed since the flow was checked; reload the flow, or restore the library",
            hello.library
        ));
        // The flow must not fail because an operator prepares a reload.
        return Err(error.with_policy(ErrorPolicy::RECONNECT));
    }
    ConnectorFactory::load(&library, &hello.connector, hello.policy).map_err(configuration)
}

impl Shared {
    /// Answers PING with the number of the call that has blocked its thread longest, or 0, and sends the metrics first.
    fn answer_ping(&self, host: &HostContext, ping: &Message) -> io::Result<()> {
        self.log_level.store(u8::try_from(ping.a).unwrap_or_default(), Ordering::Relaxed);
        self.is_draining.store(ping.b != 0, Ordering::Relaxed);
        self.send_metrics(host)?;
        let a = self.calls.oldest();
        self.output.send(&Message { a, ..Message::answer(Kind::PING, ping.call) })
    }

    fn send_metrics(&self, host: &HostContext) -> io::Result<()> {
        let metrics: Vec<_> = host.metrics().snapshot().into_iter().map(MetricBody::from).collect();
        if metrics.is_empty() {
            return Ok(());
        }
        self.output.send(&Message::new(Kind::METRICS).json(&metrics))
    }

    /// Passes a message to the task that handles it. Messages for a half that does not exist are ignored: it has ended,
    /// and the runtime does not know that yet.
    fn dispatch(&self, message: Message, connector: &Sender<ToConnector>) {
        let Message { kind, call, slot, a, b, .. } = message;
        let to_source = |it| send(lock(&self.source).as_ref().map(|it| it.commands.clone()), it);
        let to_sink = |it| send(lock(&self.sink).as_ref().map(|it| it.commands.clone()), it);
        match kind {
            Kind::NEW | Kind::CONNECT | Kind::HOOK | Kind::CHECK => {
                send(Some(connector.clone()), ToConnector(message));
            }
            Kind::PULL => to_source(ToSource::Pull { call, pull: a, limit: b }),
            Kind::GIVE_UP if slot == PULLS => to_source(ToSource::GiveUp),
            Kind::ACK => to_source(ToSource::Ack(a)),
            Kind::FAIL => to_source(ToSource::Fail(a, message.read().unwrap_or_default())),
            Kind::UNDECODABLE => {
                to_source(ToSource::Undecodable(a, message.read().unwrap_or_default()));
            }
            Kind::BREAKER => to_source(ToSource::Breaker(a != 0)),
            Kind::CLOSE_SOURCE => to_source(ToSource::Close(call)),
            // Without a sender, the task ends and drops its half.
            Kind::DROP_SOURCE => *lock(&self.source) = None,
            Kind::GRANT => {
                if let Ok(grant) = message.read() {
                    to_sink(ToSink::Grant(grant));
                }
            }
            Kind::DELIVER => to_sink(ToSink::Deliver { call, slot, len: a }),
            Kind::GIVE_UP => to_sink(ToSink::GiveUp(slot)),
            Kind::TICK | Kind::FLUSH | Kind::CLOSE_SINK => to_sink(ToSink::Call(kind, call)),
            Kind::DROP_SINK => *lock(&self.sink) = None,
            _ => {}
        }
    }

    /// Returns a task whose polls are counted as calls into the plugin.
    fn counted<F: Future<Output = ()>>(
        self: Arc<Self>,
        task: F,
    ) -> impl Future<Output = ()> + use<F> {
        let mut task = Box::pin(task);
        std::future::poll_fn(move |context: &mut Context<'_>| -> Poll<()> {
            let _entered = self.calls.enter();
            task.as_mut().poll(context)
        })
    }

    /// Sends a message. If the runtime has ended, this process ends.
    fn send(&self, message: &Message) {
        if self.output.send(message).is_err() {
            confine::exit(0);
        }
    }
}

/// Passes a message to a task. Waits if the task has [`WAITING`] messages: the runtime ends this process after a while.
fn send<T>(to: Option<Sender<T>>, message: T) {
    if let Some(to) = to {
        // The task has ended if this fails.
        _ = to.send_blocking(message);
    }
}

/// Reader of the messages of the runtime.
struct Input {
    socket: std::os::unix::net::UnixStream,
    parser: Parser,
}

impl Input {
    /// Waits for the next message. Returns `None` once the runtime has closed the connection.
    fn next(&mut self) -> io::Result<Option<Message>> {
        let mut buffer = [0; 16 << 10];
        loop {
            let next = self.parser.next();
            let next = next.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if next.is_some() {
                return Ok(next);
            }
            match self.socket.read(&mut buffer) {
                Ok(len @ 1..) => self.parser.push(&buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return Ok(None),
            }
        }
    }
}
