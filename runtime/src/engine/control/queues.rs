//! The full queues of a flow, and the tasks that wait for them.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug, Formatter},
    time::Instant,
};

/// Returns the nodes whose tasks wait for capacity of a queue, each with the start of the wait.
type Senders = Box<dyn Fn() -> Vec<(u32, Instant)> + Send + Sync>;

/// The queues of a flow. A queue is identified by the number of the node that receives from it, and a sender by the
/// number of the node whose task sends.
#[derive(Default)]
pub(crate) struct Queues(Vec<(u32, Senders)>);

/// The waits for capacity of a flow's queues at one moment.
pub(crate) struct Waits(Vec<Wait>);

struct Wait {
    queue: u32,
    sender: u32,
    since: Instant,
}

impl Queues {
    /// Adds the queue of the node `queue`.
    pub(crate) fn add(&mut self, queue: u32, senders: Senders) {
        self.0.push((queue, senders));
    }

    /// Removes the queue of the node `queue`.
    pub(crate) fn remove(&mut self, queue: u32) {
        self.0.retain(|(node, _)| *node != queue);
    }

    /// Returns the current waits. Takes the lock of each queue for a short time.
    pub(crate) fn waits(&self) -> Waits {
        let waits = self.0.iter().flat_map(|(queue, senders)| {
            senders().into_iter().map(|(sender, since)| Wait { queue: *queue, sender, since })
        });
        Waits(waits.collect())
    }
}

impl Waits {
    /// Returns the nodes whose full queues stop the task of `source`, each with the start of the wait. If such a node
    /// waits for other queues itself, the nodes of those queues are included.
    pub(crate) fn of(&self, source: u32) -> BTreeMap<u32, Instant> {
        let own = self.0.iter().filter(|wait| wait.sender == source);
        let mut open: Vec<_> = own.map(|wait| (wait.queue, wait.since)).collect();
        let mut found = BTreeMap::new();
        while let Some((node, since)) = open.pop() {
            if found.insert(node, since).is_none() {
                let next = self.0.iter().filter(|wait| wait.sender == node);
                open.extend(next.map(|wait| (wait.queue, since)));
            }
        }
        found
    }
}

impl Debug for Queues {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(queue, _)| queue)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::Queues;

    #[test]
    fn wait_behind_pipeline_reaches_the_sink_at_its_end() {
        let now = Instant::now();
        let mut queues = Queues::default();
        let (source, idle, pipeline, sink, other) = (0, 1, 2, 3, 4);
        queues.add(pipeline, Box::new(move || vec![(source, now)]));
        queues.add(sink, Box::new(move || vec![(pipeline, now)]));
        queues.add(other, Box::new(Vec::new));
        let waits = queues.waits();
        assert_eq!(waits.of(source).into_keys().collect::<Vec<_>>(), [pipeline, sink]);
        assert!(waits.of(idle).is_empty());
    }

    #[test]
    fn nodes_that_wait_for_each_other_are_found_once() {
        let now = Instant::now();
        let mut queues = Queues::default();
        queues.add(1, Box::new(move || vec![(0, now), (2, now)]));
        queues.add(2, Box::new(move || vec![(1, now)]));
        assert_eq!(queues.waits().of(0).into_keys().collect::<Vec<_>>(), [1, 2]);
    }
}
