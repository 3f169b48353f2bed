//! The operator `route`, which selects the port of an event by conditions.

use tremor_pdk::{Batch, Component, ComponentContext, Error, Operator, Output, Result, Verdict};

use super::condition::{self, Condition};
use crate::flow::{ERR, IN, NAME_FORM, OUT, is_valid_name};

/// Sends each event to the port of the first rule whose condition it fulfils.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// Rules in the order in which they are tried.
    rules: Vec<Rule>,
    /// Port of events that fulfil none of the conditions.
    #[serde(default = "out")]
    default: String,
}

/// Port for events that fulfil a condition.
#[tremor_pdk::config]
struct Rule {
    /// Condition of the rule.
    when: condition::Config,
    /// Port of the rule. Links refer to the port as `PIPELINE/PORT`.
    port: String,
}

fn out() -> String {
    OUT.to_owned()
}

impl Config {
    /// Returns the ports except `out`, in the order in which they first occur.
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
    const STATELESS: bool = true;
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

/// Returns the verdict for an event that leaves through the port `name`.
fn verdict(ports: &[String], name: &str) -> Result<Verdict> {
    let wrong = |expected: std::fmt::Arguments<'_>| {
        Err(Error::configuration(format_args!("invalid port `{name}`: expected {expected}")))
    };
    if matches!(name, ERR | IN) {
        return wrong(format_args!("another name than `err` and `in`"));
    }
    if !is_valid_name(name) {
        return wrong(format_args!("a name ({NAME_FORM})"));
    }
    let Some(position) = ports.iter().position(|port| port == name) else {
        return Ok(Verdict::Keep);
    };
    let too_many = |_| wrong(format_args!("at most 65536 ports"));
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

    use crate::operator::testing::{Bench, batch, creation_error};

    fn rule(level: &str, port: &str) -> Json {
        json!({ "when": { "field": "level", "equals": level }, "port": port })
    }

    fn events() -> Vec<Json> {
        ["warn", "error", "info", "debug"].map(|level| json!({ "level": level })).into()
    }

    #[test]
    fn first_matching_rule_selects_the_port() {
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
    fn event_without_matching_rule_uses_default_port() {
        let config = json!({ "rules": [rule("warn", "out")], "default": "other" });
        let ran = Bench::new("route", config).process(batch(&events()));
        assert_eq!(ran.out, [r#"{"level":"warn"}"#]);
        assert_eq!(ran.port("other").len(), 3);
    }

    #[test]
    fn error_names_invalid_rule() {
        let bad = json!({ "when": { "field": "a" }, "port": "p" });
        let error = creation_error("route", &json!({ "rules": [rule("warn", "p"), bad] }));
        assert!(error.starts_with("`rules[1].when`: `field`: "), "{error}");
        let error = creation_error("route", &json!({ "rules": [rule("warn", "err")] }));
        assert!(
            error.starts_with("`rules[0].port`: invalid port `err`: expected another name"),
            "{error}"
        );
    }
}
