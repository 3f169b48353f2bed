//! The switches.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tremor_pdk::schemars::{Schema, SchemaGenerator};

/// What goes wrong.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nothing: the source sends, the sink takes.
    None,
    /// The constructor returns an error, in a flow, of kind configuration.
    ConstructorError,
    /// The constructor panics, in a flow.
    ConstructorPanic,
    /// The constructor never returns, in a flow.
    ConstructorBlock,
    /// As `ConstructorError`, while the configuration is checked.
    CheckError,
    /// As `ConstructorPanic`, while the configuration is checked.
    CheckPanic,
    /// The constructor ends the process, while the configuration is checked.
    CheckCrash,
    /// As `ConstructorBlock`, while the configuration is checked.
    CheckHang,
    /// The constructor starts a task, while the configuration is checked.
    CheckSpawn,
    /// `connect` answers that it is not connected yet.
    ConnectRefused,
    /// `connect` returns an error of kind authentication, which is final.
    ConnectError,
    /// `connect` panics.
    ConnectPanic,
    /// `connect` is never ready.
    ConnectHang,
    /// `on_connection_established` is never ready.
    EstablishedHang,
    /// `on_connection_lost` is never ready.
    LostHang,
    /// `create_source` panics.
    SourcePanic,
    /// `create_source` is never ready.
    SourceHang,
    /// `create_sink` panics.
    SinkPanic,
    /// `create_sink` is never ready.
    SinkHang,
    /// `on_start` panics.
    StartPanic,
    /// `on_start` is never ready.
    StartHang,
    /// A pull returns an error of kind internal.
    PullError,
    /// A pull returns an error of kind connection lost.
    PullLost,
    /// A pull panics.
    PullPanic,
    /// A pull is never ready.
    PullHang,
    /// A pull never returns.
    PullBlock,
    /// A pull brings an event that points outside of its batch.
    ForgedBatch,
    /// A delivery returns an error of kind internal.
    DeliverError,
    /// A delivery returns an error of kind connection lost.
    DeliverLost,
    /// A delivery waits until the source of the same connector is finished, and then returns an
    /// error of kind connection lost.
    DeliverLostLate,
    /// A delivery returns an error of kind timeout.
    DeliverTimeout,
    /// A delivery returns an error of kind full.
    DeliverFull,
    /// A delivery takes the first of its events, and asks for the others again.
    DeliverPart,
    /// A delivery fails every event, with an error of kind bad data.
    DeliverReject,
    /// A delivery panics.
    DeliverPanic,
    /// A delivery is never ready.
    DeliverHang,
    /// A delivery is done once there is a file `release` in the folder of the flow.
    DeliverWait,
    /// A delivery never returns.
    DeliverBlock,
    /// A delivery is answered with events that it did not have.
    DeliverLie,
    /// A signal to the sink panics.
    SignalPanic,
    /// A signal to the sink is never ready.
    SignalHang,
    /// `on_drain` panics.
    DrainPanic,
    /// `on_stop` returns an error.
    StopError,
    /// `on_stop` panics.
    StopPanic,
    /// `on_stop` is never ready.
    StopHang,
    /// Dropping the connector, the source and the sink panics.
    DropPanic,
    /// A task on the host's executor panics, started by the constructor.
    TaskPanic,
}

/// What becomes of the first connection.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// It is lost with the first delivery, which fails.
    First,
    /// It is lost after the first delivery, which is done, or the first pull.
    Later,
}

/// Which fault, when, and what happens otherwise.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// What goes wrong.
    #[serde(default = "none")]
    #[schemars(schema_with = "fault_schema")]
    pub fault: Fault,
    /// How many events the source sends, or the sink takes, before the fault in a pull or a
    /// delivery.
    #[serde(default)]
    pub after: u64,
    /// How often the fault happens in this process, over all instances; always, if it is not set.
    #[serde(default)]
    pub times: Option<u32>,
    /// The first connection is lost in this way. Of connecting and of what follows it, only the
    /// second goes wrong.
    #[serde(default)]
    pub lost: Option<Lost>,
    /// How many events the source sends before it is finished: `0`, `1`, ….
    #[serde(default = "ten")]
    pub count: u64,
    /// Whether the source wants to know what becomes of its pulls: it logs that, for debugging.
    #[serde(default)]
    pub transactional: bool,
}

fn none() -> Fault {
    Fault::None
}

fn ten() -> u64 {
    10
}

/// How often a fault has happened in this process. A well-behaved plugin has no statics.
static HAPPENED: AtomicU32 = AtomicU32::new(0);

impl Config {
    /// Whether `fault` happens here and now.
    pub fn happens(&self, fault: Fault) -> bool {
        if self.fault != fault {
            return false;
        }
        let Some(times) = self.times else { return true };
        let count = |happened: u32| (happened < times).then_some(happened + 1);
        HAPPENED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

/// Blocks for good, or ends the process: `TREMOR_HOSTILE_SCHEMA` says what the schema does, as it
/// is made before there is a configuration.
fn fault_schema(generator: &mut SchemaGenerator) -> Schema {
    match std::env::var("TREMOR_HOSTILE_SCHEMA").as_deref() {
        Ok("panic") => panic!("hostile schema"),
        Ok("crash") => std::process::abort(),
        Ok("hang") => hang(),
        Ok("chatter") => chatter(),
        _ => {}
    }
    generator.subschema_for::<Fault>()
}

#[allow(clippy::print_stdout)] // that is what is wrong with it
fn chatter() {
    println!("{{\"hello\": \"this is not for you\"}}");
}

/// Never returns.
pub fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_hours(1));
    }
}
