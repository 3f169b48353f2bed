//! Creation of components by a reload.

use std::{sync::Arc, thread, time::Duration};

use super::{outcome::run_ends, supervisor::Supervisor};
use crate::{executor, flow, reloads::Faulty, watchdog::Calls};

/// Maximum time in which a successor is on trial. A connector that has not tried to connect by then counts as started.
pub(super) const TRIAL: Duration = Duration::from_secs(30);

/// Creates components of a flow on a thread of its own, because a constructor may not return. `of` names the flow, and
/// describes the owner of the components. `create` gets the records of its calls into plugins, and a function that returns
/// `false` after the time limit.
pub(super) fn in_time<T: Send + 'static>(
    supervisor: &Supervisor,
    (flow, of): (&str, &str),
    create: impl FnOnce(&Arc<Calls>, &dyn Fn() -> bool) -> Result<T, flow::Error> + Send + 'static,
) -> Result<T, Faulty> {
    let Supervisor { run, clock, .. } = supervisor;
    if run.ends() {
        return Err(run_ends());
    }
    let (sender, created) = async_channel::bounded(1);
    let calls = supervisor.calls(flow);
    let records = calls.clone();
    let create = move || {
        let created = create(&records, &|| !sender.is_closed());
        // The receiver is gone after the time limit.
        _ = sender
            .try_send(created.map_err(|error| Faulty(error.to_string().trim_end().to_owned())));
    };
    let thread = thread::Builder::new().name("plan".to_owned()).spawn(create);
    thread.map_err(|error| Faulty(format!("error: cannot start a thread: {error}")))?;
    let failed =
        |how: &str| Err(Faulty(format!("error: the components of {of} were not created{how}")));
    let created = async {
        created.recv().await.unwrap_or_else(|_| failed(", because the thread has panicked"))
    };
    let late = async {
        clock.sleep(TRIAL).await;
        let blocked = calls.in_progress().join(", ");
        failed(&format!(" within {} s: these calls have not returned: {blocked}", TRIAL.as_secs()))
    };
    let ends = async {
        run.reloads().interrupted().await;
        Err(run_ends())
    };
    executor::block_on(executor::first(created, executor::first(late, ends)))
}
