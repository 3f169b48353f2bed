//! Where events go from the ports of a component.

/// Where the events of one port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A pipeline that is run here: its position in the pipelines.
    Pipeline(usize),
    /// The queue of another task: its position among the queues of the router.
    Queue(usize),
}

/// Where the events of a component's ports go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    pub(crate) out: Vec<Target>,
    pub(crate) err: Vec<Target>,
    /// Whether events that cannot be handled are dropped where `err` leads nowhere.
    pub(crate) discards_failed: bool,
    /// Maximum bytes of the original event in a dead letter, if the flow sets it.
    pub(crate) letter_bytes: Option<usize>,
}
