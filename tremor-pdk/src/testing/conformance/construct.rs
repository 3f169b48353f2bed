//! Checks of constructors, for components of every kind.

use super::{
    config,
    process::Open,
    report::{Finding, Verdict, ensure, fault},
    subject::Subject,
};
use crate::{ErrorKind, testing::TestHost};

/// Number of instances that the checks of several instances create.
pub(super) const MANY: usize = 8;

pub(super) fn makes(subject: &Subject) -> Verdict {
    let host = subject.host();
    match subject.make_from(&subject.config, &host)? {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::CONFIGURATION => {
            return Err(Finding::skip(format_args!(
                "needs a configuration: {} is rejected: {error}",
                subject.config
            )));
        }
        Err(error) => {
            let seen = format!("`new` failed with an error of the kind {}: {error}", error.kind());
            let help = "return `Error::configuration`, the kind of all errors of `new`";
            return Err(fault(seen, help));
        }
    }
    Ok(())
}

pub(super) fn stays_inside(subject: &Subject) -> Verdict {
    let host = subject.host();
    let before = subject.is_alone.then(Open::now).flatten();
    let help = "move this from `Component::new` to `Connector::connect`, or to the first call that \
        needs it";
    let instance = subject.instance(&host)?;
    let asked = asked(&host);
    ensure(asked.is_none(), || format!("`new` {}", asked.unwrap_or_default()), help)?;
    if let Some(before) = &before {
        before.is_as_before("after `new`", help)?;
    }
    drop(instance);
    let Some(before) = before else { return Err(shared()) };
    before.is_as_before("after an instance was created and dropped", help)
}

/// Returns a description of a request that the constructor made to the host, if any. Constructors must not make
/// requests.
fn asked(host: &TestHost) -> Option<&'static str> {
    let state = host.0.lock();
    [
        (state.tasks.is_empty(), "starts a task"),
        (state.jobs.is_empty(), "starts work on another thread"),
        (!state.has_waits(), "waits for time or for a file descriptor"),
        (state.stop_requests.is_empty(), "requests the end of the run"),
        (state.connections_lost == 0, "reports that the connection is lost"),
    ]
    .into_iter()
    .find_map(|(is_good, what)| (!is_good).then_some(what))
}

/// Returns the reason for skipping the comparison of descriptors and threads.
pub(super) fn shared() -> Finding {
    Finding::skip(
        "other code runs in this process: `tremor plugin verify` compares descriptors and threads, \
         in a separate process",
    )
}

pub(super) fn many(subject: &Subject) -> Verdict {
    let before = subject.is_alone.then(Open::now).flatten();
    let help = "give every instance its own state and resources: a static is shared by all of them";
    let mut instances = Vec::new();
    for position in 1..=MANY {
        let made = subject.make_from(&subject.config, &subject.host())?;
        instances.push(made.map_err(|error| {
            fault(format_args!("instance {position} of {MANY} cannot be created: {error}"), help)
        })?);
    }
    drop(instances);
    before.map_or(Ok(()), |before| {
        let what = format!("after {MANY} instances were created and dropped unused");
        before.is_as_before(&what, "release in `Drop` the resources that `new` acquired")
    })
}

pub(super) fn unknown_key(subject: &Subject) -> Verdict {
    let config = config::with_unknown_key(&subject.config);
    let help = "add `#[tremor_pdk::config]` to the type, or `#[serde(deny_unknown_fields)]`";
    match subject.make_from(&config, &subject.host())? {
        Err(error) if error.kind() == ErrorKind::CONFIGURATION => Ok(()),
        Err(error) => {
            let kind = error.kind();
            Err(fault(format_args!("an unknown key is an error of the kind {kind}: {error}"), help))
        }
        Ok(_) => {
            Err(fault(format_args!("the unknown key `{}` is accepted", config::UNKNOWN), help))
        }
    }
}

pub(super) fn hostile(subject: &Subject) -> Verdict {
    for (what, config) in config::hostile(subject.schema.as_ref(), &subject.config) {
        let help = "check it in `new`, and return `Error::configuration`";
        match subject.make_from(&config, &subject.host()) {
            Ok(Err(error)) if error.kind() != ErrorKind::CONFIGURATION => {
                let kind = error.kind();
                return Err(fault(
                    format_args!("{what} is an error of the kind {kind}: {error}"),
                    help,
                ));
            }
            Ok(_) => {}
            Err(Finding::Fault { seen, .. }) => {
                return Err(fault(format_args!("with {what}: {seen}"), help));
            }
            Err(skip) => return Err(skip),
        }
    }
    Ok(())
}
