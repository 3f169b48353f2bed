//! Labels that a connector adds to samples.

use std::collections::BTreeMap;

use tremor_pdk::{Error, EventRef, Result, template::Template};

use super::{
    family::is_label_name,
    sample::{Labels, METRIC_NAME},
};

/// Labels from the configuration of a connector, by name.
pub(crate) struct AddedLabels(BTreeMap<String, Template>);

impl AddedLabels {
    /// Validates the names of the labels.
    ///
    /// # Errors
    /// An error of the kind configuration that names the label.
    pub(crate) fn new(labels: BTreeMap<String, Template>) -> Result<Self> {
        match labels.keys().find(|name| !is_label_name(name) || *name == METRIC_NAME) {
            None => Ok(Self(labels)),
            Some(name) => Err(Error::configuration(format_args!(
                "invalid `labels` entry `{name}`: expected a name of letters, digits and `_`, no digit first, other \
                 than `{METRIC_NAME}`"
            ))),
        }
    }

    /// Adds the labels that the sample of `event` does not have.
    ///
    /// # Errors
    /// A field of a template has no text in the event.
    pub(crate) fn add<'v>(&'v self, event: EventRef<'_>, labels: &mut Labels<'v>) -> Result<()> {
        for (name, template) in &self.0 {
            if let Some(text) = template.constant() {
                labels.add(name, text);
                continue;
            }
            labels.add_rendered(name, |out| template.render(event, out)).map_err(|no_text| {
                Error::bad_data(format_args!(
                    "cannot render `labels.{name}`: {no_text}; set a default, such as `{{field:-none}}`"
                ))
            })?;
        }
        Ok(())
    }
}
