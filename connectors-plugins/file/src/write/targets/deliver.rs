//! Deliveries to the files that events name.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{
    Delivery, Demand, Error, ErrorPolicy, Exceptions, Host, RawBatch, RawEvent, Result,
    Undelivered, lock,
};

use super::{Answer, Groups, Targets, Written};
use crate::write::{syncing::Due, turns::Turn};

/// Maximum number of files to which a delivery is written on the thread of the task. A write to a file takes about 2 µs.
const INLINE_FILES: usize = 16;

/// Number of threads that sync files at the same time. Most disks process several syncs faster than one after the
/// other.
const SYNCING_THREADS: usize = 8;

/// Number of files above which the whole file system is synced once before each of them is synced at the end: a sync of
/// a thousand files took nine seconds otherwise, because the file system commits its journal for each file.
const MANY_FILES: usize = 32;

/// Limits of a delivery. Each delivery costs two system calls for each of its files, so it should have several events
/// for each file even if there are a thousand hosts. Larger deliveries would need more memory than the runtime keeps for
/// the next ones.
const MAX_EVENTS: usize = 16_384;
const MAX_BYTES: usize = 4 << 20;
const LINGER: Duration = Duration::from_millis(50);

impl Targets {
    /// Returns the limits of deliveries that suit many files.
    pub(in crate::write) const fn demand(demand: Demand) -> Demand {
        demand.max_events(MAX_EVENTS).max_bytes(MAX_BYTES).linger(LINGER)
    }

    /// Writes the events of a batch to their files, and waits until they are as durable as configured. Events that
    /// could not be written are the exceptions of the answer. All others are in their files.
    pub(in crate::write) async fn deliver(
        self: &Arc<Self>,
        host: &Host,
        batch: &RawBatch,
        turn: Turn,
    ) -> Delivery {
        let mut exceptions = Exceptions::none();
        let groups = {
            let mut namer = lock(&self.namer);
            let check = |event: RawEvent<'_>| self.check_end(event);
            Groups::of(batch, &mut namer, &mut exceptions, host.memory(), check)?
        };
        let (groups, answers) = self.write_groups(host, batch, groups, turn).await?;
        let mut errors: Vec<Option<Error>> = Vec::new();
        let mut written = Vec::new();
        for answer in answers {
            errors.push(match answer {
                Ok(part) => {
                    written.extend(part);
                    None
                }
                Err(error) if is_of_sink(&error) => return Err(error.into()),
                Err(error) => Some(error),
            });
        }
        make_durable(host, written).await?;
        if errors.iter().any(Option::is_some) {
            for (event, group) in groups.events(batch) {
                if let Some(Some(error)) = errors.get(group) {
                    exceptions.reject(event, error.clone());
                }
            }
        }
        exceptions.into()
    }

    /// Makes everything durable that was written to open files, also with `sync: never`.
    pub(in crate::write) async fn finish(&self, host: &Host) -> Result<()> {
        let outputs: Vec<_> = self.open().values().map(|it| it.output.clone()).collect();
        if outputs.len() > MANY_FILES
            && let Some(any) = outputs.first().cloned()
        {
            host.blocking(move || any.sync_file_system()).await?;
        }
        on_threads(host, outputs, |_, output| output.finish()).await
    }

    /// Writes each group to its file, on the thread of the task if that takes little time.
    async fn write_groups(
        self: &Arc<Self>,
        host: &Host,
        batch: &RawBatch,
        groups: Groups,
        turn: Turn,
    ) -> Result<(Groups, Vec<Answer>), Undelivered> {
        let mut answers: Vec<Option<Answer>> = Vec::new();
        answers.resize_with(groups.len(), || None);
        if groups.len() <= INLINE_FILES {
            self.write_inline(batch.bytes(), &groups, &mut answers);
        }
        if answers.iter().all(Option::is_some) {
            return Ok((groups, answers.into_iter().flatten().collect()));
        }
        // Shares the buffer with the writing thread instead of copying the events.
        let (targets, buffers) = (self.clone(), batch.part(0..0));
        let write = move || {
            let _turn = turn;
            targets.write(buffers.bytes(), &groups, &mut answers);
            (groups, answers.into_iter().flatten().collect())
        };
        Ok(host.blocking(write).await?)
    }

    /// Rejects a message that does not end in `message_end`, if incomplete messages have to be detected later.
    fn check_end(&self, event: RawEvent<'_>) -> Result<()> {
        if !self.waits_for_disk()
            || self.by_event.format.is_some()
            || event.raw().ends_with(self.config.message_end.as_bytes())
        {
            return Ok(());
        }
        Err(crate::write::output::no_message_end(
            &self.by_event.template,
            self.config.message_end.as_bytes(),
        ))
    }
}

/// Waits until all parts of a delivery are durable, and syncs their files itself once a sync is due.
async fn make_durable(host: &Host, mut parts: Vec<Written>) -> Result<()> {
    while !parts.is_empty() {
        let now_ns = host.monotonic_ns();
        let (mut due_now, mut wait_ns) = (Vec::new(), u64::MAX);
        parts.retain(|part| match part.due(now_ns) {
            Due::Never => false,
            Due::In(ns) => {
                wait_ns = wait_ns.min(ns);
                true
            }
            Due::Now => {
                due_now.push(part.clone());
                true
            }
        });
        if !due_now.is_empty() {
            on_threads(host, due_now, |host, part| part.sync(host.monotonic_ns())).await?;
        } else if !parts.is_empty() {
            host.sleep(Duration::from_nanos(wait_ns)).await;
        }
    }
    Ok(())
}

/// Calls `sync` for each file, on several threads. Syncs all files even if one of them fails, and returns the first
/// error.
async fn on_threads<T: Clone + Send + 'static>(
    host: &Host,
    files: Vec<T>,
    sync: impl Fn(&Host, &T) -> Result<()> + Copy + Send + 'static,
) -> Result<()> {
    let count = files.len().div_ceil(SYNCING_THREADS).max(1);
    let start = |files: &[T]| {
        let (files, host_of_job) = (files.to_vec(), host.clone());
        host.blocking(move || {
            let synced = files.iter().map(|file| sync(&host_of_job, file));
            synced.fold(Ok(()), Result::and)
        })
    };
    let jobs: Vec<_> = files.chunks(count).map(start).collect();
    let mut result = Ok(());
    for job in jobs {
        result = result.and(job.await.flatten());
    }
    result
}

/// Returns whether an error concerns the whole sink.
fn is_of_sink(error: &Error) -> bool {
    !matches!(error.policy(), ErrorPolicy::RETRY | ErrorPolicy::DEAD_LETTER)
}
