//! `tremor check`: reports the result of preparing flows. Flows are checked when they are prepared.

use tracing::Level;

use super::{Failure, Prepared, logging};

/// Reports that the flows are valid. Fails if there are warnings and `deny_warnings` is set.
pub(crate) fn report(flows: &[Prepared], deny_warnings: bool) -> Result<(), Failure> {
    for Prepared { flow, .. } in flows {
        let (connectors, pipelines) = (flow.spec.connectors.len(), flow.spec.pipelines.len());
        let text = format!(
            "{}: flow `{}` is valid: connectors: {connectors}, pipelines: {pipelines}, links: {}",
            flow.path().display(),
            flow.name(),
            flow.spec.links.len()
        );
        logging::print(Level::INFO, &text, logging::fields([("flow", flow.name().into())]));
    }
    match flows.iter().map(|prepared| prepared.flow.warnings.len()).sum() {
        0 => Ok(()),
        _ if !deny_warnings => Ok(()),
        1 => Err(Failure::of_usage("error: there is a warning, and `--deny-warnings` is set")),
        warnings => Err(Failure::of_usage(format_args!(
            "error: there are {warnings} warnings, and `--deny-warnings` is set"
        ))),
    }
}
