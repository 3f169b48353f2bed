//! `cargo xtask disk-faults`: runs a flow with a queue on a disk whose writes and syncs fail for a while, that has no
//! space for a while, and that loses what was not synced, and with a queue that is larger than an ext4 file system.
//! Checks that no accepted event is lost, and that the flow continues soon after the remedy.

mod clients;
mod ext4;

use std::time::{Duration, Instant};
use std::{fmt::Display, path::Path, thread};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use self::clients::Clients;
use self::ext4::Ext4;
use crate::lossy::{Faults, Loss, LossyDisk};
use crate::outage::peer::{Behaviour, Pace, Peer};
use crate::outage::received::{Form, Received};
use crate::poster::address;
use crate::process::{Process, wait};
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage, csv};

/// Number of clients.
const CLIENTS: usize = 8;
/// Time without an answer after which the flow counts as stopped by a fault.
const STALL: Duration = Duration::from_secs(1);
/// Maximum time from the remedy to the first event that is accepted.
const RECOVERY: Duration = Duration::from_secs(5);
/// Time of an answer of the peer.
const PACE: Pace = Pace { usual: Duration::from_millis(1), slow: Duration::from_millis(1) };

/// The part on a file system that fails on request.
const LOSSY: &str = "lossy";
/// The part on an ext4 file system without space for the queue.
const EXT4: &str = "ext4";
/// Bytes of the ext4 file system.
const SMALL: u64 = 256 << 20;
/// Lengths of events in bytes. The longer ones fill a disk.
const SHORT: usize = 4_000;
const LONG: usize = 64_000;

/// Faults of the disk, in their order, and whether the peer of the sink is down meanwhile. It is up during every other
/// fault, so that the queue does not reach its limit. The first round begins without space, because later the queue has
/// files for more events.
const TURNS: [(Fault, bool); 6] = [
    (Fault::NoSpace, true),
    (Fault::Errors, false),
    (Fault::Errors, true),
    (Fault::Sporadic, false),
    (Fault::PowerLoss, true),
    (Fault::PowerLoss, false),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Duration of each fault, in seconds
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// Number of rounds, in each of which every fault occurs once. The queue grows in each
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=3))]
    rounds: u32,
    /// Seed of the data that survives losses of power
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Fault {
    /// Each write and each sync fails with EIO.
    Errors,
    /// An operation fails with a probability of a quarter.
    Sporadic,
    /// The disk has no space for longer files.
    NoSpace,
    /// The process is killed, and data that was not synced is lost.
    PowerLoss,
}

/// Figures of a fault.
#[derive(Clone, Copy, Debug, Serialize)]
struct Turn {
    fault: Fault,
    is_peer_down: bool,
    /// Number of events that were accepted before the fault.
    accepted: u64,
    /// Number of events that were accepted during the fault.
    meanwhile: u64,
    /// Time from the remedy, such as the start of the next process, to the first event that is accepted.
    recovery_ms: u128,
}

/// Figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Reason why the part did not run; empty if it did.
    skipped: String,
    turns: Vec<Turn>,
    /// Number of events that were accepted.
    accepted: u64,
    /// Number of accepted events that the peer has not received.
    lost: u64,
    again: u64,
    torn: u64,
    /// Number of segments of the queue on the full file system.
    segments: Option<usize>,
}

impl Scenario for Arguments {
    const NAME: &'static str = "disk-faults";
    const PLUGINS: &'static [&'static str] = &["connector-http", "fixture-answered"];
    const PARTS: &'static [&'static str] = &[LOSSY, EXT4];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let skipped = |error: anyhow::Error| {
            let skipped = format!("SKIPPED: disk-faults {}: {error:#}", stage.part);
            eprintln!("{skipped}");
            Found { skipped, ..Found::default() }
        };
        if stage.part == EXT4 {
            return match Ext4::mount(SMALL) {
                Ok(disk) => self.fill(stage, &disk),
                Err(error) => Ok(skipped(error)),
            };
        }
        match LossyDisk::mount(self.seed) {
            Ok(disk) => self.disturb(stage, disk),
            Err(error) => Ok(skipped(error)),
        }
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let Found { skipped, turns, accepted, lost, again, torn, segments } = found;
        let mut judgement = Judgement::default();
        if !skipped.is_empty() {
            judgement.line(skipped);
            return Ok(judgement);
        }
        judgement.line(format_args!("each fault lasts {} s", self.seconds));
        let text = format!("{lost} of {accepted} accepted events, 0 allowed");
        judgement.add("lost", text, *lost == 0 && *accepted > 0);
        judgement.add("torn", format!("{torn} events, 0 allowed"), *torn == 0);
        judgement.add("again", format!("{again} events were received again"), true);
        if let Some(segments) = segments {
            let text = format!("{segments} when the file system was full, at least 3 required");
            judgement.add("segments", text, *segments >= 3);
        }
        for turn in turns {
            let peer = if turn.is_peer_down { "down" } else { "up" };
            let text = format!(
                "{:?}, peer {peer}: {} ms from the remedy to an accepted event, {} ms allowed; {} events were accepted \
                 before, and {} during the fault",
                turn.fault,
                turn.recovery_ms,
                RECOVERY.as_millis(),
                turn.accepted,
                turn.meanwhile
            );
            judgement.add("recovery", text, turn.recovery_ms <= RECOVERY.as_millis());
        }
        judgement.files.push(("turns.csv", csv(turns)?));
        Ok(judgement)
    }
}

impl Arguments {
    /// Causes each fault of a file system that fails on request.
    fn disturb(&self, stage: &Stage<'_>, mut disk: LossyDisk) -> Result<Found> {
        let mut run = Run::start(stage, disk.path(), 256, SHORT)?;
        for (fault, is_peer_down) in TURNS.repeat(self.rounds as usize) {
            let turn = self.turn(&mut run, (fault, is_peer_down), &mut disk);
            run.turns.push(turn.with_context(|| format!("{fault:?}, peer down: {is_peer_down}"))?);
        }
        run.finish()
    }

    /// Causes a fault, ends it, and waits for the first event that is accepted after it.
    fn turn(
        &self,
        run: &mut Run<'_>,
        (fault, is_peer_down): (Fault, bool),
        disk: &mut LossyDisk,
    ) -> Result<Turn> {
        run.peer.turn(if is_peer_down { Behaviour::Stopped } else { Behaviour::Answers })?;
        thread::sleep(STALL);
        let accepted = run.clients.answers().count;
        match fault {
            Fault::Errors => disk.set_faults(Faults { is_failing: true, ..Faults::default() }),
            Fault::Sporadic => disk.set_faults(Faults { one_in: 4, ..Faults::default() }),
            Fault::NoSpace => {
                disk.set_faults(Faults { capacity: Some(disk.used()), ..Faults::default() });
            }
            Fault::PowerLoss => run.process.kill()?,
        }
        if fault == Fault::PowerLoss {
            disk.restart(Some(Loss::Some))?;
        } else {
            if fault != Fault::Sporadic {
                // A disk without space still has that of segments that exist.
                run.stall()?;
            }
            thread::sleep(Duration::from_secs_f64(self.seconds));
            run.process.expect_alive()?;
        }
        let meanwhile = run.clients.answers().count - accepted;
        // At most one event of each client was durable when the fault began.
        let is_silent = fault != Fault::Errors || meanwhile <= CLIENTS as u64;
        ensure!(is_silent, "{meanwhile} events were accepted while syncs fail");
        run.clients.restart_time();
        let remedy = Instant::now();
        disk.set_faults(Faults::default());
        if fault == Fault::PowerLoss {
            run.process = run.stage.start("tremor", &["flow.yaml"])?;
            run.clients.turn_to(address(&mut run.process)?);
        }
        let recovery_ms = run.recovery(remedy)?;
        Ok(Turn { fault, is_peer_down, accepted, meanwhile, recovery_ms })
    }

    /// Fills a file system that is smaller than the limit of the queue. The remedy is a peer that works.
    fn fill(&self, stage: &Stage<'_>, disk: &Ext4) -> Result<Found> {
        let mut run = Run::start(stage, &disk.path(), 320, LONG)?;
        run.peer.turn(Behaviour::Stopped)?;
        run.stall()?;
        let (fault, is_peer_down) = (Fault::NoSpace, true);
        let segments = Ext4::segments(&disk.path().join("queue"))?;
        let accepted = run.clients.answers().count;
        thread::sleep(Duration::from_secs_f64(self.seconds));
        run.process.expect_alive()?;
        let meanwhile = run.clients.answers().count - accepted;
        run.clients.restart_time();
        let remedy = Instant::now();
        run.peer.turn(Behaviour::Answers)?;
        let recovery_ms = run.recovery(remedy)?;
        run.turns.push(Turn { fault, is_peer_down, accepted, meanwhile, recovery_ms });
        Ok(Found { segments: Some(segments), ..run.finish()? })
    }
}

/// A flow with clients and a peer.
struct Run<'a> {
    stage: &'a Stage<'a>,
    peer: Peer,
    process: Process,
    clients: Clients,
    turns: Vec<Turn>,
}

impl<'a> Run<'a> {
    /// Starts a flow whose queue is on the file system at `folder`, with a limit in MiB, and clients whose events have
    /// `len` bytes.
    fn start(stage: &'a Stage<'a>, folder: &Path, limit: u64, len: usize) -> Result<Self> {
        let values: [(_, &dyn Display); 2] = [("FOLDER", &folder.display()), ("LIMIT", &limit)];
        stage.flow("flow.yaml", include_str!("../flows/disk_faults.yaml"), &values)?;
        let mut peer = Peer::new(&stage.folder.join("peer"), PACE, Received::new(Form::Lines, 1));
        peer.turn(Behaviour::Answers)?;
        let mut process = stage.start("tremor", &["flow.yaml"])?;
        let clients = Clients::start(CLIENTS, address(&mut process)?, len);
        Ok(Self { stage, peer, process, clients, turns: Vec::new() })
    }

    /// Waits until no event was accepted for a while.
    fn stall(&self) -> Result<()> {
        let begun = Instant::now();
        wait("a stop of the flow", PATIENCE, || {
            let last = self.clients.answers().last.unwrap_or(begun).max(begun);
            Ok((last.elapsed() >= STALL).then_some(()))
        })
    }

    /// Returns the time from the remedy to the first event that is accepted after it, in milliseconds.
    fn recovery(&mut self, remedy: Instant) -> Result<u128> {
        let clients = &self.clients;
        let first =
            self.process.until("an accepted event", PATIENCE, |_| Ok(clients.answers().first))?;
        Ok(first.saturating_duration_since(remedy).as_millis())
    }

    /// Waits until the peer has all events, and ends the process.
    fn finish(mut self) -> Result<Found> {
        self.peer.turn(Behaviour::Answers)?;
        let accepted = self.clients.finish()?;
        let peer = &self.peer;
        // An event that the peer lacks after that is lost, and is reported as a result.
        let _ = wait("all events", PATIENCE, || {
            Ok(peer.ask(|it| it.missing(accepted) == 0).then_some(()))
        });
        self.process.stop(PATIENCE)?;
        let turns = self.turns;
        Ok(self.peer.ask(|received| Found {
            turns,
            accepted,
            lost: received.missing(accepted),
            again: received.again,
            torn: received.torn,
            ..Found::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(change: fn(&mut Found)) -> usize {
        let turn = Turn {
            fault: Fault::Errors,
            is_peer_down: true,
            accepted: 9,
            meanwhile: 0,
            recovery_ms: 5_000,
        };
        let mut found =
            Found { turns: vec![turn], accepted: 9, segments: Some(3), ..Found::default() };
        change(&mut found);
        let arguments = Arguments { seconds: 1.0, rounds: 1, seed: 1 };
        arguments.judge(&found).expect("the table can be written").broken
    }

    #[test]
    fn each_guarantee_is_broken_by_its_own_fault() {
        for (name, change, expected) in [
            ("nothing", (|_| {}) as fn(&mut Found), 0),
            ("a lost event", |found| found.lost = 1, 1),
            ("no event at all", |found| found.accepted = 0, 1),
            ("a torn event", |found| found.torn = 1, 1),
            ("too few segments", |found| found.segments = Some(2), 1),
            ("a late recovery", |found| found.turns[0].recovery_ms += 1, 1),
        ] {
            assert_eq!(broken(change), expected, "{name}");
        }
    }
}
