//! The configuration of a component: from the form that the host has it in to the author's type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// The configuration of a component that has nothing to configure.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// Converts a configuration. No configuration at all is an empty one.
///
/// # Errors
/// Kind configuration: the key, what was found and what was expected. The host names the component.
pub fn read<C: DeserializeOwned>(config: impl Serialize) -> Result<C> {
    let config = match serde_json::to_value(config).map_err(Error::configuration)? {
        Value::Null => Value::Object(Map::new()),
        config => config,
    };
    serde_path_to_error::deserialize(config).map_err(|error| {
        let key = error.path().to_string();
        let error = Error::configuration(error.into_inner());
        // The path of the whole.
        if key == "." { error } else { error.context(format_args!("`{key}`")) }
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::read;

    #[derive(Debug, Default, Deserialize, PartialEq, Eq)]
    #[serde(default, deny_unknown_fields)]
    struct Config {
        addresses: Vec<Address>,
    }

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    struct Address {
        port: u16,
    }

    #[test]
    fn an_error_names_the_key_and_what_was_expected() {
        let error = |config: Value| read::<Config>(config).unwrap_err().to_string();
        let ports = json!({ "addresses": [{ "port": 1 }, { "port": "ftp" }] });
        let expected = "`addresses[1].port`: invalid type: string \"ftp\", expected u16";
        assert_eq!(error(ports), expected);
        assert_eq!(error(json!({ "addresses": [{}] })), "`addresses[0]`: missing field `port`");
        assert!(error(json!({ "adresses": [] })).contains("expected `addresses`"));
        assert_eq!(error(json!(true)), "invalid type: boolean `true`, expected struct Config");
    }

    #[test]
    fn no_configuration_is_an_empty_one() {
        assert_eq!(read::<Config>(Value::Null).unwrap(), Config::default());
    }
}
