//! Checks of the life cycle of connectors.

use super::{
    call::{Calls, direct, poll_once},
    construct::shared,
    process::Open,
    report::{Verdict, ensure, fault},
    subject::{Connected, Subject, is_of_peer},
};
use tremor_abi::connector::Hook;

use crate::Batch;

pub(super) fn connects(subject: &Subject) -> Verdict {
    subject.connected().map(drop)
}

pub(super) fn life_cycle(subject: &Subject) -> Verdict {
    let mut connected = subject.connected()?;
    for _ in 0..2 {
        connected.hook(Hook::PAUSE)?;
        connected.hook(Hook::RESUME)?;
    }
    // A connector that is restarted while it is paused is closed without being resumed.
    connected.hook(Hook::PAUSE)?;
    connected.stop(true).map(drop)
}

pub(super) fn reconnects(subject: &Subject) -> Verdict {
    let mut connected = subject.connected()?;
    for _ in 0..2 {
        (connected.source, connected.acks, connected.sink) = (None, None, None);
        connected.connect()?;
    }
    connected.stop(true).map(drop)
}

/// Number of stages of a connector's life after which the check drops the connector.
const STAGES: usize = 7;

pub(super) fn drops_at_every_stage(subject: &Subject) -> Verdict {
    (0..STAGES).try_for_each(|last| drop_after(subject, last))
}

fn drop_after(subject: &Subject, last: usize) -> Verdict {
    let host = subject.host();
    let mut connector = subject.connector(&host)?;
    // If the runtime stops a connector during a call, it also drops the future of the call first.
    match last {
        0 => return Ok(()),
        1 => {
            let wanted = connector.sides();
            return poll_once(&mut connector.connect(wanted));
        }
        _ => {}
    }
    let calls = Calls { host, patience: subject.patience.clone() };
    let mut connected = Connected::new(connector, calls);
    connected.connect()?;
    match last {
        2 => {}
        3 => poll_once(&mut connected.connector.hook(Hook::START))?,
        4 => {
            // The connector is dropped before its sides.
            let Connected { connector, source, acks, sink, .. } = connected;
            drop(connector);
            drop((source, acks, sink));
        }
        5 => {
            let pulls = connected.source.is_some();
            let mut batch = Batch::new();
            if pulls {
                // The result is ignored, because only the drop is checked.
                let _ = connected.pull(1, &mut batch)?;
            }
        }
        _ => {
            connected.hook(Hook::START)?;
            if connected.sink.is_some() {
                let _ = connected.close()?;
            }
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
    let help = "in `Connector::close`, or when the last side is dropped, end the tasks and threads that the connector \
        has started with `Host::spawn`, `Host::blocking` or `std::thread`, and close the files and sockets that it \
        has opened";
    let mut before = None;
    // Only the second life cycle is checked, because a library may keep resources that it acquired in the first one.
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
            || format!("after `close`, {tasks} tasks and {jobs} `Host::blocking` calls still run"),
            help,
        )?;
    }
    before.ok_or_else(shared)?.is_as_before("after `close`", help)
}

pub(super) fn answers_the_circuit_breaker(subject: &Subject) -> Verdict {
    let mut connected = subject.with_source()?;
    let Some(source) = &mut connected.source else { return Ok(()) };
    for open in [true, true, false] {
        let answered = direct("on_circuit_breaker", || source.on_circuit_breaker(open))?;
        match answered {
            Err(error) if !is_of_peer(&error) => {
                let help = "return `Ok`: the call only notifies the source that a sink is down";
                return Err(fault(format_args!("`on_circuit_breaker` failed: {error}"), help));
            }
            _ => {}
        }
    }
    connected.stop(true).map(drop)
}
