use serde_json::{Value as Json, json};
use tremor_pdk::{
    Batch, Operator, Output, Value, literal,
    testing::{HostBatch, TestHost, batch_of},
};

use super::Redact;

const KEY: &str = "a secret of 32 bytes, or longer.";

fn operator(config: &Json) -> Result<Redact, String> {
    TestHost::new().component(&config.to_string()).map_err(|error| error.to_string())
}

fn rules(rules: &Json) -> Redact {
    let is_keyed = rules.to_string().contains("hmac_sha256");
    let key = if is_keyed { json!(KEY) } else { Json::Null };
    operator(&json!({ "key": key, "rules": rules })).unwrap()
}

/// Returns the event after the operator, or the message with which the event was rejected.
fn redacted(operator: &mut Redact, event: &Value<'static>) -> Result<String, String> {
    let mut batch = Batch::new();
    batch.push(event).unwrap();
    let mut output = Output::new();
    operator.process(&mut batch, &mut output).unwrap();
    match output.rejected().first() {
        Some(rejected) => Err(rejected.error.to_string()),
        None => Ok(batch.first().unwrap().value().unwrap().to_string()),
    }
}

#[test]
fn rules_redact_fields_and_matches_in_order() {
    let event = literal!({
        "user": { "mail": "bob@example.com", "id": 7, "tags": ["a@b.cd", 4_111_111_111_111_111_i64, null, true] },
        "message": "bob@example.com paid with 4111 1111 1111 1111 from 10.0.0.1, a@b.cd",
        "mail@example.com": 1.5,
    });
    let message = |text: &str| {
        let user =
            r#"{"mail":"bob@example.com","id":7,"tags":["a@b.cd",4111111111111111,null,true]}"#;
        format!(r#"{{"user":{user},"message":"{text}","mail@example.com":1.5}}"#)
    };
    let hash = "5ff860bf1190596c7188ab851db691f0f3169c453936e9e1eba2f9a47f7a0018";
    for (config, expected) in [
        (json!([{ "fields": ["message"] }]), message("[redacted]")),
        (
            json!([{ "fields": ["message"], "patterns": ["email", "ipv4"] }]),
            message("[redacted] paid with 4111 1111 1111 1111 from [redacted], [redacted]"),
        ),
        (
            json!([
                { "fields": ["message"], "patterns": ["credit_card"], "mask": { "keep_last": 4 } },
                { "fields": ["message"], "regex": ["@[a-z.]+", "\\d\\d+"], "replace": "" },
            ]),
            message("bob paid with ***************1111 from .0.0.1, a"),
        ),
        (
            json!([{ "fields": ["message"], "regex": ["^[^ ]+"], "hash": "sha256" }]),
            message(&format!("{hash} paid with 4111 1111 1111 1111 from 10.0.0.1, a@b.cd")),
        ),
        (
            json!([{ "fields": [".", "user.tags", "x.y", "user.id[0]"], "patterns": ["email", "credit_card"] }]),
            r#"{"user":{"mail":"[redacted]","id":7,"tags":["[redacted]","[redacted]",null,true]},"message":"[redacted] paid with [redacted] from 10.0.0.1, [redacted]","mail@example.com":1.5}"#.to_owned(),
        ),
        (
            json!([{ "fields": ["user.tags[0]", "user.id"], "mask": { "keep_first": 1, "with": "-" } }]),
            r#"{"user":{"mail":"bob@example.com","id":"-","tags":["a-----",4111111111111111,null,true]},"message":"bob@example.com paid with 4111 1111 1111 1111 from 10.0.0.1, a@b.cd","mail@example.com":1.5}"#.to_owned(),
        ),
    ] {
        assert_eq!(redacted(&mut rules(&config), &event), Ok(expected), "{config}");
    }
}

/// A rule must not change what an earlier rule has written: a hash may contain the digits of a card by chance.
#[test]
fn later_rules_do_not_search_what_rules_have_written() {
    let all = json!({ "fields": ["."], "regex": ["[0-9a-f\\[\\]*]+"], "replace": "!" });
    let first = json!([
        { "fields": ["a"], "hash": "sha256" },
        { "fields": ["b"], "patterns": ["email"], "mask": { "keep_last": 2 } },
        { "fields": ["c"], "replace": "" },
        all,
        { "fields": ["d"], "mask": {} },
    ]);
    let event = literal!({ "a": "abc", "b": "x a@b.cd y a@b.ef z1", "c": "abc", "d": "xax" });
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let expected = format!(r#"{{"a":"{hash}","b":"x ****cd y ****ef z!","c":"","d":"***"}}"#);
    assert_eq!(redacted(&mut rules(&first), &event), Ok(expected));
}

/// A pseudonym of a value must not depend on its type, on the run or on the rules before it.
#[test]
fn hash_of_a_number_is_that_of_its_text() {
    let mut plain = rules(&json!([{ "fields": [""], "hash": "sha256" }]));
    let seven = "\"7902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6da49081b2451\"";
    assert_eq!(redacted(&mut plain, &literal!(7)).as_deref(), Ok(seven));
    let mut keyed = rules(&json!([{ "fields": [""], "hash": "hmac_sha256" }]));
    let of = |operator: &mut Redact, value| redacted(operator, &value).unwrap();
    let hash = of(&mut keyed, literal!("7"));
    assert_eq!(hash.len(), 66);
    assert_ne!(hash, seven);
    assert_eq!(of(&mut keyed, literal!(7)), hash);
    assert_eq!(
        of(&mut rules(&json!([{ "fields": ["."], "hash": "hmac_sha256" }])), literal!(7_u64)),
        hash
    );
    assert_ne!(of(&mut keyed, literal!(7.0)), hash);
    for unchanged in [literal!(null), literal!(true), literal!([]), literal!({ "7": null })] {
        assert_eq!(of(&mut keyed, unchanged.clone()), unchanged.to_string());
    }
}

#[test]
fn binary_data_stays_binary_unless_it_is_hashed() {
    let bytes = |data: &[u8]| Value::Bytes(data.to_vec().into());
    let mut batch = Batch::new();
    batch.push(&bytes(b"\xff a@b.cd \xfe")).unwrap();
    let mut operator = rules(&json!([{ "fields": ["."], "patterns": ["email"] }]));
    operator.process(&mut batch, &mut Output::new()).unwrap();
    let value = batch.first().unwrap().value().unwrap();
    assert_eq!(value.as_bytes(), Some(&b"\xff [redacted] \xfe"[..]));
    batch.validate().unwrap();
    let mut operator = rules(&json!([{ "fields": ["."], "hash": "sha256" }]));
    let hash = "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"";
    assert_eq!(redacted(&mut operator, &bytes(b"abc")).as_deref(), Ok(hash));
}

#[test]
fn fields_of_the_metadata_are_redacted() {
    let mut batch = Batch::new();
    batch.push(&literal!({ "a": "x" })).unwrap();
    batch
        .last_mut()
        .unwrap()
        .set_metadata(literal!({ "peer": { "address": "10.0.0.1:5" }, "n": 1 }));
    let mut operator = rules(&json!([{ "fields": ["%peer", "a", "%none"], "patterns": ["ipv4"] }]));
    operator.process(&mut batch, &mut Output::new()).unwrap();
    let event = batch.first().unwrap();
    let metadata = event.metadata().unwrap().to_string();
    assert_eq!(metadata, r#"{"peer":{"address":"[redacted]:5"},"n":1}"#);
    assert_eq!(event.value().unwrap().to_string(), r#"{"a":"x"}"#);
}

#[test]
fn event_that_lacks_a_field_is_rejected_redacted() {
    let config = json!([{ "fields": ["a", "b"], "missing": "err" }, { "fields": ["c"] }]);
    let mut operator = rules(&config);
    let mut batch = Batch::new();
    for event in [literal!({ "a": "secret", "c": 2 }), literal!({ "a": null, "b": 1 })] {
        batch.push(&event).unwrap();
    }
    let mut output = Output::new();
    operator.process(&mut batch, &mut output).unwrap();
    assert_eq!(
        batch.first().unwrap().value().unwrap().to_string(),
        r#"{"a":null,"b":"[redacted]"}"#
    );
    let [rejected] = output.rejected() else { panic!() };
    assert_eq!(rejected.error.to_string(), "cannot redact `b`: the event has no such field");
}

#[test]
fn event_without_a_value_is_rejected() {
    let mut operator = rules(&json!([{ "fields": ["."] }]));
    let (mut batch, mut output) = (batch_of(&[b"bob@example.com"]), Output::new());
    operator.process(&mut batch, &mut output).unwrap();
    let error = output.rejected()[0].error.to_string();
    assert!(error.contains("`codec`") && !error.contains("bob"), "{error}");
}

/// Each character of the event becomes 64 characters.
#[test]
fn event_that_grows_too_much_is_rejected() {
    let mut operator = rules(&json!([{ "fields": ["."], "regex": ["."], "hash": "sha256" }]));
    let text = "x".repeat(1 << 20);
    let error = redacted(&mut operator, &literal!({ "a": text })).unwrap_err();
    assert!(error.contains("left for the events of its batch") && !error.contains("xx"), "{error}");
    let event = literal!({ "a": "xx" });
    assert_eq!(redacted(&mut operator, &event).unwrap().len(), r#"{"a":""}"#.len() + 128);
}

#[test]
fn mistakes_of_rules_are_reported() {
    let rule = |keys: Json| {
        let mut rule = json!({ "fields": ["a"] });
        rule.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        json!({ "rules": [{ "fields": ["b"] }, rule] })
    };
    for (config, expected) in [
        (json!({}), "`rules`"),
        (json!({ "rules": [] }), "`rules`: expected at least one rule"),
        (json!({ "rules": [{}] }), "`fields`"),
        (rule(json!({ "fields": [] })), "`rules[1]`: `fields`: expected at least one field"),
        (rule(json!({ "fields": ["a..b"] })), "`a..b`: invalid path"),
        (rule(json!({ "patterns": [] })), "`patterns` is empty"),
        (rule(json!({ "regex": [] })), "`regex` is empty"),
        (rule(json!({ "patterns": ["mail"] })), "`mail`"),
        (rule(json!({ "regex": ["a", "b*"] })), "`rules[1]`: `regex[1]`: the expression `b*`"),
        (rule(json!({ "regex": ["(a"] })), "`regex[0]`"),
        (rule(json!({ "replace": "x", "mask": {} })), "at most one of `replace`, `mask`"),
        (rule(json!({ "mask": { "with": "ab" } })), "`rules[1].mask.with`"),
        (rule(json!({ "mask": { "keep_first": -1 } })), "`rules[1].mask.keep_first`"),
        (rule(json!({ "hash": "md5" })), "`md5`"),
        (rule(json!({ "hash": "hmac_sha256" })), "needs a secret: set `key`"),
        (
            json!({ "key": "short-secret", "rules": [{ "fields": ["a"], "hash": "hmac_sha256" }] }),
            "invalid `key`: expected at least 16 bytes, found 12",
        ),
        (json!({ "key": KEY, "rules": [{ "fields": ["a"] }] }), "`key` has no effect"),
    ] {
        let error = operator(&config).err().unwrap_or_default();
        assert!(error.contains(expected), "{config}: {error}");
        assert!(!error.contains("secret of 32") && !error.contains("short-secret"), "{error}");
    }
}
