//! `tremor schema`: a JSON Schema of flow files with the plugins at hand, for editors.

use tremor_runtime::flow::{Kind, schema};

use super::{Failure, PluginArguments, logging};

/// The schema, as JSON. What is not in it, because a plugin could not be asked, is a warning.
pub(crate) fn text(plugins: &PluginArguments) -> Result<String, Failure> {
    let (described, problems) = plugins.at_hand()?.described();
    for problem in problems {
        logging::warn(&problem);
    }
    if described.iter().all(|component| component.kind != Kind::Connector) {
        logging::warn(
            &"there are no connectors at hand, so that the schema allows any\n  help: name a \
             folder of plugins with `--plugin-path` or in TREMOR_PLUGIN_PATH",
        );
    }
    Ok(format!("{:#}\n", schema(&described)))
}
