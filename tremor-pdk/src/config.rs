//! Conversion of a configuration from the form in which the host passes it to the type of the component.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tremor_abi::{
    document::reader,
    value::{Value, to_value},
};

use crate::{Error, Result};

/// The configuration of a component that has nothing to configure.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// Converts a configuration. A missing configuration is treated as an empty configuration. In a field of the type
/// [`Value`], each number keeps its value, and each object the order of its keys. A field of another type gets the
/// nearest float of a number that no 64-bit integer or float represents exactly.
///
/// # Errors
/// Returns an error of the kind configuration with the key, the value that was found and the value that was expected.
/// The host adds the name of the component.
pub fn read<C: DeserializeOwned>(config: impl Serialize) -> Result<C> {
    let config = match to_value(&config).map_err(Error::configuration)? {
        Value::Null => Value::object(),
        config => config,
    };
    serde_path_to_error::deserialize(reader(config.view())).map_err(|error| {
        let key = error.path().to_string();
        let error = Error::configuration(error.into_inner());
        // The path `.` stands for the whole configuration, so there is no key to name.
        if key == "." { error } else { error.context(format_args!("`{key}`")) }
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};
    use tremor_abi::{literal, value::Number};

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
    fn error_names_the_key_and_the_expected_value() {
        let error = |config: Value| read::<Config>(config).unwrap_err().to_string();
        let ports = json!({ "addresses": [{ "port": 1 }, { "port": "ftp" }] });
        let expected = "`addresses[1].port`: invalid type: string \"ftp\", expected u16";
        assert_eq!(error(ports), expected);
        assert_eq!(error(json!({ "addresses": [{}] })), "`addresses[0]`: missing field `port`");
        assert!(error(json!({ "adresses": [] })).contains("expected `addresses`"));
        assert_eq!(error(json!(true)), "invalid type: boolean `true`, expected struct Config");
    }

    #[test]
    fn constants_keep_their_numbers_and_the_order_of_keys() {
        #[derive(Deserialize)]
        struct Constant {
            value: tremor_abi::value::Value<'static>,
            rate: f64,
        }
        let number = |text: &'static str| {
            tremor_abi::value::Value::Number(Number::new(text).expect("a JSON number"))
        };
        let pi = number("3.14159265358979323846");
        let config = literal!({
            "value": { "b": pi.clone(), "a": number("1e400"), "c": [1, 2.0] }, "rate": pi,
        });
        let Constant { value, rate } = read(&config).unwrap();
        let expected = r#"{"b":3.14159265358979323846,"a":1e400,"c":[1,2.0]}"#;
        assert_eq!(value.to_string(), expected);
        assert!((rate - std::f64::consts::PI).abs() < f64::EPSILON);
    }

    #[test]
    fn missing_configuration_is_read_as_empty() {
        assert_eq!(read::<Config>(Value::Null).unwrap(), Config::default());
    }
}
