//! Plugins of a build that contains them: those that the flows in `bench/flows` use.

use tremor_runtime::linked::LinkedPlugin;

pub(super) fn plugins() -> [LinkedPlugin; 5] {
    [
        connector_bench::__tremor_plugin::linked(),
        connector_file::__tremor_plugin::linked(),
        connector_null::__tremor_plugin::linked(),
        connector_stdio::__tremor_plugin::linked(),
        operator_logging::__tremor_plugin::linked(),
    ]
}
