//! The operator `filter`, which keeps the events that fulfil a condition.

use tremor_pdk::{Batch, Component, ComponentContext, Operator, Output, Result};

use super::condition::{self, Condition};

/// Keeps the events that fulfil the condition, and discards the others.
#[derive(Debug)]
pub(crate) struct Filter {
    condition: Condition,
}

impl Component for Filter {
    const NAME: &str = "filter";
    const STATELESS: bool = true;
    type Config = condition::Config;

    fn new(config: condition::Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { condition: config.compile()? })
    }
}

impl Operator for Filter {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.retain(batch, |event| self.condition.holds(event));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::operator::testing::{Bench, batch};

    #[test]
    fn other_events_are_discarded_and_counted() {
        let events = [json!({"a": 1}), json!({"a": 2}), json!({"a": "1"}), json!({}), json!("a")];
        let mut filter = Bench::new("filter", json!({ "field": "a", "equals": 1, "not": true }));
        let ran = filter.process(batch(&events));
        assert_eq!(ran.out, [r#"{"a":2}"#, r#"{"a":"1"}"#, "{}", r#""a""#]);
        assert_eq!(ran.discarded, 1);
    }
}
