//! The `exit` connector: a sink that ends the run, after so many events or at one that matches.
//!
//! ```yaml
//! connectors:
//!   enough:
//!     type: exit
//!     config: { after_events: 1000, when: { field: status.code, equals: 500 } }
//! ```
//!
//! Everything under way by then still arrives where it is bound for.

use tremor_pdk::{
    Path, Value,
    prelude::*,
    schemars::{Schema, SchemaGenerator},
};

/// When to end the run: whichever comes first. One of the two is needed.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// After so many events.
    pub after_events: Option<u64>,
    /// At the first event that matches.
    pub when: Option<Pattern>,
}

/// Which event matches.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The path to a field, as in `status.codes[0]`.
    pub field: String,
    /// The value that the field has then.
    #[schemars(schema_with = "anything")]
    pub equals: Value<'static>,
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    true.into()
}

fn path(field: &str) -> Result<Path> {
    field.parse().map_err(|error| {
        Error::configuration(format!("`field` is `{field}`: {error}; write it as in `a.b[2].c`"))
    })
}

/// The sink.
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
                    "nothing says when to end the run: set `after_events`, `when`, or both",
                ));
            }
            (Some(0), _) => {
                return Err(Error::configuration(
                    "`after_events` is 0, but an event is needed to notice: choose 1 or more",
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
    /// Why the run is to end at this event, if it is.
    fn reason(&self, event: ValueRef<'_>) -> Option<String> {
        if let Some((path, expected)) = &self.pattern
            && event.get_path(path).is_some_and(|found| found == expected.view())
        {
            return Some(format!("an event has {expected} at `{path}`"));
        }
        (self.after_events == Some(self.seen)).then(|| format!("{} events have come", self.seen))
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
    fn the_run_ends_once_after_so_many_events_of_all_batches() {
        let config = r#"{ "after_events": 3 }"#;
        assert!(stop_requests(config, &[&[1, 2]]).is_empty());
        assert_eq!(stop_requests(config, &[&[1, 2], &[3, 4], &[5, 6]]), ["3 events have come"]);
    }

    #[test]
    fn the_run_ends_at_the_first_event_that_matches() {
        let config = r#"{ "when": { "field": "status.codes[0]", "equals": 500 } }"#;
        assert!(stop_requests(config, &[&[1], &[2, 3]]).is_empty());
        let reasons = stop_requests(config, &[&[1], &[2, 500, 500], &[500]]);
        assert_eq!(reasons, ["an event has 500 at `status.codes[0]`"]);
    }

    #[test]
    fn whichever_comes_first_ends_the_run() {
        let config = r#"{ "after_events": 2, "when": { "field": "status", "equals": null } }"#;
        assert_eq!(stop_requests(config, &[&[1, 2, 3]]), ["2 events have come"]);
    }

    #[test]
    fn the_end_of_a_stream_is_no_event() {
        let host = TestHost::new();
        let mut sink = host.sink::<Exit>(r#"{ "after_events": 1 }"#).unwrap();
        let mut batch = Batch::new();
        batch.stream(0).end();
        sink.deliver(&batch).unwrap();
        assert!(host.stop_requests().is_empty());
    }

    #[test]
    fn a_configuration_that_cannot_end_anything_is_refused() {
        for (config, place) in [
            ("{}", "`after_events`"),
            (r#"{ "after_events": 0 }"#, "`after_events`"),
            (r#"{ "when": { "field": "a..b", "equals": 1 } }"#, "`a..b`"),
        ] {
            let error = TestHost::new().component::<Exit>(config).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{config}");
            assert!(error.to_string().contains(place), "{error}");
        }
    }
}
