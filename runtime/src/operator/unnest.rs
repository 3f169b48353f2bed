//! The operator `unnest`, which creates an event for each element of an array.

use tremor_abi::batch;
use tremor_pdk::{
    Batch, Component, ComponentContext, Error, Operator, Output, Result, template::Field,
};

/// Replaces each event by an event for each element of an array. The other fields are in each of these events.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// Array in the payload.
    field: Field,
    /// Field of the element in the new events; `field` unless set. With the empty path, the element becomes the
    /// payload.
    to: Option<Field>,
    /// Treatment of events in which the field is missing or is not an array.
    #[serde(default)]
    others: Others,
}

#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Others {
    /// The event leaves by `err`.
    #[default]
    Err,
    /// The event passes unchanged.
    Pass,
}

pub(crate) struct Unnest(batch::Unnest);

impl Component for Unnest {
    const NAME: &str = "unnest";
    const STATELESS: bool = true;
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let to = config.to.as_ref().unwrap_or(&config.field);
        for (key, field) in [("field", &config.field), ("to", to)] {
            if field.part() != batch::Part::Payload {
                return Err(Error::configuration(format_args!(
                    "`{key}`: expected a field of the payload, found `{field}`, which is in the metadata"
                )));
            }
        }
        let passes = config.others == Others::Pass;
        batch::Unnest::new(config.field.path().clone(), to.path(), passes)
            .map(Self)
            .map_err(Error::configuration)
    }
}

impl Operator for Unnest {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.unnest(batch, &mut self.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::operator::testing::{Bench, batch, creation_error};

    #[test]
    fn elements_become_events_and_other_events_are_rejected() {
        let events = [
            json!({ "host": "a", "records": [1, 2] }),
            json!({ "records": [] }),
            json!({ "host": "b" }),
            json!({ "records": [{ "x": 3 }] }),
        ];
        let ran = Bench::new("unnest", json!({ "field": "records" })).process(batch(&events));
        let expected = [
            r#"{"host":"a","records":1}"#,
            r#"{"host":"a","records":2}"#,
            r#"{"records":{"x":3}}"#,
        ];
        assert_eq!((&ran.out[..], ran.discarded), (&expected.map(str::to_owned)[..], 1));
        assert_eq!(ran.rejected, ["expected an array as `records`, found no such field"]);

        let config = json!({ "field": "records", "to": "", "others": "pass" });
        let ran = Bench::new("unnest", config).process(batch(&events));
        assert_eq!(ran.out, ["1", "2", r#"{"host":"b"}"#, r#"{"x":3}"#]);
    }

    #[test]
    fn large_results_leave_in_several_batches() {
        let events = [json!({ "text": "x".repeat(1 << 20), "list": [1, 2, 3, 4, 5] })];
        let ran =
            Bench::new("unnest", json!({ "field": "list", "to": "n" })).process(batch(&events));
        let last: Vec<_> = ran.out.iter().map(|text| &text[text.len() - 6..]).collect();
        assert_eq!(last, ["\"n\":1}", "\"n\":2}", "\"n\":3}", "\"n\":4}", "\"n\":5}"]);
    }

    #[test]
    fn invalid_field_is_reported() {
        for (config, expected) in [
            (json!({ "field": "%a" }), "`field`: expected a field of the payload, found `%a`"),
            (
                json!({ "field": "a", "to": "%" }),
                "`to`: expected a field of the payload, found `%`",
            ),
            (json!({ "field": "a[0]" }), "`a[0]`: expected the keys of a field"),
            (json!({ "field": "a..b" }), "`a..b`: invalid path"),
            (json!({}), "`field`"),
        ] {
            let error = creation_error("unnest", &config);
            assert!(error.contains(expected), "{config}: {error}");
        }
    }
}
