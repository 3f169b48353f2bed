//! A plugin that misbehaves on demand: `config: { fault: … }`, see [`Fault`]. The
//! host must survive each of them with an error that says what happened.

pub mod config;

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tremor_pdk::prelude::*;

use config::{Config, Fault, Lost, hang};

/// The connector.
pub struct Hostile {
    config: Config,
    host: Host,
    /// Whether its source is finished.
    is_finished: Arc<AtomicBool>,
    connections: u32,
}

impl Hostile {
    /// What goes wrong with the connection at hand.
    fn fault(&self) -> Config {
        let is_early = self.config.lost.is_some() && self.connections < 2;
        let fault = if is_early { Fault::None } else { self.config.fault };
        Config { fault, ..self.config.clone() }
    }

    /// What becomes of it.
    fn lost(&self) -> Option<Lost> {
        self.config.lost.filter(|_| self.connections == 1)
    }
}

/// Fails in the way that the switch says, if it is the one that is set.
macro_rules! fault {
    ($config:expr, panic: $fault:ident) => {
        assert!(!$config.happens(Fault::$fault), "hostile: {:?}", Fault::$fault)
    };
    ($config:expr, hang: $fault:ident, $host:expr) => {
        if $config.happens(Fault::$fault) {
            tremor_pdk::debug!($host, "hostile: {:?}", Fault::$fault);
            pending::<()>().await;
        }
    };
    ($config:expr, block: $fault:ident, $host:expr) => {
        if $config.happens(Fault::$fault) {
            tremor_pdk::debug!($host, "hostile: {:?}", Fault::$fault);
            hang();
        }
    };
    ($config:expr, $kind:ident: $fault:ident) => {
        if $config.happens(Fault::$fault) {
            return Err(Error::$kind(format!("hostile: {:?}", Fault::$fault)));
        }
    };
}

/// Whether this is the process that checks configurations. Nothing keeps a plugin from finding out.
fn is_checked() -> bool {
    std::env::args().any(|argument| argument == "plugin-describe")
}

impl Component for Hostile {
    const NAME: &str = "hostile";
    const DESCRIPTION: &str = "Misbehaves on demand.";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        if is_checked() {
            fault!(config, configuration: CheckError);
            fault!(config, panic: CheckPanic);
            if config.happens(Fault::CheckCrash) {
                std::process::abort();
            }
            if config.happens(Fault::CheckHang) {
                hang();
            }
            if config.happens(Fault::CheckSpawn) {
                context.spawn("doomed", async {});
            }
        } else {
            fault!(config, configuration: ConstructorError);
            fault!(config, panic: ConstructorPanic);
            fault!(config, block: ConstructorBlock, context);
            if config.happens(Fault::TaskPanic) {
                context.spawn("doomed", async { panic!("hostile: {:?}", Fault::TaskPanic) });
            }
        }
        let host = context.into();
        Ok(Self { config, host, is_finished: Arc::default(), connections: 0 })
    }
}

impl Connector for Hostile {
    const CODEC: CodecRequirement = CodecRequirement::Optional("string");
    type Source = HostileSource;
    type Sink = HostileSink;

    async fn connect(&mut self, attempt: u64) -> Result<bool> {
        self.connections += u32::from(attempt == 1);
        let config = self.fault();
        fault!(config, authentication: ConnectError);
        fault!(config, panic: ConnectPanic);
        fault!(config, hang: ConnectHang, self.host);
        let refused = config.happens(Fault::ConnectRefused);
        if refused {
            tremor_pdk::debug!(self.host, "hostile: {:?}", Fault::ConnectRefused);
        }
        Ok(!refused)
    }

    async fn create_source(&mut self) -> Result<Option<HostileSource>> {
        let config = self.fault();
        fault!(config, panic: SourcePanic);
        fault!(config, hang: SourceHang, self.host);
        let (config, host) = (self.config.clone(), self.host.clone());
        let (is_finished, lost) = (self.is_finished.clone(), self.lost());
        Ok(Some(HostileSource { config, host, sent: 0, is_finished, lost }))
    }

    async fn create_sink(&mut self) -> Result<Option<HostileSink>> {
        let config = self.fault();
        fault!(config, panic: SinkPanic);
        fault!(config, hang: SinkHang, self.host);
        let (config, host) = (self.config.clone(), self.host.clone());
        let (is_finished, lost) = (self.is_finished.clone(), self.lost());
        Ok(Some(HostileSink { host, config, taken: 0, is_finished, lost }))
    }

    async fn on_start(&mut self) -> Result<()> {
        tremor_pdk::debug!(self.host, "starting with {:?}", self.config.fault);
        fault!(self.config, panic: StartPanic);
        fault!(self.config, hang: StartHang, self.host);
        Ok(())
    }

    async fn on_connection_established(&mut self) -> Result<()> {
        fault!(self.fault(), hang: EstablishedHang, self.host);
        Ok(())
    }

    async fn on_connection_lost(&mut self) -> Result<()> {
        fault!(self.config, hang: LostHang, self.host);
        Ok(())
    }

    async fn on_drain(&mut self) -> Result<()> {
        fault!(self.config, panic: DrainPanic);
        Ok(())
    }

    async fn on_stop(&mut self) -> Result<()> {
        fault!(self.config, internal: StopError);
        fault!(self.config, panic: StopPanic);
        if self.config.happens(Fault::StopHang) {
            pending::<()>().await;
        }
        Ok(())
    }
}

/// The source.
pub struct HostileSource {
    config: Config,
    host: Host,
    sent: u64,
    is_finished: Arc<AtomicBool>,
    lost: Option<Lost>,
}

impl Source for HostileSource {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        while self.sent < self.config.count && !batch.is_full() {
            if self.sent >= self.config.after {
                // What was sent before the fault is pulled before it.
                if !batch.is_empty() && self.faults_in_pulls() {
                    return Ok(Pull::Events);
                }
                fault!(self.config, internal: PullError);
                fault!(self.config, connection_lost: PullLost);
                fault!(self.config, panic: PullPanic);
                fault!(self.config, hang: PullHang, self.host);
                fault!(self.config, block: PullBlock, self.host);
            }
            batch.push_message(0, self.sent.to_string().as_bytes());
            self.sent += 1;
            if self.sent > self.config.after && self.config.happens(Fault::ForgedBatch) {
                forge(batch);
                return Ok(Pull::Events);
            }
        }
        if self.lost == Some(Lost::Later) {
            self.host.connection_lost();
        }
        if !batch.is_empty() {
            return Ok(Pull::Events);
        }
        self.is_finished.store(true, Ordering::Relaxed);
        Ok(Pull::Finished)
    }

    fn is_transactional(&self) -> bool {
        self.config.transactional
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        tremor_pdk::debug!(self.host, "pull {pull} was acknowledged");
        Ok(())
    }

    fn fail(&mut self, pull: u64) -> Result<()> {
        tremor_pdk::debug!(self.host, "pull {pull} has failed");
        Ok(())
    }
}

impl HostileSource {
    fn faults_in_pulls(&self) -> bool {
        use Fault::{PullBlock, PullError, PullHang, PullLost, PullPanic};
        [PullError, PullLost, PullPanic, PullHang, PullBlock].contains(&self.config.fault)
    }
}

/// Makes the last event of the batch a value that the batch does not have.
fn forge(batch: &mut Batch) {
    const KIND_OF_A_DOCUMENT: u8 = 2;
    const OFFSET_OF_THE_PAYLOAD: usize = 8;
    let Some(event) = batch.events_mut().last_mut() else { return };
    let event = std::ptr::from_mut(event).cast::<u8>();
    // SAFETY: an event is 56 bytes without a pointer in it, of which these are five; whatever they
    // are, it is an event.
    unsafe {
        event.write(KIND_OF_A_DOCUMENT);
        event.add(OFFSET_OF_THE_PAYLOAD).write_bytes(u8::MAX, size_of::<u32>());
    }
}

/// The sink.
pub struct HostileSink {
    host: Host,
    config: Config,
    taken: u64,
    is_finished: Arc<AtomicBool>,
    lost: Option<Lost>,
}

impl Sink for HostileSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery> {
        match self.lost {
            Some(Lost::First) => return Err(Error::connection_lost("hostile: Lost")),
            Some(Lost::Later) => self.host.connection_lost(),
            None => {}
        }
        let mut delivery = Delivery::done();
        if self.taken >= self.config.after {
            fault!(self.config, internal: DeliverError);
            fault!(self.config, connection_lost: DeliverLost);
            if self.config.happens(Fault::DeliverLostLate) {
                while !self.is_finished.load(Ordering::Relaxed) {
                    self.host.sleep(Duration::from_millis(1)).await;
                }
                return Err(Error::connection_lost("hostile: DeliverLostLate"));
            }
            fault!(self.config, timeout: DeliverTimeout);
            if self.config.fault == Fault::DeliverFull {
                tremor_pdk::debug!(self.host, "hostile: {:?}", Fault::DeliverFull);
            }
            fault!(self.config, full: DeliverFull);
            fault!(self.config, panic: DeliverPanic);
            fault!(self.config, hang: DeliverHang, self.host);
            fault!(self.config, block: DeliverBlock, self.host);
            if self.config.happens(Fault::DeliverWait) {
                tremor_pdk::debug!(self.host, "hostile: {:?}", Fault::DeliverWait);
                while !self.host.resolve("release").exists() {
                    self.host.sleep(Duration::from_millis(1)).await;
                }
            }
            if batch.len() > 1 && self.config.happens(Fault::DeliverPart) {
                delivery.retry(1..batch.len(), Error::full("hostile: DeliverPart"));
            }
            if self.config.happens(Fault::DeliverReject) {
                delivery.failed(0..batch.len(), Error::bad_data("hostile: DeliverReject"));
            }
            if self.config.happens(Fault::DeliverLie) {
                let behind = batch.len() + 1;
                delivery.failed(behind..behind + 1, Error::bad_data("hostile: DeliverLie"));
            }
        }
        self.taken += batch.len() as u64;
        Ok(delivery)
    }

    async fn on_signal(&mut self, _signal: Signal) -> Result<()> {
        fault!(self.config, panic: SignalPanic);
        fault!(self.config, hang: SignalHang, self.host);
        Ok(())
    }
}

macro_rules! panics_when_dropped {
    ($($component:ty),*) => {
        $(impl Drop for $component {
            fn drop(&mut self) {
                fault!(self.config, panic: DropPanic);
            }
        })*
    };
}

panics_when_dropped!(Hostile, HostileSource, HostileSink);

tremor_pdk::export! { connectors: [Hostile] }
