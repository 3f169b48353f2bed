//! The suite as authors use it: without the boundary.

use std::time::Duration;

use serde_json::json;

use super::{Outcome, Report, checks, connector, cut_short, source};
use crate::{NoConfig, NoSink, prelude::*, schemars::JsonSchema};

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// How many events there are.
    count: u64,
    #[serde(default)]
    panics: bool,
}

/// The kind of a source without an end.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Waits in each pull, and reads an event in every third one.
    LongPoll,
    /// Returns from each pull at once and without an event.
    Busy,
    /// Takes an event out of `self` before it waits, and loses the event if the pull is dropped.
    Loses,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EndlessConfig {
    kind: Kind,
}

/// A source without an end.
struct Endless {
    kind: Kind,
    context: ComponentContext,
    next: u64,
}

impl Component for Endless {
    const NAME: &str = "endless";
    type Config = EndlessConfig;

    fn new(config: EndlessConfig, context: ComponentContext) -> Result<Self> {
        Ok(Self { kind: config.kind, context, next: 0 })
    }
}

impl Source for Endless {
    type Batch = StructuredBatch;

    async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
        let taken = self.next;
        match self.kind {
            Kind::Busy => return Ok(Pull::Events),
            Kind::Loses => {
                self.next += 1;
                self.context.sleep(Duration::from_millis(10)).await;
            }
            Kind::LongPoll => {
                self.context.sleep(Duration::from_millis(10)).await;
                self.next += 1;
            }
        }
        if self.kind != Kind::LongPoll || taken.is_multiple_of(3) {
            batch.push(&taken)?;
        }
        Ok(Pull::Events)
    }
}

#[test]
fn endless_long_poll_passes_the_checks_of_pulls() {
    let report = source::<Endless>(r#"{ "kind": "long_poll" }"#);
    report.expect_no_faults();
    for check in ["pulls", "survives_dropped_pulls", "sources_share_nothing"] {
        assert_eq!(*outcome(&report, check), Outcome::Passed, "{report}");
    }
}

#[test]
fn pull_that_returns_nothing_at_once_is_a_busy_loop() {
    let report = source::<Endless>(r#"{ "kind": "busy" }"#);
    let Outcome::Failed(fault) = outcome(&report, "pulls") else { panic!("{report}") };
    assert!(fault.seen.contains("brought nothing and asked for the next at once"), "{fault:?}");
}

#[test]
fn endless_source_that_loses_events_of_dropped_pulls_fails() {
    let report = source::<Endless>(r#"{ "kind": "loses" }"#);
    let faults: Vec<&str> = report.faults().map(|(check, _)| check).collect();
    assert_eq!(faults, ["survives_dropped_pulls"], "{report}");
}

/// A source that may panic in its third pull.
struct Numbers {
    config: Config,
    next: u64,
}

impl Component for Numbers {
    const NAME: &str = "numbers";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { config, next: 0 })
    }
}

impl Source for Numbers {
    type Batch = StructuredBatch;

    async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
        assert!(!self.config.panics, "told to");
        while !batch.is_full() {
            if self.next == self.config.count {
                return Ok(Pull::Finished);
            }
            batch.push(&self.next)?;
            self.next += 1;
        }
        Ok(Pull::Events)
    }
}

fn outcome<'r>(report: &'r Report, check: &str) -> &'r Outcome {
    &report.checks.iter().find(|checked| checked.check == check).unwrap().outcome
}

#[test]
fn a_component_without_a_fault_passes_every_check_that_can_be_made_of_it() {
    let report = source::<Numbers>(r#"{ "count": 1000 }"#);
    report.expect_no_faults();
    for check in ["makes", "pulls", "survives_dropped_pulls", "sources_share_nothing"] {
        assert_eq!(*outcome(&report, check), Outcome::Passed, "{report}");
    }
    for (check, _) in report.skipped() {
        let is_of_sinks = check.contains("sink")
            || ["delivers", "answers_ticks", "flushes", "drains"].contains(&check);
        let others = [
            "stays_inside",
            "leaves_nothing",
            "hears_acknowledgements",
            "reads_again",
            "takes_several",
        ];
        assert!(is_of_sinks || others.contains(&check), "{report}");
    }
}

#[test]
fn a_panic_without_the_boundary_is_one_fault_and_the_checks_that_rest_on_it_are_skipped() {
    let report = source::<Numbers>(r#"{ "count": 1, "panics": true }"#);
    let faults: Vec<&str> = report.faults().map(|(check, _)| check).collect();
    assert_eq!(faults, ["pulls"], "{report}");
    let Outcome::Skipped { reason } = outcome(&report, "heeds_the_limit") else {
        panic!("{report}")
    };
    assert_eq!(reason, "`pulls` failed");
}

#[test]
fn without_a_configuration_that_works_there_is_nothing_to_check() {
    let report = source::<Numbers>("{}");
    assert!(report.checks.iter().all(|checked| matches!(checked.outcome, Outcome::Skipped { .. })));
    let Outcome::Skipped { reason } = outcome(&report, "makes") else { panic!("{report}") };
    assert!(reason.starts_with("needs a configuration: {} is refused: "), "{reason}");
}

/// A connector whose peer is not there.
struct Alone;

impl Component for Alone {
    const NAME: &str = "alone";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self)
    }
}

impl Connector for Alone {
    type Source = Numbers;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Numbers, NoSink>> {
        Err(Error::connection_refused("there is no peer"))
    }
}

#[test]
fn a_peer_that_is_not_there_is_no_fault_and_is_said() {
    let report = connector::<Alone>("{}");
    report.expect_no_faults();
    let Outcome::Skipped { reason } = outcome(&report, "connects") else { panic!("{report}") };
    assert!(
        reason.contains("does not connect with this configuration: there is no peer"),
        "{reason}"
    );
    let reason = Outcome::Skipped { reason: "`connects` was skipped".to_owned() };
    assert_eq!(*outcome(&report, "pulls"), reason);
}

#[test]
fn a_check_that_the_process_did_not_survive_has_failed_with_what_it_is_about() {
    let checked = cut_short("connector", "pulls", "signal 11");
    let Outcome::Failed(fault) = checked.outcome else { panic!("no fault") };
    assert_eq!(fault.seen, "signal 11");
    assert!(fault.contract.contains("`Source::pull`"), "{}", fault.contract);
}

#[test]
fn a_report_is_a_line_for_each_check_and_the_same_as_json() {
    let report = source::<Numbers>(r#"{ "count": 1, "panics": true }"#);
    let text = report.to_string();
    let lines = checks("connector").len() + 2 * report.faults().count();
    assert_eq!(text.lines().count(), lines, "{text}");
    let read: Report = serde_json::from_value(json!(report)).unwrap();
    assert_eq!(read, report);
}

/// A codec of a format with one type of record, which no value of the suite is.
struct Records;

impl Component for Records {
    const NAME: &str = "records";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self)
    }
}

impl Codec for Records {
    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()> {
        let text = std::str::from_utf8(message).map_err(Error::bad_data)?;
        let id = text.strip_prefix("id ").and_then(|id| id.parse().ok());
        value.begin_object();
        value.key("record id");
        value.u64(id.ok_or_else(|| Error::bad_data("expected `id NUMBER`"))?);
        value.end_object();
        Ok(())
    }

    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()> {
        let id = value.get("record id").and_then(ValueRef::as_u64);
        let id = id.ok_or_else(|| Error::bad_data("this is not a record"))?;
        message.extend_from_copy_slice(format!("id {id}").as_bytes());
        Ok(())
    }
}

#[test]
fn codec_of_its_own_records_is_checked_with_samples() {
    let report = super::codec::<Records>("{}");
    let Outcome::Skipped { reason } = outcome(&report, "round_trips") else { panic!("{report}") };
    assert!(reason.contains("give messages of the format as samples"), "{reason}");
    let report = super::codec_with::<Records>("{}", &[b"id 7", b"id 8"]);
    report.expect_all_but(&["stays_inside"]);
    let report = super::codec_with::<Records>("{}", &[b"no record"]);
    assert!(report.faults().any(|(check, _)| check == "round_trips"), "{report}");
}

#[test]
#[should_panic(expected = "checks were skipped that are not named: [\"stays_inside\"")]
fn skipped_check_that_is_not_named_fails_the_test() {
    super::codec::<Records>("{}").expect_all_but(&["round_trips"]);
}
