//! Checks with loom. Each check is a process of its own, because the threads of a failed model cannot be unwound.

use std::{
    env, iter, panic,
    process::{self, Command, ExitCode},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

pub(crate) use ::loom::{cell::UnsafeCell, future::block_on, sync, thread};

use crate::{Model, models};

/// Checks every model without a fault and with each of its faults. The number of processes that run
/// at a time is the number of processor cores of the machine.
pub(crate) fn check_all() -> ExitCode {
    let cases = models().flat_map(|model| {
        let faults = model.faults.iter().map(move |fault| (model, Some(fault)));
        iter::once((model, None)).chain(faults)
    });
    let (cases, failed) = (Mutex::new(cases), AtomicUsize::new(0));
    let check = || {
        loop {
            let next = cases.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((model, fault)) = next else { break };
            let mut command = Command::new(env::current_exe().expect("this program has a path"));
            command.arg(model.name).args(fault.map(|(name, _)| name));
            let output = command.output().expect("this program can be started");
            let [stdout, stderr] =
                [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
            let is_as_expected = match fault {
                None => output.status.success(),
                Some((_, message)) => !output.status.success() && stderr.contains(message),
            };
            let case =
                fault.map_or(model.name.to_owned(), |(fault, _)| format!("{} {fault}", model.name));
            if is_as_expected {
                println!("ok      {case} {}", stdout.trim_end());
            } else {
                println!("FAILED  {case}: {}\n{stdout}{stderr}", output.status);
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..processors).for_each(|_| _ = scope.spawn(check));
    });
    ExitCode::from(u8::from(failed.into_inner() > 0))
}

/// Checks one model, and ends the process if it fails.
pub(crate) fn check(model: &'static Model) {
    panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        process::exit(1);
    }));
    static ORDERS: AtomicUsize = AtomicUsize::new(0);
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(model.preemptions);
    builder.check(|| {
        ORDERS.fetch_add(1, Ordering::Relaxed);
        (model.run)();
    });
    println!("in {} orders", ORDERS.load(Ordering::Relaxed));
}
