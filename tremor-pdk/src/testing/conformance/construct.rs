//! Checks of constructors, for components of every kind.

use super::{
    config,
    process::Open,
    report::{Finding, Verdict, ensure, fault},
    subject::Subject,
};
use crate::{ErrorKind, testing::TestHost};

/// How many instances there are at a time where there are many.
pub(super) const MANY: usize = 8;

pub(super) fn makes(subject: &Subject) -> Verdict {
    let host = subject.host();
    match subject.make_from(&subject.config, &host)? {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::CONFIGURATION => {
            return Err(Finding::skip(format_args!(
                "needs a configuration: {} is refused: {error}",
                subject.config
            )));
        }
        Err(error) => {
            let seen = format!("`new` failed with an error of the kind {}: {error}", error.kind());
            let help = "answer with `Error::configuration`, which is what an error of `new` is";
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
    before.is_as_before("after an instance was made and dropped", help)
}

/// What a constructor asked the host for, that none may.
fn asked(host: &TestHost) -> Option<&'static str> {
    let state = host.0.lock();
    [
        (state.tasks.is_empty(), "starts a task"),
        (state.jobs.is_empty(), "starts work on another thread"),
        (!state.has_waits(), "waits for time or for a file descriptor"),
        (state.stop_requests.is_empty(), "asks for the end of the run"),
        (state.connections_lost == 0, "says that the connection is lost"),
    ]
    .into_iter()
    .find_map(|(is_good, what)| (!is_good).then_some(what))
}

/// Why descriptors and threads were not compared.
pub(super) fn shared() -> Finding {
    Finding::skip(
        "other things run in this process: `tremor plugin verify` compares descriptors and threads, \
         in a process of its own",
    )
}

pub(super) fn many(subject: &Subject) -> Verdict {
    let before = subject.is_alone.then(Open::now).flatten();
    let help = "give every instance all that it needs: a static is shared by all of them";
    let mut instances = Vec::new();
    for position in 1..=MANY {
        let made = subject.make_from(&subject.config, &subject.host())?;
        instances.push(made.map_err(|error| {
            fault(format_args!("instance {position} of {MANY} cannot be made: {error}"), help)
        })?);
    }
    drop(instances);
    before.map_or(Ok(()), |before| {
        let what = format!("after {MANY} instances were made and dropped unused");
        before.is_as_before(&what, "free in `Drop` what `new` took")
    })
}

pub(super) fn unknown_key(subject: &Subject) -> Verdict {
    let config = config::with_unknown_key(&subject.config);
    let help = "write `#[tremor_pdk::config]` above the type, or `#[serde(deny_unknown_fields)]`";
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
        let help = "check it in `new`, and answer with `Error::configuration`";
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
