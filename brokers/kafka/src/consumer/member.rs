//! The member of the group: a task that serves what the group and the brokers tell, whatever the flow does.
//!
//! librdkafka asks for an answer to each change of the assignment, and goes on with the group once it has
//! that. It asks within a poll, which returns at once: what was revoked is released when it is drained, and all
//! other partitions go on meanwhile.

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

/// How often the queue is served where nothing says that there is anything: a member that does not is held for
/// stuck.
const IDLE: Duration = Duration::from_secs(1);

/// How long a release waits for its commit. Where it is not answered the partitions go nevertheless.
const LAST_COMMIT: Duration = Duration::from_secs(4);

/// After how long a commit is tried again that the group could not take.
const AGAIN: Duration = Duration::from_millis(50);

/// The member.
pub(super) struct Member {
    shared: Arc<Shared>,
    /// Changes of the assignment that are not begun.
    changes: VecDeque<Change>,
    leaving: Option<Leaving>,
    next_commit: Instant,
    /// The commit that is not answered, of these positions: one at a time.
    commit: Option<(Commit, Vec<Position>)>,
    /// Whether the last commit failed, which was said.
    has_failed: bool,
}

/// Without its member a source reads on, and commits nothing: the connection ends with it.
struct TellsPanics(Arc<Shared>);

impl Drop for TellsPanics {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(Error::internal("the member of the group has panicked"));
        }
    }
}

/// What the group says of a commit.
type Commit = Blocking<Result<(), KafkaError>>;

/// Partitions that were revoked and not released.
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

    /// Goes on until its task is dropped, or the client has ended.
    pub(super) async fn run(mut self) {
        let _panics_are_told = TellsPanics(self.shared.clone());
        loop {
            if let Some((result, positions)) = self.wait().await {
                self.commit = None;
                self.committed(result, &positions);
            }
            let Some(client) = self.shared.client() else { return };
            self.serve_queue(&client);
            self.serve_changes(&client).await;
            self.begin_anew(&client).await;
            self.commit(&client);
        }
    }

    /// Waits until there is something to do. Gives what has become of a commit.
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
            // Only a release waits for acknowledgements: otherwise each of them would wake this task.
            if let Some(names) = names {
                let mut state = self.shared.state();
                while Shared::poll_hear(&mut state, context).is_ready() {}
                if state.partitions.are_settled(names) {
                    return Poll::Ready(());
                }
            }
            timer.as_mut().poll(context)
        })
        .await;
        answered
    }

    /// Has librdkafka tell what there is.
    fn serve_queue(&mut self, client: &Client) {
        loop {
            let calls = client.context().calls();
            match client.poll(Duration::ZERO) {
                // It is told to the context as well, with its reason.
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    let (code, said) =
                        client.client().fatal_error().unwrap_or((code, String::new()));
                    let error = explain(&KafkaError::MessageConsumptionFatal(code), &said);
                    self.shared.fail(error.context("the client of Kafka cannot go on"));
                }
                Some(Err(_)) => {}
                Some(Ok(record)) => {
                    self.misrouted(client, record.topic(), record.partition(), record.offset());
                }
                None if client.context().calls() != calls => {}
                None => break,
            }
        }
        self.changes.extend(client.context().take());
        if let Some(error) = client.context().told.is_final() {
            self.shared.fail(error);
        }
    }

    /// Goes on with all partitions, which librdkafka has paused before it told of a change: those that stay are not
    /// to wait for the others.
    async fn go_on(&self, client: &Arc<Client>) {
        let mut names = self.shared.state().partitions.staying();
        for change in &self.changes {
            if let Change::Revoked { list, .. } = change {
                names.retain(|name| !list.contains(name));
            }
        }
        let own = client.clone();
        let result = self.shared.host.blocking(move || own.go_on(&names)).await;
        if let Err(error) = flatten(result) {
            warn!(
                self.shared.host,
                "partitions that stay wait for the end of the rebalance: {error}"
            );
        }
    }

    /// A record has come where none is expected: it is not lost.
    fn misrouted(&self, client: &Client, topic: &str, partition: i32, offset: i64) {
        let name = (Arc::from(topic), partition);
        let place = list(&[Position { name, offset }]);
        let again = client
            .route(topic, partition)
            .and(place)
            .and_then(|place| client.seek_partitions(place, Duration::ZERO));
        if let Err(error) = again {
            let doing = format!("to read partition {partition} of `{topic}`");
            self.shared.fail(explain(&error, "").context(doing));
        }
    }

    /// Begins changes of the assignment, and ends them.
    async fn serve_changes(&mut self, client: &Arc<Client>) {
        // The answer to an assignment of nothing is as soon given.
        if self.changes.iter().any(|it| !matches!(it, Change::Assigned(names) if names.is_empty()))
        {
            self.go_on(client).await;
        }
        loop {
            if let Some(Leaving { names, until }) = self.leaving.take() {
                let is_settled = {
                    let mut state = self.shared.state();
                    Shared::hear(&mut state);
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
                        "{} partitions go to other members before everything that was read of them is acknowledged, \
                         since that takes longer than `drain_timeout`: what is not acknowledged comes twice",
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

    /// Begins with the oldest record of partitions that librdkafka has stopped reading, since there was nothing
    /// where it read. It does not seek in those.
    async fn begin_anew(&self, client: &Arc<Client>) {
        // It would take that for the answer to a rebalance.
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
            // It answers after it has released them.
            own.assignment()?;
            stopped.iter().try_for_each(|(topic, partition)| own.route(topic, *partition))?;
            own.incremental_assign(&list)?;
            own.wake()
        });
        if let Err(error) = flatten(result.await) {
            let doing = format!("to begin anew with {}", Shown(&names));
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
                Err(error) => warn!(host, "{error}; tries again"),
            }
            host.sleep(IDLE).await;
            self.serve_queue(client);
            if client.assignment_lost() {
                // librdkafka asks for their release next, and before that for an answer to this.
                names.clear();
            }
        };
        {
            let mut state = self.shared.state();
            state.partitions.assign(&names);
            for element in positions.elements() {
                if let Offset::Offset(offset) = element.offset() {
                    state.partitions.begins(element.topic(), element.partition(), offset);
                }
            }
            self.shared.meters.count(&state.partitions);
        }
        let (own, assigned) = (client.clone(), names.clone());
        let result = host.blocking(move || {
            assigned.iter().try_for_each(|(topic, partition)| own.route(topic, *partition))?;
            own.incremental_assign(&positions)?;
            own.wake()
        });
        match flatten(result.await) {
            Ok(()) if names.is_empty() => debug!(host, "a rebalance has ended"),
            Ok(()) => info!(host, "got {}", Shown(&names)),
            Err(error) => {
                self.shared.state().partitions.release(&names);
                self.shared.fail(error.context("to take partitions"));
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
                "lost {}: the group has held this member for dead; what was read of them and is not committed \
                 comes to other members as well",
                Shown(&names)
            );
            self.release(client, names, false).await;
            return;
        }
        info!(host, "{} go to other members", Shown(&names));
        self.shared.state().partitions.leave(&names);
        let until = Instant::now() + self.shared.settings.drain_timeout;
        self.leaving = Some(Leaving { names, until });
    }

    /// Gives partitions back. From here on nothing that is heard of them is committed.
    async fn release(&mut self, client: &Arc<Client>, names: Vec<Name>, commits: bool) {
        let host = self.shared.host.clone();
        // One at a time: the group is not to have an earlier one last, of partitions that are another's then.
        if commits && let Some((commit, positions)) = self.commit.take() {
            match within(&host, LAST_COMMIT, commit).await {
                Some(result) => self.committed(result, &positions),
                // The next one commits it as well, and says so where that is not answered either.
                None => self.shared.meters.commits_failed.add(1),
            }
        }
        let positions = {
            let mut state = self.shared.state();
            Shared::hear(&mut state);
            let positions = state.partitions.release(&names);
            state.records.retain(|record| {
                !names.iter().any(|it| it.1 == record.partition() && &*it.0 == record.topic())
            });
            self.shared.meters.count(&state.partitions);
            positions
        };
        if commits && !positions.is_empty() {
            match commit_now(&host, client, &positions).await {
                Ok(()) => self.shared.meters.commits.add(1),
                Err(error) => {
                    self.shared.meters.commits_failed.add(1);
                    warn!(host, "{error}: what was read of {} comes twice", Shown(&names));
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
            own.wake()
        });
        match flatten(result.await) {
            Ok(()) => debug!(host, "released {}", Shown(&names)),
            Err(error) => self.shared.fail(error.context("to release partitions")),
        }
    }

    /// Hears what has become of pulls, and commits what is acknowledged, if it is time for that.
    fn commit(&mut self, client: &Arc<Client>) {
        let now = Instant::now();
        let positions = {
            let mut state = self.shared.state();
            // What has failed is read again soon, however long `commit_interval` is.
            Shared::hear(&mut state);
            if now < self.next_commit {
                return;
            }
            let lag = state.partitions.lag(|(topic, partition)| client.known(topic, *partition));
            self.shared.meters.lags(lag);
            state.partitions.uncommitted()
        };
        self.next_commit = now + self.shared.settings.commit_interval;
        if self.commit.is_none() && !positions.is_empty() {
            self.commit = Some((commit(&self.shared.host, client, positions.clone()), positions));
        }
    }

    fn committed(&mut self, result: Result<Result<(), KafkaError>>, positions: &[Position]) {
        if matches!(&result, Ok(Err(error)) if is_in_flux(error)) {
            // The next one commits it as well.
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
                let error = error.context("to commit what is acknowledged");
                // The next one commits it as well, and says nothing new.
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(self.shared.host, "{error}; tries again");
                }
            }
        }
    }
}

/// Commits that, and waits for the answer, if it does not take too long.
///
/// # Errors
/// The group does not have it, as far as one knows.
pub(super) async fn commit_now(
    host: &Host,
    client: &Arc<Client>,
    positions: &[Position],
) -> Result<()> {
    let commits = async {
        loop {
            match commit(host, client, positions.to_vec()).await {
                Ok(Err(error)) if is_in_flux(&error) => host.sleep(AGAIN).await,
                result => break flatten(result),
            }
        }
    };
    match within(host, LAST_COMMIT, commits).await {
        Some(result) => result.map_err(|error| error.context("to commit what is acknowledged")),
        None => Err(Error::timeout("the group does not take a commit within four seconds")),
    }
}

/// Commits that.
fn commit(host: &Host, client: &Arc<Client>, positions: Vec<Position>) -> Commit {
    let (client, turn) = (client.clone(), client.turn());
    host.blocking(move || client.commit_in_turn(turn, &list(&positions)?))
}

/// Whether the group is between two generations: a commit succeeds once it has the next.
fn is_in_flux(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::IllegalGeneration | RDKafkaErrorCode::RebalanceInProgress)
    )
}

fn flatten(result: Result<Result<(), KafkaError>>) -> Result<()> {
    result?.map_err(|error| explain(&error, ""))
}

/// Partitions for the log.
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
