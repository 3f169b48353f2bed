use serde_json::{Value as Json, json};
use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, Result, Value, literal};

use super::{Condition, Config};
use crate::linked;

fn compiled(config: Json) -> Result<Condition> {
    linked::read::<Config>(config)?.compile()
}

fn event() -> Batch {
    let mut batch = Batch::new();
    let event = literal!({
        "level": "warn",
        "code": 17,
        "took": 0.5,
        "tags": ["a", 2, null],
        "host": { "name": "web-1" },
        "nothing": null,
        "flag": true,
    });
    batch.push(&event).unwrap();
    batch.set_metadata(0, literal!({ "class": "gold" }));
    batch
}

/// Evaluates a condition for the same event in both representations of batches.
fn holds(config: &Json) -> bool {
    let condition = compiled(config.clone()).unwrap();
    let mut batch = event();
    let flat = condition.holds(batch.get(0).unwrap());
    batch.value_mut(0).unwrap();
    assert_eq!(flat, condition.holds(batch.get(0).unwrap()), "{config}");
    flat
}

#[test]
fn each_comparison_checks_one_property_of_a_field() {
    for (config, expected) in [
        (json!({"field": "level", "equals": "warn"}), true),
        (json!({"field": "level", "equals": "war"}), false),
        (json!({"field": "level", "equals": 17}), false),
        (json!({"field": "code", "equals": 17.0}), true),
        (json!({"field": "code", "equals": "17"}), false),
        (json!({"field": "nothing", "equals": null}), true),
        (json!({"field": "missing", "equals": null}), false),
        (json!({"field": "tags", "equals": ["a", 2, null]}), true),
        (json!({"field": "host", "equals": {"name": "web-1"}}), true),
        (json!({"field": "%class", "equals": "gold"}), true),
        (json!({"field": "class", "equals": "gold"}), false),
        (json!({"field": "level", "one_of": ["error", "warn"]}), true),
        (json!({"field": "code", "one_of": [1, "17"]}), false),
        (json!({"field": "level", "one_of": []}), false),
        (json!({"field": "nothing", "exists": true}), true),
        (json!({"field": "host.name", "exists": true}), true),
        (json!({"field": "host.port", "exists": true}), false),
        (json!({"field": "host.port", "exists": false}), true),
        (json!({"field": "level.deeper", "exists": false}), true),
        (json!({"field": "host.name", "matches": "^web-[0-9]$"}), true),
        (json!({"field": "code", "matches": "17"}), false),
        (json!({"field": "host.name", "contains": "eb-"}), true),
        (json!({"field": "host.name", "contains": 1}), false),
        (json!({"field": "tags", "contains": 2}), true),
        (json!({"field": "tags", "contains": null}), true),
        (json!({"field": "tags", "contains": "b"}), false),
        (json!({"field": "code", "contains": 1}), false),
        (json!({"field": "tags[0]", "starts_with": ""}), true),
        (json!({"field": "host.name", "starts_with": "web"}), true),
        (json!({"field": "host.name", "starts_with": "eb"}), false),
        (json!({"field": "host.name", "ends_with": "-1"}), true),
        (json!({"field": "code", "ends_with": "7"}), false),
    ] {
        assert_eq!(holds(&config), expected, "{config}");
    }
}

#[test]
fn numbers_and_texts_are_ordered_but_not_mixed() {
    for (config, expected) in [
        (json!({"field": "code", "less": 17}), false),
        (json!({"field": "code", "less": 17.5}), true),
        (json!({"field": "code", "less_or_equal": 17}), true),
        (json!({"field": "code", "greater": 17}), false),
        (json!({"field": "code", "greater_or_equal": 17.0}), true),
        (json!({"field": "code", "less": u64::MAX}), true),
        (json!({"field": "took", "greater": 0}), true),
        (json!({"field": "took", "less": 1}), true),
        (json!({"field": "level", "greater": "info"}), true),
        (json!({"field": "level", "less": "info"}), false),
        (json!({"field": "level", "greater": 0}), false),
        (json!({"field": "code", "greater": "0"}), false),
        (json!({"field": "flag", "greater": 0}), false),
        (json!({"field": "nothing", "less": 1}), false),
        (json!({"field": "missing", "less": 1}), false),
        (json!({"field": "tags", "greater": 0}), false),
    ] {
        assert_eq!(holds(&config), expected, "{config}");
    }
}

#[test]
fn nan_is_neither_less_nor_greater() {
    let mut batch = Batch::new();
    batch.push(&Value::from(f64::NAN)).unwrap();
    for order in ["less", "less_or_equal", "greater", "greater_or_equal"] {
        let condition = compiled(json!({"field": "", order: 0})).unwrap();
        assert!(!condition.holds(batch.get(0).unwrap()), "{order}");
    }
}

#[test]
fn conditions_are_combined_with_all_any_and_not() {
    let warn = json!({"field": "level", "equals": "warn"});
    let error = json!({"field": "level", "equals": "error"});
    for (config, expected) in [
        (json!({"all": [warn, {"field": "code", "greater": 1}]}), true),
        (json!({"all": [warn, error]}), false),
        (json!({"any": [error, warn]}), true),
        (json!({"any": [error]}), false),
        (json!({"not": error}), true),
        (json!({"not": {"not": error}}), false),
        (json!({"field": "level", "equals": "warn", "not": true}), false),
        (json!({"field": "level", "equals": "warn", "not": false}), true),
        (json!({"field": "missing", "equals": 1, "not": true}), true),
        (json!({"any": [error, warn], "not": true}), false),
        (json!({"all": [{"any": [error, warn]}, {"not": {"field": "x", "exists": true}}]}), true),
    ] {
        assert_eq!(holds(&config), expected, "{config}");
    }
}

#[test]
fn payload_without_fields_is_compared_as_a_whole() {
    let mut batch = Batch::new();
    batch.push("text").unwrap();
    batch.push_message(b"raw");
    let meets = |config: Json| {
        let condition = compiled(config).unwrap();
        [0, 1].map(|position| condition.holds(batch.get(position).unwrap()))
    };
    assert_eq!(meets(json!({"field": "", "equals": "text"})), [true, false]);
    assert_eq!(meets(json!({"field": "a", "exists": false})), [true, true]);
}

#[test]
fn invalid_condition_names_fault_and_position() {
    for (config, expected) in [
        (json!({}), "expected `field` with a comparison"),
        (json!({"field": "a"}), "`field`: expected exactly one comparison for `a`: `equals`"),
        (
            json!({"field": "a", "equals": 1, "exists": true}),
            "expected exactly one comparison for `a`",
        ),
        (json!({"equals": 1}), "expected `field`"),
        (json!({"field": "a", "exists": true, "any": []}), "exactly one of `all`"),
        (json!({"all": []}), "`all`: expected at least one condition"),
        (json!({"all": [{"field": "a", "exists": true}], "equals": 1}), "expected a `field` for"),
        (
            json!({"all": [{"field": "a", "exists": true}, {"any": [{"field": "b"}]}]}),
            "`all[1]`: `any[0]`: `field`: ",
        ),
        (json!({"not": {"field": "b"}}), "`not`: `field`: "),
        (json!({"field": "a", "matches": "("}), "`matches`: regex parse error"),
        (json!({"field": "a", "less": true}), "`less`: expected a number or a text, found true"),
        (json!({"field": "a[", "exists": true}), "`field`: `a[`: invalid path"),
        (json!({"field": "a", "equal": 1}), "unknown field `equal`"),
        (
            json!({"field": "a", "starts_with": 1}),
            "`starts_with`: invalid type: integer `1`, expected a string",
        ),
    ] {
        let error = compiled(config.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{config}: {error}");
    }
}
