//! Membership in the consumer group: a task serves the events of the group and the brokers, even while the flow is
//! blocked.
//!
//! librdkafka reports each change of the assignment inside a poll, and continues the rebalance only after the change
//! was answered. The poll only records the change, and the task answers it later: revoked partitions are first drained
//! and then released, and all other partitions are read meanwhile.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    Message, Offset, TopicPartitionList, consumer::Consumer, error::KafkaError,
    types::RDKafkaErrorCode,
};
use tremor_pdk::{Blocking, debug, info, net::within, prelude::*, warn};

use super::{
    client::Client,
    context::{Change, Name},
    partitions::Position,
    shared::{Shared, list},
    start,
};
use crate::client::explain;

/// Maximum time for which the task sleeps before it polls the event queue again, because the group considers a member
/// stuck if it polls too rarely. A failed search for start offsets is also repeated after this time.
const IDLE: Duration = Duration::from_secs(1);

/// Maximum time to wait for a commit before partitions are released. After that they are released without the commit.
const LAST_COMMIT: Duration = Duration::from_secs(4);

/// Delay before a commit that the group rejected because of a rebalance is retried.
const COMMIT_RETRY: Duration = Duration::from_millis(50);

/// The task that is a member of the consumer group.
pub(super) struct Member {
    shared: Arc<Shared>,
    /// Changes of the assignment that wait to be handled.
    changes: VecDeque<Change>,
    leaving: Option<Leaving>,
    next_commit: Instant,
    /// The commit in flight and its positions. At most one commit is in flight at a time.
    commit: Option<(Commit, Vec<Position>)>,
    /// `true` if the last commit failed. Further failures in a row are not logged.
    has_failed: bool,
}

/// Guard that makes pulls fail if the member task panics. Otherwise the source would continue to read, and nothing
/// would be committed.
struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(Error::internal("the task of the group member panicked"));
        }
    }
}

/// A commit in flight, which completes with its result.
type Commit = Blocking<Result<(), KafkaError>>;

/// Revoked partitions that are being drained, and the deadline at which they are released.
struct Leaving {
    names: Vec<Name>,
    until: Instant,
}

impl Member {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            next_commit: Instant::now() + shared.settings.commit_interval,
            shared,
            changes: VecDeque::new(),
            leaving: None,
            commit: None,
            has_failed: false,
        }
    }

    /// Runs until the task is dropped or the client has ended.
    pub(super) async fn run(mut self) {
        let _fail_on_panic = FailOnPanic(self.shared.clone());
        loop {
            if let Some((result, positions)) = self.wait().await {
                self.commit = None;
                self.committed(result, &positions);
            }
            let Some(client) = self.shared.client() else { return };
            self.serve_queue(&client);
            self.serve_changes(&client).await;
            self.restart_stopped(&client).await;
            self.commit(&client);
        }
    }

    /// Waits for an event, the end of a drain or the time of the next commit. If the commit in flight has ended,
    /// returns its result and its positions.
    async fn wait(&mut self) -> Option<(Result<Result<(), KafkaError>>, Vec<Position>)> {
        let client = self.shared.client()?;
        let now = Instant::now();
        let mut until = self.next_commit.min(now + IDLE);
        if let Some(leaving) = &self.leaving {
            until = until.min(leaving.until);
        }
        let mut timer = pin!(self.shared.host.sleep(until.saturating_duration_since(now)));
        let names = self.leaving.as_ref().map(|it| &it.names);
        let mut answered = None;
        poll_fn(|context| {
            if client.context().signal.poll(context).is_ready() {
                return Poll::Ready(());
            }
            if let Some((commit, positions)) = &mut self.commit
                && let Poll::Ready(result) = Pin::new(commit).poll(context)
            {
                let positions = std::mem::take(positions);
                answered = Some((result, positions));
                return Poll::Ready(());
            }
            // Poll acknowledgements only during a drain; otherwise every acknowledgement would wake this task.
            if let Some(names) = names {
                let mut state = self.shared.state();
                while Shared::poll_acks(&mut state, context).is_ready() {}
                if state.partitions.are_settled(names) {
                    return Poll::Ready(());
                }
            }
            timer.as_mut().poll(context)
        })
        .await;
        answered
    }

    /// Polls librdkafka until no event is pending, and collects the changes of the assignment.
    fn serve_queue(&mut self, client: &Client) {
        loop {
            let callbacks = client.context().callbacks();
            match client.poll(Duration::ZERO) {
                // librdkafka reports these errors to the context as well, together with a reason.
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    let (code, text) =
                        client.client().fatal_error().unwrap_or((code, String::new()));
                    let error = explain(&KafkaError::MessageConsumptionFatal(code), &text);
                    self.shared.fail(error.context("the Kafka client failed"));
                }
                Some(Err(_)) => {}
                Some(Ok(record)) => {
                    self.reroute(client, record.topic(), record.partition(), record.offset());
                }
                None if client.context().callbacks() != callbacks => {}
                None => break,
            }
        }
        self.changes.extend(client.context().take());
        if let Some(error) = client.context().diagnostics.final_error() {
            self.shared.fail(error);
        }
    }

    /// Resumes the partitions that this member keeps. librdkafka pauses them before it reports a change, but they must
    /// not wait until revoked partitions are drained.
    async fn resume_staying(&self, client: &Arc<Client>) {
        let mut names = self.shared.state().partitions.staying();
        for change in &self.changes {
            if let Change::Revoked { list, .. } = change {
                names.retain(|name| !list.contains(name));
            }
        }
        let own = client.clone();
        let result = self.shared.host.blocking(move || own.resume(&names)).await;
        if let Err(error) = flatten(result) {
            warn!(
                self.shared.host,
                "cannot resume partitions before the end of the rebalance: {error}"
            );
        }
    }

    /// Handles a record that arrived in the event queue: forwards its partition to the queue of records again, and
    /// seeks back to the record so that it is not lost.
    fn reroute(&self, client: &Client, topic: &str, partition: i32, offset: i64) {
        let name = (Arc::from(topic), partition);
        let position = list(&[Position { name, offset }]);
        let again = client
            .route(topic, partition)
            .and(position)
            .and_then(|position| client.seek_partitions(position, Duration::ZERO));
        if let Err(error) = again {
            let doing = format!("cannot read partition {partition} of `{topic}`");
            self.shared.fail(explain(&error, "").context(doing));
        }
    }

    /// Handles changes of the assignment, and completes a drain that has ended.
    async fn serve_changes(&mut self, client: &Arc<Client>) {
        // An assignment without partitions is answered at once. The answer ends the pause too, and takes no longer than
        // resuming.
        if self.changes.iter().any(|it| !matches!(it, Change::Assigned(names) if names.is_empty()))
        {
            self.resume_staying(client).await;
        }
        loop {
            if let Some(Leaving { names, until }) = self.leaving.take() {
                let is_settled = {
                    let mut state = self.shared.state();
                    Shared::apply_acks(&mut state);
                    state.partitions.are_settled(&names)
                };
                let are_lost = client.assignment_lost();
                if !is_settled && !are_lost && Instant::now() < until {
                    self.leaving = Some(Leaving { names, until });
                    return;
                }
                if !is_settled && !are_lost {
                    self.shared.meters.drains_timed_out.add(1);
                    warn!(
                        self.shared.host,
                        "released {} partitions before all of their records were acknowledged, because that took longer \
                         than `drain_timeout`: records that are not acknowledged are delivered twice",
                        names.len()
                    );
                }
                self.release(client, names, !are_lost).await;
            }
            match self.changes.pop_front() {
                Some(Change::Assigned(names)) => self.assign(client, names).await,
                Some(Change::Revoked { list: names, are_lost }) => {
                    self.revoked(client, names, are_lost).await;
                }
                None => return,
            }
        }
    }

    /// Restarts partitions that librdkafka has stopped reading because they had no record at their offset. They are
    /// released and assigned again, starting with their oldest record, because librdkafka does not seek in stopped
    /// partitions.
    async fn restart_stopped(&self, client: &Arc<Client>) {
        // During a rebalance, librdkafka would treat the new assignment as the answer to the rebalance.
        if self.leaving.is_some() || client.assignment_lost() {
            return;
        }
        let names = self.shared.state().partitions.take_stopped();
        if names.is_empty() {
            return;
        }
        let (own, stopped) = (client.clone(), names.clone());
        let result = self.shared.host.blocking(move || {
            let mut list = TopicPartitionList::with_capacity(stopped.len());
            for (topic, partition) in &stopped {
                list.add_partition_offset(topic, *partition, Offset::Beginning)?;
            }
            own.incremental_unassign(&list)?;
            // librdkafka answers this request after it has released the partitions.
            own.assignment()?;
            stopped.iter().try_for_each(|(topic, partition)| own.route(topic, *partition))?;
            own.incremental_assign(&list)?;
            own.wake_brokers()
        });
        if let Err(error) = flatten(result.await) {
            let doing = format!("cannot restart {}", Shown(&names));
            self.shared.fail(error.context(doing));
        }
    }

    async fn assign(&mut self, client: &Arc<Client>, mut names: Vec<Name>) {
        let host = &self.shared.host.clone();
        self.shared.meters.rebalances.add(1);
        let positions = loop {
            if names.is_empty() {
                break TopicPartitionList::new();
            }
            match start::find(host, client, &names, self.shared.settings.start).await {
                Ok(positions) => break positions,
                Err(error) => warn!(host, "{error}; retrying"),
            }
            host.sleep(IDLE).await;
            self.serve_queue(client);
            if client.assignment_lost() {
                // The partitions are lost. Answer this change without them: librdkafka reports the loss after the
                // answer.
                names.clear();
            }
        };
        {
            let mut state = self.shared.state();
            state.partitions.assign(&names);
            for element in positions.elements() {
                if let Offset::Offset(offset) = element.offset() {
                    state.partitions.set_start(element.topic(), element.partition(), offset);
                }
            }
            self.shared.meters.set_partitions(&state.partitions);
        }
        let (own, assigned) = (client.clone(), names.clone());
        let result = host.blocking(move || {
            assigned.iter().try_for_each(|(topic, partition)| own.route(topic, *partition))?;
            own.incremental_assign(&positions)?;
            own.wake_brokers()
        });
        match flatten(result.await) {
            Ok(()) if names.is_empty() => debug!(host, "a rebalance ended without new partitions"),
            Ok(()) => info!(host, "assigned {}", Shown(&names)),
            Err(error) => {
                self.shared.state().partitions.release(&names);
                self.shared.fail(error.context("cannot take over the assigned partitions"));
            }
        }
    }

    async fn revoked(&mut self, client: &Arc<Client>, names: Vec<Name>, are_lost: bool) {
        let host = &self.shared.host;
        self.shared.meters.rebalances.add(1);
        if are_lost {
            self.shared.meters.lost.add(names.len() as u64);
            warn!(
                host,
                "lost {}: the group considered this member dead; records that were read and not committed are \
                 delivered to other members again",
                Shown(&names)
            );
            self.release(client, names, false).await;
            return;
        }
        info!(host, "{} go to other members", Shown(&names));
        self.shared.state().partitions.mark_leaving(&names);
        let until = Instant::now() + self.shared.settings.drain_timeout;
        self.leaving = Some(Leaving { names, until });
    }

    /// Releases partitions. If `commits` is set, commits their acknowledged records first. Acknowledgements that arrive
    /// later are not committed.
    async fn release(&mut self, client: &Arc<Client>, names: Vec<Name>, commits: bool) {
        let host = self.shared.host.clone();
        // Wait for the commit in flight. Otherwise it could arrive after the last commit, when another member has the
        // partitions.
        if commits && let Some((commit, positions)) = self.commit.take() {
            match within(&host, LAST_COMMIT, commit).await {
                Some(result) => self.committed(result, &positions),
                // Do not log this: the next commit covers these positions, and logs its own failure.
                None => self.shared.meters.commits_failed.add(1),
            }
        }
        let positions = {
            let mut state = self.shared.state();
            Shared::apply_acks(&mut state);
            let positions = state.partitions.release(&names);
            state.records.retain(|record| {
                !names.iter().any(|it| it.1 == record.partition() && &*it.0 == record.topic())
            });
            self.shared.meters.set_partitions(&state.partitions);
            positions
        };
        if commits && !positions.is_empty() {
            match commit_now(&host, client, &positions).await {
                Ok(()) => self.shared.meters.commits.add(1),
                Err(error) => {
                    self.shared.meters.commits_failed.add(1);
                    warn!(
                        host,
                        "{error}: uncommitted records of {} are delivered twice",
                        Shown(&names)
                    );
                }
            }
        }
        let (own, released) = (client.clone(), names.clone());
        let result = host.blocking(move || {
            let mut list = TopicPartitionList::with_capacity(released.len());
            for (topic, partition) in &released {
                list.add_partition(topic, *partition);
            }
            own.incremental_unassign(&list)?;
            own.wake_brokers()
        });
        match flatten(result.await) {
            Ok(()) => debug!(host, "released {}", Shown(&names)),
            Err(error) => self.shared.fail(error.context("cannot release partitions")),
        }
    }

    /// Applies the results of pulls, and starts a commit of acknowledged records if one is due.
    fn commit(&mut self, client: &Arc<Client>) {
        let now = Instant::now();
        let positions = {
            let mut state = self.shared.state();
            // Apply the results even if no commit is due, so that failed records are read again soon, also with a long
            // `commit_interval`.
            Shared::apply_acks(&mut state);
            if now < self.next_commit {
                return;
            }
            state.partitions.uncommitted()
        };
        self.next_commit = now + self.shared.settings.commit_interval;
        if self.commit.is_none() && !positions.is_empty() {
            self.commit = Some((commit(&self.shared.host, client, positions.clone()), positions));
        }
    }

    fn committed(&mut self, result: Result<Result<(), KafkaError>>, positions: &[Position]) {
        if matches!(&result, Ok(Err(error)) if is_rebalancing(error)) {
            // The next commit covers these positions.
            return;
        }
        match flatten(result) {
            Ok(()) => {
                self.has_failed = false;
                self.shared.meters.commits.add(1);
                self.shared.state().partitions.committed(positions);
            }
            Err(error) => {
                self.shared.meters.commits_failed.add(1);
                let error = error.context("cannot commit acknowledged records");
                // The next commit covers these positions, and its failure is not logged again.
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(self.shared.host, "{error}; retrying");
                }
            }
        }
    }
}

/// Commits these positions and waits for the answer, up to [`LAST_COMMIT`].
///
/// # Errors
/// The commit failed, or was not answered in time. In the second case the group may have accepted it.
pub(super) async fn commit_now(
    host: &Host,
    client: &Arc<Client>,
    positions: &[Position],
) -> Result<()> {
    let commits = async {
        loop {
            match commit(host, client, positions.to_vec()).await {
                Ok(Err(error)) if is_rebalancing(&error) => host.sleep(COMMIT_RETRY).await,
                result => break flatten(result),
            }
        }
    };
    match within(host, LAST_COMMIT, commits).await {
        Some(result) => result.map_err(|error| error.context("cannot commit acknowledged records")),
        None => Err(Error::timeout(format_args!(
            "commit to the consumer group timed out after {LAST_COMMIT:?}"
        ))),
    }
}

/// Starts a commit of these positions.
fn commit(host: &Host, client: &Arc<Client>, positions: Vec<Position>) -> Commit {
    let (client, number) = (client.clone(), client.next_commit_number());
    host.blocking(move || client.commit_in_order(number, &list(&positions)?))
}

/// Returns whether a commit failed because a rebalance is in progress. After the rebalance a commit can succeed.
fn is_rebalancing(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::IllegalGeneration | RDKafkaErrorCode::RebalanceInProgress)
    )
}

fn flatten(result: Result<Result<(), KafkaError>>) -> Result<()> {
    result?.map_err(|error| explain(&error, ""))
}

/// Formats partitions for the log, grouped by topic.
struct Shown<'n>(&'n [Name]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut names: Vec<_> = self.0.iter().collect();
        names.sort_unstable();
        write!(f, "{} partitions:", names.len())?;
        for same in names.chunk_by(|one, other| one.0 == other.0) {
            write!(f, " {} [", same[0].0)?;
            for (index, (_, partition)) in same.iter().enumerate() {
                write!(f, "{}{partition}", if index == 0 { "" } else { " " })?;
            }
            f.write_str("]")?;
        }
        Ok(())
    }
}
