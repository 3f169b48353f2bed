//! The operator `select`, which keeps, drops and renames fields.

use tremor_abi::{batch::Selection, value::PathError};
use tremor_pdk::{
    Batch, Component, ComponentContext, Error, Operator, Output, Path, Result, Verdict,
};

use super::ordered::Ordered;

/// Keeps, drops and renames fields of events that are objects, in this order. A field is given by the keys that
/// lead to it, such as `host.name`.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// Fields to keep; all fields unless set.
    keep: Option<Vec<String>>,
    /// Fields to drop from those that are kept.
    #[serde(default)]
    drop: Vec<String>,
    /// New names of fields by their current names. These fields need not be among those that are kept.
    #[serde(default)]
    rename: Ordered<String>,
}

pub(crate) struct Select(Selection);

impl Component for Select {
    const NAME: &str = "select";
    const STATELESS: bool = true;
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let path = |key: &str, text: &String| {
            text.parse::<Path>().map_err(|error: PathError| {
                Error::configuration(format_args!("`{key}`: `{text}`: {error}"))
            })
        };
        let paths = |key: &str, texts: &[String]| {
            texts.iter().map(|text| path(key, text)).collect::<Result<Vec<_>>>()
        };
        let rename = &config.rename.0;
        if config.keep.is_none() && config.drop.is_empty() && rename.is_empty() {
            let message = "expected at least one of `keep`, `drop` and `rename`, found none";
            return Err(Error::configuration(message));
        }
        let keep = config.keep.map(|keep| paths("keep", &keep)).transpose()?;
        let drop = paths("drop", &config.drop)?;
        let rename = rename.iter();
        let rename = rename.map(|(from, to)| Ok((path("rename", from)?, path("rename", to)?)));
        let rename = rename.collect::<Result<Vec<_>>>()?;
        let selection = Selection::new(keep.as_deref(), &drop, &rename);
        selection.map(Self).map_err(Error::configuration)
    }
}

impl Operator for Select {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| match event.select(&mut self.0) {
            Ok(()) => Verdict::Keep,
            Err(error) => Verdict::Reject(error),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::operator::testing::{Bench, batch, creation_error};

    #[test]
    fn fields_are_kept_dropped_and_renamed() {
        let config = json!({
            "keep": ["level", "host"],
            "drop": ["host.ip"],
            "rename": { "msg": "message", "host.name": "hostname" },
        });
        let events = [
            json!({ "level": 1, "msg": "m", "host": { "ip": "i", "name": "n", "os": "o" }, "x": 1 }),
            json!({ "x": 1 }),
        ];
        let ran = Bench::new("select", config).process(batch(&events));
        // A literal of JSON has sorted keys.
        let first = r#"{"host":{"os":"o"},"level":1,"hostname":"n","message":"m"}"#;
        assert_eq!(ran.out, [first, "{}"]);
    }

    #[test]
    fn value_other_than_object_is_rejected() {
        let mut select = Bench::new("select", json!({ "drop": ["a"] }));
        let ran = select.process(batch(&[json!([1]), json!({ "a": 1 }), json!(null)]));
        assert_eq!(ran.out, ["{}"]);
        assert_eq!(ran.rejected.len(), 2);
        assert!(ran.rejected[0].ends_with("found an array"), "{ran:?}");
    }

    #[test]
    fn invalid_selection_is_reported_with_its_reason() {
        for (config, expected) in [
            (json!({}), "at least one of `keep`, `drop` and `rename`"),
            (json!({ "keep": ["a..b"] }), "`keep`: `a..b`: invalid path"),
            (json!({ "drop": ["a[0]"] }), "`a[0]`: expected the keys"),
            (json!({ "rename": { "a": "c", "b": "c.d" } }), "both are new names"),
        ] {
            let error = creation_error("select", &config);
            assert!(error.contains(expected), "{config}: {error}");
        }
    }
}
