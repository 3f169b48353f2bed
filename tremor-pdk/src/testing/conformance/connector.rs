//! Checks of the life of a connector.

use super::{
    call::{Calls, direct, poll_once},
    construct::shared,
    process::Open,
    report::{Verdict, ensure, fault},
    subject::{Connected, Subject, is_of_peer},
};
use crate::Batch;

pub(super) fn connects(subject: &Subject) -> Verdict {
    subject.connected().map(drop)
}

pub(super) fn life_cycle(subject: &Subject) -> Verdict {
    let mut connected = subject.connected()?;
    for _ in 0..2 {
        connected.call("on_pause", |connector| connector.on_pause())?;
        connected.call("on_resume", |connector| connector.on_resume())?;
    }
    // What is drained while it is paused ends without being resumed.
    connected.call("on_pause", |connector| connector.on_pause())?;
    connected.stop(true).map(drop)
}

pub(super) fn reconnects(subject: &Subject) -> Verdict {
    let mut connected = subject.connected()?;
    let sides = (connected.source.is_some(), connected.sink.is_some());
    for _ in 0..2 {
        (connected.source, connected.acks, connected.sink) = (None, None, None);
        connected.call("on_connection_lost", |connector| connector.on_connection_lost())?;
        connected.connect()?;
        let again = (connected.source.is_some(), connected.sink.is_some());
        ensure(
            again == sides,
            || format!("the first connection had {}, one after it {}", text(sides), text(again)),
            "keep in the connector what a further source or sink needs: they live as long as one \
             connection",
        )?;
    }
    connected.stop(true).map(drop)
}

fn text((source, sink): (bool, bool)) -> &'static str {
    match (source, sink) {
        (true, true) => "a source and a sink",
        (true, false) => "a source and no sink",
        (false, true) => "a sink and no source",
        (false, false) => "no side at all",
    }
}

/// The calls after each of which a connector is dropped.
const STAGES: usize = 7;

pub(super) fn drops_at_every_stage(subject: &Subject) -> Verdict {
    (0..STAGES).try_for_each(|last| drop_after(subject, last))
}

fn drop_after(subject: &Subject, last: usize) -> Verdict {
    let host = subject.host();
    let mut connector = subject.connector(&host)?;
    // As the runtime drops it that is stopped in the midst of a call: its future first.
    match last {
        0 => return Ok(()),
        1 => return poll_once(&mut connector.connect(1)),
        _ => {}
    }
    let calls = Calls { host, patience: subject.patience.clone() };
    let mut connected = Connected::new(connector, calls);
    connected.connect()?;
    match last {
        2 => {}
        3 => poll_once(&mut connected.connector.on_start())?,
        4 => {
            // The connector goes first, and its sides after it.
            let Connected { connector, source, acks, sink, .. } = connected;
            drop(connector);
            drop((source, acks, sink));
        }
        5 => {
            let pulls = connected.source.is_some();
            let mut batch = Batch::new();
            if pulls {
                // Given up or not, whatever came of it.
                let _ = connected.pull(1, &mut batch)?;
            }
        }
        _ => {
            connected.call("on_start", |connector| connector.on_start())?;
            connected.call("on_drain", |connector| connector.on_drain())?;
        }
    }
    Ok(())
}

pub(super) fn stops_without_a_drain(subject: &Subject) -> Verdict {
    let mut connected = subject.connected()?;
    if connected.source.is_some() {
        let _ = connected.pull(2, &mut Batch::new())?;
    }
    if connected.sink.is_some() {
        let _ = connected.deliver(&Batch::new())?;
    }
    connected.stop(false).map(drop)
}

pub(super) fn leaves_nothing(subject: &Subject) -> Verdict {
    let help = "end in `Connector::on_stop`, or when the last side is dropped, what was started with \
        `Host::spawn`, `Host::blocking` or `std::thread`, and close what was opened";
    let mut before = None;
    // The second life is compared: what the first has left for it is the library's, and stays.
    for _ in 0..2 {
        before = subject.is_alone.then(Open::now).flatten();
        let mut connected = subject.connected()?;
        if connected.source.is_some() {
            let _ = connected.pull(3, &mut Batch::new())?;
        }
        let host = connected.stop(true)?;
        let (tasks, jobs) = host.0.left_over();
        ensure(
            tasks + jobs == 0,
            || format!("after `on_stop`, {tasks} tasks and {jobs} pieces of work still run"),
            help,
        )?;
    }
    before.ok_or_else(shared)?.is_as_before("after `on_stop`", help)
}

pub(super) fn answers_the_circuit_breaker(subject: &Subject) -> Verdict {
    let mut connected = subject.with_source()?;
    let Some(source) = &mut connected.source else { return Ok(()) };
    for open in [true, true, false] {
        let answered = direct("on_circuit_breaker", || source.on_circuit_breaker(open))?;
        match answered {
            Err(error) if !is_of_peer(&error) => {
                let help = "answer `Ok`: it is only told that a sink is down";
                return Err(fault(format_args!("`on_circuit_breaker` failed: {error}"), help));
            }
            _ => {}
        }
    }
    connected.stop(true).map(drop)
}
