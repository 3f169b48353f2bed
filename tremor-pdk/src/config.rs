//! Configurations of components, from whatever form the host has them in.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result};

/// The configuration of the component called `name`.
pub(crate) fn read<C: DeserializeOwned>(name: &str, config: impl Serialize) -> Result<C> {
    serde_json::to_value(config)
        .and_then(serde_json::from_value)
        .map_err(|error| Error::configuration(format!("config of `{name}`: {error}")))
}

/// The same, if the component itself finds it good as well.
pub(crate) fn read_valid<C: DeserializeOwned>(
    name: &str,
    config: impl Serialize,
    validate: impl FnOnce(&C) -> Result<()>,
) -> Result<C> {
    let config = read(name, config)?;
    validate(&config)?;
    Ok(config)
}
