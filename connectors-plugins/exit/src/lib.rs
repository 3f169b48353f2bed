//! The `exit` connector: a sink that ends the run after a number of events, or at an event that
//! matches a pattern.
//!
//! ```yaml
//! connectors:
//!   enough:
//!     type: exit
//!     config: { after_events: 1000, when: { field: status.code, equals: 500 } }
//! ```
//!
//! Events in flight at that time are still delivered.

use tremor_pdk::{
    Path, Value,
    prelude::*,
    schemars::{Schema, SchemaGenerator},
};

/// Configuration of the connector: the run ends when the first of the conditions is met. At least
/// one condition is required.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of events after which the run ends.
    pub after_events: Option<u64>,
    /// Pattern of an event at which the run ends.
    pub when: Option<Pattern>,
}

/// Pattern of an event.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Path of a field, such as `status.codes[0]`.
    pub field: String,
    /// Value of the field.
    #[schemars(schema_with = "anything")]
    pub equals: Value<'static>,
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    true.into()
}

fn path(field: &str) -> Result<Path> {
    field.parse().map_err(|error| {
        Error::configuration(format!(
            "invalid `field` `{field}`: {error}; expected a path such as `a.b[2].c`"
        ))
    })
}

/// Ends the run.
#[derive(Debug)]
pub struct Exit {
    host: Host,
    after_events: Option<u64>,
    pattern: Option<(Path, Value<'static>)>,
    seen: u64,
    requested: bool,
}

impl Component for Exit {
    const NAME: &str = "exit";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        match (config.after_events, &config.when) {
            (None, None) => {
                return Err(Error::configuration(
                    "the connector would never end the run: set `after_events`, `when`, or both",
                ));
            }
            (Some(0), _) => {
                return Err(Error::configuration(
                    "invalid `after_events` 0: expected 1 or more, because the run ends at an event",
                ));
            }
            _ => {}
        }
        let pattern = |it: Pattern| -> Result<_> { Ok((path(&it.field)?, it.equals)) };
        let pattern = config.when.map(pattern).transpose()?;
        let after_events = config.after_events;
        Ok(Self { host: context.into(), after_events, pattern, seen: 0, requested: false })
    }
}

impl Exit {
    /// Returns the reason to end the run at this event, if there is one.
    fn reason(&self, event: ValueRef<'_>) -> Option<String> {
        if let Some((path, expected)) = &self.pattern
            && event.get_path(path).is_some_and(|found| found == expected.view())
        {
            return Some(format!("received an event with {expected} at `{path}`"));
        }
        (self.after_events == Some(self.seen)).then(|| format!("received {} events", self.seen))
    }
}

impl Sink for Exit {
    type Batch = StructuredBatch;

    async fn deliver(&mut self, batch: &StructuredBatch) -> Delivery {
        if self.requested {
            return Ok(());
        }
        for event in batch {
            self.seen += 1;
            if let Some(reason) = self.reason(event.value()) {
                self.host.request_stop(&reason);
                self.requested = true;
                break;
            }
        }
        Ok(())
    }
}

tremor_pdk::export! { sinks: [Exit] }

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, ErrorKind, literal, testing::TestHost};

    use super::Exit;

    fn batch(codes: &[i64]) -> Batch {
        let mut batch = Batch::new();
        for &code in codes {
            batch.push(&literal!({ "status": { "codes": [code] } })).unwrap();
        }
        batch
    }

    fn stop_requests(config: &str, batches: &[&[i64]]) -> Vec<String> {
        let host = TestHost::new();
        let mut sink = host.sink::<Exit>(config).unwrap();
        for codes in batches {
            sink.deliver(&batch(codes)).unwrap();
        }
        host.stop_requests()
    }

    #[test]
    fn run_ends_once_after_number_of_events() {
        let config = r#"{ "after_events": 3 }"#;
        assert!(stop_requests(config, &[&[1, 2]]).is_empty());
        assert_eq!(stop_requests(config, &[&[1, 2], &[3, 4], &[5, 6]]), ["received 3 events"]);
    }

    #[test]
    fn run_ends_at_first_matching_event() {
        let config = r#"{ "when": { "field": "status.codes[0]", "equals": 500 } }"#;
        assert!(stop_requests(config, &[&[1], &[2, 3]]).is_empty());
        let reasons = stop_requests(config, &[&[1], &[2, 500, 500], &[500]]);
        assert_eq!(reasons, ["received an event with 500 at `status.codes[0]`"]);
    }

    #[test]
    fn first_condition_ends_the_run() {
        let config = r#"{ "after_events": 2, "when": { "field": "status", "equals": null } }"#;
        assert_eq!(stop_requests(config, &[&[1, 2, 3]]), ["received 2 events"]);
    }

    #[test]
    fn end_of_stream_is_not_counted() {
        let host = TestHost::new();
        let mut sink = host.sink::<Exit>(r#"{ "after_events": 1 }"#).unwrap();
        let mut batch = Batch::new();
        batch.stream(0).end();
        sink.deliver(&batch).unwrap();
        assert!(host.stop_requests().is_empty());
    }

    #[test]
    fn configuration_without_condition_is_rejected() {
        for (config, part) in [
            ("{}", "`after_events`"),
            (r#"{ "after_events": 0 }"#, "`after_events`"),
            (r#"{ "when": { "field": "a..b", "equals": 1 } }"#, "`a..b`"),
        ] {
            let error = TestHost::new().component::<Exit>(config).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{config}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
