//! `tremor check`: when the flows are prepared, they are checked.

use super::Prepared;

/// Reports that the flows are valid.
pub(crate) fn report(flows: &[Prepared]) {
    for Prepared { flow, .. } in flows {
        let (connectors, pipelines) = (flow.spec.connectors.len(), flow.spec.pipelines.len());
        eprintln!(
            "{}: flow `{}` is valid: connectors: {connectors}, pipelines: {pipelines}, links: {}",
            flow.path().display(),
            flow.name(),
            flow.spec.links.len()
        );
    }
}
