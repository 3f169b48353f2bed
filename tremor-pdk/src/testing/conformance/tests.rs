//! Tests of the checks as authors use them, with components that are linked into the test.

use std::time::Duration;

use serde_json::json;

use super::{
    NO_EVENT, Outcome, Report, UNCONNECTED, checks, connector, cut_short, operator,
    report::Finding, source, working,
};
use crate::{Acks, NoConfig, NoSink, Tickets, Upkeep, prelude::*, schemars::JsonSchema};

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Number of events.
    count: u64,
    #[serde(default)]
    panics: bool,
}

/// Behaviour of a source without an end.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Waits in each pull, and reads an event in every third pull.
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
fn endless_empty_pulls_are_a_fault() {
    let report = source::<Endless>(r#"{ "kind": "busy" }"#);
    let Outcome::Failed(fault) = outcome(&report, "pulls") else { panic!("{report}") };
    assert!(
        fault.seen.contains("returned no event and asked for the next pull at once"),
        "{fault:?}"
    );
}

#[test]
fn endless_source_that_loses_events_of_dropped_pulls_fails() {
    let report = source::<Endless>(r#"{ "kind": "loses" }"#);
    let faults: Vec<&str> = report.faults().map(|(check, _)| check).collect();
    assert_eq!(faults, ["survives_dropped_pulls"], "{report}");
}

/// A source of numbers that panics in `pull` if it is configured to.
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
        assert!(!self.config.panics, "configured to panic");
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
fn component_without_faults_passes_every_possible_check() {
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
            "accepts_acknowledgements",
            "reads_again",
            "takes_several",
        ];
        assert!(is_of_sinks || others.contains(&check), "{report}");
    }
}

#[test]
fn panic_is_one_fault_and_dependent_checks_are_skipped() {
    let report = source::<Numbers>(r#"{ "count": 1, "panics": true }"#);
    let faults: Vec<&str> = report.faults().map(|(check, _)| check).collect();
    assert_eq!(faults, ["pulls"], "{report}");
    let Outcome::Skipped { reason } = outcome(&report, "heeds_the_limit") else {
        panic!("{report}")
    };
    assert_eq!(reason, "`pulls` failed");
}

#[test]
fn all_checks_are_skipped_without_valid_configuration() {
    let report = source::<Numbers>("{}");
    assert!(report.checks.iter().all(|checked| matches!(checked.outcome, Outcome::Skipped { .. })));
    let Outcome::Skipped { reason } = outcome(&report, "makes") else { panic!("{report}") };
    assert!(reason.starts_with("needs a configuration: {} is rejected: "), "{reason}");
}

/// A connector without a reachable peer.
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
fn missing_peer_is_reported_and_not_a_fault() {
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

/// A source whose peer sends nothing.
struct Silent;

impl Component for Silent {
    const NAME: &str = "silent";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self)
    }
}

impl Source for Silent {
    type Batch = StructuredBatch;

    async fn pull(&mut self, _batch: &mut StructuredBatch) -> Result<Pull> {
        Ok(Pull::Idle(Duration::from_millis(10)))
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        Some(Box::new(Tickets::<u64>::new()))
    }
}

#[test]
fn acknowledgements_without_an_event_are_not_checked() {
    let report = source::<Silent>("{}");
    let skipped = Outcome::Skipped { reason: NO_EVENT.to_owned() };
    assert_eq!(*outcome(&report, "accepts_acknowledgements"), skipped, "{report}");
}

#[test]
fn refusal_beside_other_instances_is_not_a_missing_peer() {
    let refused = |others| match Finding::skip(format_args!("{UNCONNECTED}: in use")).beside(others)
    {
        Finding::Skip(reason) => reason,
        Finding::Fault { seen, .. } => panic!("{seen}"),
    };
    assert_eq!(refused(0), format!("{UNCONNECTED}: in use"));
    assert_eq!(refused(1), "instance 2 does not connect while the others are connected: in use");
}

#[test]
fn check_that_ended_the_process_fails_with_its_contract() {
    let checked = cut_short("connector", "pulls", "signal 11");
    let Outcome::Failed(fault) = checked.outcome else { panic!("no fault") };
    assert_eq!(fault.seen, "signal 11");
    assert!(fault.contract.contains("`Source::pull`"), "{}", fault.contract);
}

#[test]
fn report_has_a_line_for_each_check_and_a_json_form() {
    let report = source::<Numbers>(r#"{ "count": 1, "panics": true }"#);
    let text = report.to_string();
    let lines = checks("connector").len() + 2 * report.faults().count();
    assert_eq!(text.lines().count(), lines, "{text}");
    let read: Report = serde_json::from_value(json!(report)).unwrap();
    assert_eq!(read, report);
}

/// A codec of a format with a single type of record, which is not among the values of the suite.
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

    fn encode(&mut self, value: ValueRef<'_>, message: &mut Message<'_>) -> Result<()> {
        let id = value.get("record id").and_then(ValueRef::as_u64);
        let id = id.ok_or_else(|| Error::bad_data("this is not a record"))?;
        message.extend_from_slice(format!("id {id}").as_bytes());
        Ok(())
    }
}

#[test]
fn codec_without_suitable_values_is_checked_with_samples() {
    let report = super::codec::<Records>("{}");
    let Outcome::Skipped { reason } = outcome(&report, "round_trips") else { panic!("{report}") };
    assert!(reason.contains("give messages of the format as samples"), "{reason}");
    let report = super::codec_with::<Records>("{}", &[b"id 7", b"id 8"]);
    report.expect_all_but(&["stays_inside"]);
    let report = super::codec_with::<Records>("{}", &[b"no record"]);
    assert!(report.faults().any(|(check, _)| check == "round_trips"), "{report}");
}

#[test]
#[should_panic(expected = "skipped, but not named as skipped: [\"stays_inside\"")]
fn skipped_check_that_is_not_named_fails_the_test() {
    super::codec::<Records>("{}").expect_all_but(&["round_trips"]);
}

/// Configuration of [`Reject`].
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RejectConfig {
    /// Field without which an event is rejected.
    field: String,
    /// `true` if the call fails instead of rejecting the events one by one.
    #[serde(default)]
    fails: bool,
}

/// An operator that rejects events without a field.
struct Reject(RejectConfig);

impl Component for Reject {
    const NAME: &str = "reject";
    type Config = RejectConfig;

    fn new(config: RejectConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self(config))
    }
}

impl Operator for Reject {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        if self.0.fails {
            return Err(Error::bad_data("no event has the field"));
        }
        output.divert(batch, |event| match event.value().and_then(|it| it.get(&self.0.field)) {
            Some(_) => Verdict::Keep,
            None => Verdict::Reject(Error::bad_data("the event lacks the field")),
        });
        Ok(())
    }
}

#[test]
fn operator_that_accepts_no_event_skips_its_checks() {
    for config in [r#"{ "field": "other" }"#, r#"{ "field": "verify", "fails": true }"#] {
        let report = operator::<Reject>(config);
        report.expect_all_but(&[
            "stays_inside",
            "accounts_for_events",
            "knows_the_time",
            "drains",
            "shares_nothing",
        ]);
        let mut skipped = report.skipped();
        assert!(skipped.any(|(_, reason)| reason.contains("rejected every event")), "{report}");
    }
}

#[test]
fn operator_of_minimal_configuration_accepts_events() {
    let schema = serde_json::to_value(crate::schemars::schema_for!(RejectConfig)).unwrap();
    let config = working(Some(&schema)).to_string();
    operator::<Reject>(&config).expect_all_but(&["stays_inside"]);
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BacklogConfig {
    /// `true` to set the gauge also between pulls.
    upkeep: bool,
}

/// A source without an end, with a gauge of what waits.
struct Backlog {
    context: ComponentContext,
    config: BacklogConfig,
    upkeep: Option<Upkeep<()>>,
}

impl Component for Backlog {
    const NAME: &str = "backlog";
    type Config = BacklogConfig;

    fn new(config: BacklogConfig, context: ComponentContext) -> Result<Self> {
        Ok(Self { context, config, upkeep: None })
    }
}

impl Source for Backlog {
    type Batch = StructuredBatch;

    async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
        let unread = self.context.gauge("unread_events", "");
        unread.set_integer(7);
        if self.config.upkeep && self.upkeep.is_none() {
            let set = move |(): &mut ()| {
                unread.set_integer(7);
                Ok(())
            };
            self.upkeep = Some(self.context.upkeep("unread", Duration::from_secs(1), (), set));
        }
        batch.push("one")?;
        Ok(Pull::Events)
    }
}

#[test]
fn gauge_of_what_waits_has_to_be_set_without_pulls() {
    for upkeep in [true, false] {
        let report = source::<Backlog>(&json!({ "upkeep": upkeep }).to_string());
        let faults: Vec<&str> = report.faults().map(|(check, _)| check).collect();
        let expected: &[&str] = if upkeep { &[] } else { &["keeps_gauges_true"] };
        assert_eq!(faults, expected, "{report}");
    }
}

/// A source whose pull waits for another thread, with work between its pulls.
struct Deaf(ComponentContext, Option<Upkeep<()>>);

impl Component for Deaf {
    const NAME: &str = "deaf";
    type Config = NoConfig;

    fn new(_config: NoConfig, context: ComponentContext) -> Result<Self> {
        Ok(Self(context, None))
    }
}

impl Source for Deaf {
    type Batch = StructuredBatch;

    async fn pull(&mut self, _batch: &mut StructuredBatch) -> Result<Pull> {
        self.1 = Some(self.0.upkeep("deaf", Duration::from_secs(1), (), |()| Ok(())));
        let (_sender, receiver) = crate::oneshot::channel::<()>();
        receiver.await;
        Ok(Pull::Finished)
    }
}

#[test]
fn timers_of_upkeep_do_not_keep_a_silent_pull_waiting() {
    let report = source::<Deaf>("{}");
    report.expect_no_faults();
    let Outcome::Skipped { reason } = outcome(&report, "pulls") else { panic!("{report}") };
    assert_eq!(reason, NO_EVENT);
}
