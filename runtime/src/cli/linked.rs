//! Plugins that the feature `link-static` links into the program. They include all plugins of the flows that
//! `bench/bench.conf` measures.

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
