//! The operator `route`: the first condition that an event meets picks its port.

use tremor_pdk::{Batch, Component, ComponentContext, Error, Operator, Output, Result, Verdict};

use super::condition::{self, Condition};
use crate::flow::{ERR, IN, NAME_FORM, OUT, is_valid_name};

/// Sends each event by the port of the first rule whose condition it meets.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// The rules, tried in this order.
    rules: Vec<Rule>,
    /// The port of events that meet none of the conditions.
    #[serde(default = "out")]
    default: String,
}

/// Where the events go that meet a condition.
#[tremor_pdk::config]
struct Rule {
    /// The condition.
    when: condition::Config,
    /// The port, which links name as `PIPELINE/PORT`.
    port: String,
}

fn out() -> String {
    OUT.to_owned()
}

impl Config {
    /// The ports beside `out`, in the order that they are first named.
    fn named(&self) -> Vec<String> {
        let mut named: Vec<String> = Vec::new();
        let ports = self.rules.iter().map(|rule| &rule.port).chain([&self.default]);
        for port in ports.filter(|port| *port != OUT) {
            if !named.contains(port) {
                named.push(port.clone());
            }
        }
        named
    }
}

pub(crate) struct Route {
    rules: Vec<(Condition, Verdict)>,
    default: Verdict,
    ports: Vec<String>,
}

impl Component for Route {
    const NAME: &str = "route";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let ports = config.named();
        let default = verdict(&ports, &config.default).map_err(|it| it.context("`default`"))?;
        let rules = config.rules.into_iter().enumerate().map(|(position, rule)| {
            let at = |key| format!("`rules[{position}].{key}`");
            let condition = rule.when.compile().map_err(|error| error.context(at("when")))?;
            let verdict = verdict(&ports, &rule.port).map_err(|error| error.context(at("port")))?;
            Ok((condition, verdict))
        });
        let rules = rules.collect::<Result<_>>()?;
        Ok(Self { rules, default, ports })
    }
}

/// What becomes of an event that leaves by a port.
fn verdict(ports: &[String], name: &str) -> Result<Verdict> {
    let wrong = |why: std::fmt::Arguments<'_>| {
        Err(Error::configuration(format_args!("expected a name for a port, found `{name}`{why}")))
    };
    if matches!(name, ERR | IN) {
        return wrong(format_args!(", which is the name of another port"));
    }
    if !is_valid_name(name) {
        return wrong(format_args!(": {NAME_FORM}"));
    }
    let Some(position) = ports.iter().position(|port| port == name) else {
        return Ok(Verdict::Keep);
    };
    let too_many = |_| wrong(format_args!(", which is one more than an operator may have"));
    u16::try_from(position).map(Verdict::Port).or_else(too_many)
}

impl Operator for Route {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| {
            let met = self.rules.iter().find(|(condition, _)| condition.holds(event.get()));
            met.map_or(&self.default, |(_, verdict)| verdict).clone()
        });
        Ok(())
    }

    fn ports(&self) -> Vec<String> {
        self.ports.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use crate::operator::testing::{Bench, batch, refused};

    fn rule(level: &str, port: &str) -> Json {
        json!({ "when": { "field": "level", "equals": level }, "port": port })
    }

    fn events() -> Vec<Json> {
        ["warn", "error", "info", "debug"].map(|level| json!({ "level": level })).into()
    }

    #[test]
    fn the_first_rule_that_an_event_meets_picks_its_port() {
        let any = json!({ "when": { "field": "level", "starts_with": "e" }, "port": "rest" });
        let rules = [rule("error", "bad"), rule("info", "out"), rule("warn", "bad"), any];
        let mut route = Bench::new("route", json!({ "rules": rules }));
        let mut all = events();
        all.extend([json!({ "level": "else" }), json!({}), json!(17)]);
        let ran = route.process(batch(&all));
        assert_eq!(ran.port("bad"), [r#"{"level":"warn"}"#, r#"{"level":"error"}"#]);
        assert_eq!(ran.port("rest"), [r#"{"level":"else"}"#]);
        assert_eq!(ran.out, [r#"{"level":"info"}"#, r#"{"level":"debug"}"#, "{}", "17"]);
        assert_eq!((ran.discarded, ran.rejected.len()), (0, 0));
    }

    #[test]
    fn what_meets_no_rule_leaves_by_the_default_port() {
        let config = json!({ "rules": [rule("warn", "out")], "default": "other" });
        let ran = Bench::new("route", config).process(batch(&events()));
        assert_eq!(ran.out, [r#"{"level":"warn"}"#]);
        assert_eq!(ran.port("other").len(), 3);
    }

    #[test]
    fn a_bad_rule_is_named() {
        let bad = json!({ "when": { "field": "a" }, "port": "p" });
        let error = refused("route", &json!({ "rules": [rule("warn", "p"), bad] }));
        assert!(error.starts_with("`rules[1].when`: `field`: "), "{error}");
        let error = refused("route", &json!({ "rules": [rule("warn", "err")] }));
        assert!(
            error.starts_with("`rules[0].port`: expected a name for a port, found `err`"),
            "{error}"
        );
    }
}
