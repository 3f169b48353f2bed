//! `tremor check`: its work is done once the flows are prepared.

use super::Prepared;

/// Says that flows are good.
pub(crate) fn report(flows: &[Prepared]) {
    for Prepared { flow, .. } in flows {
        let (connectors, pipelines) = (flow.spec.connectors.len(), flow.spec.pipelines.len());
        eprintln!(
            "{}: flow `{}` is good: connectors: {connectors}, pipelines: {pipelines}, links: {}",
            flow.path().display(),
            flow.name(),
            flow.spec.links.len()
        );
    }
}
