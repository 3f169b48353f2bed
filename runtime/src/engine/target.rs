//! Targets of the links of a component's ports.

/// The target of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A pipeline that the same task runs. The value is the index among the pipelines of the router.
    Pipeline(usize),
    /// The operators of this pipeline that follow its leading stateless operators. The value is the same as for
    /// [`Target::Pipeline`].
    Rest(usize),
    /// The queue of another task. The value is the index among the queues of the router.
    Queue(usize),
}

/// The targets of the ports of a component, and the handling of events that cannot be processed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) out: Vec<Target>,
    pub(crate) err: Vec<Target>,
    /// `true` if events that cannot be handled are dropped when `err` has no target.
    pub(crate) discards_failed: bool,
    /// Maximum bytes of the original event in a dead letter, if the flow sets a limit.
    pub(crate) letter_bytes: Option<usize>,
}

/// Targets of an operator's own ports, by the name of the port.
pub(crate) type NamedTargets = Vec<(String, Vec<Target>)>;
