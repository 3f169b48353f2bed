//! The plugins of a build that contains them: those of the flows in `bench/flows`.

use tremor_runtime::linked::LinkedPlugin;

/// All of them.
pub(super) fn plugins() -> [LinkedPlugin; 5] {
    [
        connector_bench::__tremor_plugin::linked(),
        connector_file::__tremor_plugin::linked(),
        connector_null::__tremor_plugin::linked(),
        connector_stdio::__tremor_plugin::linked(),
        operator_logging::__tremor_plugin::linked(),
    ]
}
