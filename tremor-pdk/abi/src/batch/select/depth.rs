//! Limit of the depth of values that become fields.

use crate::{
    document::{MAX_DEPTH, Node},
    error::PluginError,
};

/// Returns an error if the value of the given nodes would be nested deeper than [`MAX_DEPTH`] in a field whose path has
/// `depth` keys.
pub(in crate::batch) fn check_depth(nodes: &[Node], depth: usize) -> Result<(), PluginError> {
    let left = MAX_DEPTH.checked_sub(depth);
    if left.is_some_and(|left| is_within(nodes, left)) {
        return Ok(());
    }
    Err(PluginError::bad_data(format_args!(
        "cannot set a field: the event would be nested deeper than {MAX_DEPTH} levels"
    )))
}

/// Returns whether the value of the given nodes has at most `depth` nested containers.
fn is_within(nodes: &[Node], depth: usize) -> bool {
    if nodes.len() <= depth {
        return true;
    }
    let mut ends: Vec<usize> = Vec::new();
    nodes.iter().enumerate().all(|(position, node)| {
        while ends.pop_if(|end| *end <= position).is_some() {}
        if node.kind().is_container() {
            ends.push(position.saturating_add(usize::try_from(node.span()).unwrap_or(usize::MAX)));
        }
        ends.len() <= depth
    })
}
