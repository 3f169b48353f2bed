//! `tremor schema`: prints a JSON Schema of flow files with the available plugins, for editors.

use tremor_runtime::flow::{Kind, schema};

use super::{Failure, PluginArguments, logging};

/// Returns the schema as JSON. The schema leaves out components that cannot be used, with a warning for each of them.
/// Also warns if no connectors are available.
pub(crate) fn text(plugins: &PluginArguments) -> Result<String, Failure> {
    let (described, problems) = plugins.available()?.described();
    for problem in problems {
        logging::warn(&problem);
    }
    if described.iter().all(|component| component.kind != Kind::Connector) {
        logging::warn(
            &"no connectors are available, so the schema allows any connector\n  help: name a \
             folder of plugins with `--plugin-path` or in TREMOR_PLUGIN_PATH",
        );
    }
    Ok(format!("{:#}\n", schema(&described)))
}
