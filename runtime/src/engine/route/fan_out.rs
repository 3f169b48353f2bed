//! The ports of a component: events that leave by a port go to all of its targets.

use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::{Batch, Error, MetadataFields};

use crate::engine::{
    control::Control,
    logging::losses::OverflowReason,
    route::dead_letter,
    target::{Ports, Target},
    tracking::{
        stats::Stats,
        token::{InFlight, Token},
    },
};
use crate::flow::ERR;

/// Resources outside a pipeline that the pipeline uses while it runs.
pub(crate) struct Env<'r> {
    /// A stack of batches that still have to be routed, with their targets.
    pub(crate) work: &'r mut Vec<(Target, InFlight)>,
    pub(crate) pool: &'r Pool,
    pub(crate) control: &'r Control,
}

/// Adds a batch to the work list for every target of a port, and counts it. The last target gets the batch itself; the
/// other targets get clones. If the port has no target, discards the batch.
pub(crate) fn fan_out(
    (port, targets): (&str, &[Target]),
    item: InFlight,
    work: &mut Vec<(Target, InFlight)>,
    stats: &Stats,
) {
    let events = item.batch.len();
    stats.tap.pass(port, &item.batch);
    if targets.is_empty() {
        stats.discarded(events);
        return item.token.settle();
    }
    stats.created(events * (targets.len() - 1));
    stats.delivered(events * targets.len());
    hand_on(targets, item, work);
}

fn hand_on(targets: &[Target], item: InFlight, work: &mut Vec<(Target, InFlight)>) {
    let Some((last, others)) = targets.split_last() else { return };
    // The work list is a stack. The last target is inserted below the other targets of this batch, so that targets are
    // served in the order of their links.
    let bottom = work.len();
    for target in others.iter().rev() {
        work.push((*target, item.clone()));
    }
    work.insert(bottom, (*last, item));
}

/// Counts events that a sink has taken and drops, as `queue.when_full` of the sink sets.
pub(crate) fn count_drop(
    sink: &str,
    events: usize,
    why: OverflowReason,
    stats: &Stats,
    control: &Control,
) {
    if events > 0 {
        stats.dropped(events);
        stats.dropped_at_end(if why == OverflowReason::QueueFull { 0 } else { events });
        control.losses().dropped(sink, events, why);
    }
}

/// Passes events that a sink gave up on to the targets of its port `err`, as they are. Their metadata say why.
pub(crate) fn pass_on<T: Copy>(
    sink: &str,
    targets: &[T],
    mut item: InFlight,
    why: OverflowReason,
    stats: &Stats,
    mut to: impl FnMut(T, InFlight),
) {
    let Some((last, others)) = targets.split_last() else { return };
    let fields = MetadataFields::new(|writer| {
        writer.key("overflow");
        writer.begin_object();
        writer.key("sink");
        writer.str(sink);
        writer.key("reason");
        writer.str(why.as_str());
        writer.end_object();
    });
    if let Err(error) = fields.and_then(|fields| item.batch.add_metadata_to_all(&fields)) {
        tracing::warn!(component = sink, %error, "metadata do not say why events were sent to `err`");
    }
    let events = item.batch.len();
    stats.dead_lettered(events);
    stats.created(events * others.len());
    stats.delivered(events * others.len());
    stats.tap.pass(ERR, &item.batch);
    others.iter().for_each(|target| to(*target, item.clone()));
    to(*last, item);
}

/// Records that `events` events have failed permanently. If their source would redeliver these events, the flow fails,
/// because otherwise it would process the same events endlessly.
pub(crate) fn fail(
    name: &str,
    events: usize,
    error: impl FnOnce() -> Error,
    is_replayable: bool,
    control: &Control,
) {
    if is_replayable {
        control.fail(name, error());
    } else {
        control.losses().add(name, events, error);
    }
}

/// Events that a component could not handle, which are to be sent to its port `err`.
pub(crate) struct DeadLetters<'b> {
    pub(crate) batch: &'b Batch,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) token: Token,
}

impl DeadLetters<'_> {
    /// Sends dead letters of the events to the port `err` of the component. If the port is not linked, the events are
    /// discarded or fail.
    pub(crate) fn post(self, name: &str, ports: &Ports, stats: &Stats, env: &mut Env<'_>) {
        let Some(first) = self.rejected.first() else { return self.token.settle() };
        let count = self.rejected.len();
        if ports.err.is_empty() && ports.discards_failed {
            tracing::debug!(component = name, events = count, first = %first.error, "discarded");
            stats.discarded(count);
            return self.token.settle();
        }
        if ports.err.is_empty() {
            stats.failed(count);
            stats.unrecoverable(if self.token.is_tracked() { 0 } else { count });
            let error = || {
                first.error.clone().context(format_args!(
                    "link `{name}/err` to keep events that fail, or set `err: discard` to drop them"
                ))
            };
            fail(name, count, error, self.token.is_replayable(), env.control);
            return self.token.fail(self.rejected.iter().map(|rejected| &rejected.event));
        }
        let copies = count * (ports.err.len() - 1);
        stats.dead_lettered(count);
        stats.created(copies);
        stats.delivered(copies);
        tracing::debug!(component = name, events = count, first = %first.error, "dead-lettered");
        let shown = ports.letter_bytes.unwrap_or(Rejected::SHOWN);
        let letters = dead_letter::letters(name, self.batch, &self.rejected, env.pool, shown);
        // The work list is a stack, so the first batch has to be at the top.
        for batch in letters.into_iter().rev() {
            stats.tap.pass(ERR, &batch);
            let item = InFlight { is_letter: true, ..InFlight::new(batch, self.token.clone()) };
            hand_on(&ports.err, item, env.work);
        }
        self.token.settle();
    }
}
