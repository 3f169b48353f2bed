use proptest::prelude::*;
use serde_json::json;

use super::{Template, TimeCache};
use crate::{Batch, literal};

fn rendered(template: &str) -> Result<String, String> {
    let mut batch = Batch::new();
    let event = json!({
        "host": "h", "n": -3, "big": u64::MAX, "f": 1.5, "yes": true, "none": null,
        "list": ["first"], "odd}:- key": "odd", "object": {},
        "ts": 1_700_000_000_000_000_000_i64, "at": "2026-03-29T01:30:00+01:00", "far": u64::MAX,
        "old": -1_500_000_000,
    });
    batch.push(&event).unwrap();
    batch.last_mut().unwrap().set_metadata(literal!({ "file": { "name": "x.log" } }));
    batch.last_mut().unwrap().set_ingest_ns(1_795_912_200_123_456_789);
    let template: Template = template.parse().map_err(|error| format!("{error}"))?;
    let event = batch.get(0).unwrap();
    let mut out = "before ".to_owned();
    let result = template.render(event, &mut out);
    let text = out.strip_prefix("before ").unwrap().to_owned();
    let mut cache = TimeCache::default();
    for _ in 0..2 {
        let mut cached = String::new();
        let same = template.render_cached(event, &mut cached, &mut cache).is_ok();
        assert_eq!((same, cached.as_str()), (result.is_ok(), text.as_str()));
    }
    result.map(|()| text.clone()).map_err(|error| {
        assert_eq!(text, "");
        error.to_string()
    })
}

#[test]
fn fields_are_replaced_by_their_text() {
    for (template, expected) in [
        ("", ""),
        ("plain", "plain"),
        ("{host}/{%file.name}", "h/x.log"),
        ("{.host} {n} {big} {f} {yes}", "h -3 18446744073709551615 1.5 true"),
        ("{{{host}}} }}{{", "{h} }{"),
        ("{\"odd}:- key\"}!", "odd!"),
        ("{list[0]}", "first"),
        ("{x:-none} {none:-}{host:-other}{object:-a:-b}", "none ha:-b"),
        ("ä{host}ä", "ähä"),
    ] {
        assert_eq!(rendered(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn field_without_text_or_default_is_an_error() {
    for (template, field, found) in [
        ("a{x}", "x", "no such field"),
        ("{host}{%x.y}", "%x.y", "no such field"),
        ("{none}", "none", "null"),
        ("{list}", "list", "an array"),
        ("{object}", "object", "an object"),
    ] {
        let expected =
            format!("expected text, a number or a truth value as `{field}`, found {found}");
        assert_eq!(rendered(template), Err(expected), "{template}");
    }
}

#[test]
fn syntax_error_has_its_position() {
    for (template, offset) in [
        ("{host", 5),
        ("a}", 1),
        ("ab{}", 3),
        ("{a..b}", 2),
        ("{host:x}", 5),
        ("{host:-x", 8),
        ("{%a b}", 3),
        ("{\"a}", 1),
        ("{host}{", 7),
        ("{ts:+%Y", 7),
        ("{ts:+}", 5),
        ("a{:+%Y%!}", 4),
        ("{ts:+%Y|Mars}", 8),
        ("{ts:+%Y|}", 8),
        ("{ts:+%Y|UTC:-x", 14),
        ("{ts:+YYYY-MM-DD}", 5),
        ("{:+|UTC}", 3),
        ("{host:-unknown/{:+%F|local}.log", 15),
        ("{host:-a{{b}", 8),
        ("{:+%F{host}", 5),
    ] {
        let error = template.parse::<Template>().unwrap_err();
        assert_eq!(error.offset, offset, "{template}: {error}");
    }
}

#[test]
fn mistakes_in_times_and_braces_have_a_remedy() {
    for (template, expected) in [
        ("{:+YYYY-MM-DD}", "such as `%Y-%m-%d`, found `YYYY-MM-DD`, which has no `%` at offset 3"),
        ("{host:-unknown/{:+%F}", "expected `}` before this `{`"),
        ("{%F}", "no such field; for the time when the event was read, write `{:+%F}`"),
    ] {
        let error = rendered(template).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn no_template_panics(text in "[a{}:\\-.%\"\\\\\\[\\]0ä]{0,16}") {
        let _ = rendered(&text);
    }

    #[test]
    fn escaped_text_is_itself(text in "[a{}ä ]{0,16}") {
        let escaped = text.replace('{', "{{").replace('}', "}}");
        prop_assert_eq!(rendered(&escaped), Ok(text));
    }
}

#[test]
fn times_are_formatted_in_their_zones() {
    for (template, expected) in [
        ("{ts:+%Y-%m-%d}/x", "2023-11-14/x"),
        ("{ts:+%F %T%z|Asia/Tokyo}", "2023-11-15 07:13:20+0900"),
        ("{at:+%F %T|Europe/Berlin}", "2026-03-29 01:30:00"),
        ("{at:+%H:%M:%S}", "00:30:00"),
        ("{:+%F %H}{{", "2026-11-29 00{"),
        ("{:+%s.%N}", "1795912200.123456789"),
        ("{old:+%s %9f %T %F}", "-2 500000000 23:59:58 1969-12-31"),
        ("{x:+%F|UTC:-never}", "never"),
        ("{host:+%F:-no time}", "no time"),
        ("{far:+%Y}", "2554"),
    ] {
        assert_eq!(rendered(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn value_that_is_not_a_time_is_an_error() {
    for (template, field, found) in [
        ("a{x:+%F}", "x", "no such field"),
        ("{host:+%F}", "host", "another text"),
        ("{f:+%F}", "f", "a number"),
        ("{none:+%F|UTC}", "none", "null"),
    ] {
        let error = rendered(template).unwrap_err();
        let ends = format!(" as `{field}`, found {found}");
        assert!(error.starts_with("expected a time") && error.ends_with(&ends), "{error}");
    }
}

#[test]
fn cached_times_are_those_of_each_event() {
    // Around the beginning and the end of daylight saving time in Berlin, and around midnight in UTC and in Berlin.
    for template in
        ["{t:+%F|Europe/Berlin}", "{t:+%F %H}", "{t:+%T.%N}", "{t:+%c %z|Europe/Berlin}", "{t:+%s}"]
    {
        let template: Template = template.parse().unwrap();
        let mut cache = TimeCache::default();
        for middle in [1_774_746_000_i64, 1_792_890_000, 1_792_879_200, 1_792_886_400, 0] {
            for step in -400..400_i64 {
                let mut batch = Batch::new();
                let ns = middle * 1_000_000_000 + step * 17_000_000_007;
                batch.push(&json!({ "t": ns })).unwrap();
                let (mut plain, mut cached) = (String::new(), String::new());
                let event = batch.get(0).unwrap();
                template.render(event, &mut plain).unwrap();
                template.render_cached(event, &mut cached, &mut cache).unwrap();
                assert_eq!(plain, cached, "{template} {ns}");
            }
        }
    }
}

#[test]
fn constant_and_prefix_are_the_fixed_text() {
    for (text, constant, prefix) in [
        ("", Some(""), ""),
        ("a{{b}}", Some("a{b}"), "a{b}"),
        ("a{{/{x}/b", None, "a{/"),
        ("{:+%F}/b", None, ""),
    ] {
        let template: Template = text.parse().unwrap();
        assert_eq!((template.constant(), template.prefix()), (constant, prefix));
        assert_eq!(template.to_string(), text);
    }
}

#[test]
fn shape_has_a_text_for_each_field_and_time() {
    for (template, shape) in
        [("a/{x}{%y:-d}/{:+%Y/%m}.{{b}}", "a/||/|.{b}"), ("{x:+%F}", "|"), ("a", "a"), ("", "")]
    {
        assert_eq!(template.parse::<Template>().unwrap().shape("|"), shape);
    }
}

#[test]
fn escape_sees_values_and_neither_defaults_nor_times() {
    let mut batch = Batch::new();
    batch.push(&json!({ "a": "x/y", "n": 7 })).unwrap();
    batch.last_mut().unwrap().set_ingest_ns(1_795_912_200_123_456_789);
    let template: Template = "/{a}/{n}/{none:-d/e}/{:+%Y/%m}/{{/".parse().unwrap();
    let (mut seen, mut out, mut cache) = (Vec::new(), "before".to_owned(), TimeCache::default());
    let escape = |out: &mut String, start: usize| {
        let value = out.split_off(start);
        out.push_str(&value.replace('/', "%2F"));
        seen.push(value);
    };
    template.render_escaped(batch.get(0).unwrap(), &mut out, &mut cache, escape).unwrap();
    assert_eq!(out, "before/x%2Fy/7/d/e/2026/11/{/");
    assert_eq!(seen, ["x/y", "7"]);
}

#[test]
fn encoded_event_has_fields_in_its_metadata() {
    let mut batch = Batch::new();
    batch.push_message(b"encoded");
    batch.last_mut().unwrap().set_metadata(literal!({
        "file": "f",
        "template": {
            "host.\"odd key\"[0]": "h", "n": 7, "list": [], "long": { "length": 70_000 }, "object": {},
            "at": 1_700_000_000_000_000_000_i64, "": "whole",
        },
    }));
    let render = |template: &str| {
        let template: Template = template.parse().unwrap();
        let mut out = String::new();
        let result = template.render(batch.get(0).unwrap(), &mut out);
        result.map_err(|error| error.to_string()).map(|()| out)
    };
    let expected = "h 7 2023-11-14 f whole";
    let text = "{.host.\"odd key\"[0]} {n} {at:+%F} {%file} {.}";
    assert_eq!(render(text).as_deref(), Ok(expected));
    assert_eq!(render("{x:-d}{long:-}{list:-e}").as_deref(), Ok("de"));
    for (template, found) in [
        ("{x}", "no such field"),
        ("{list}", "an array"),
        ("{object}", "an object"),
        ("{long}", "text of more than 64 KiB"),
        ("{long:+%F}", "text of more than 64 KiB"),
        ("{%file.x}", "no such field"),
    ] {
        let error = render(template).unwrap_err();
        assert!(error.ends_with(&format!("`, found {found}")), "{error}");
    }
}

#[test]
fn event_with_a_value_ignores_fields_in_its_metadata() {
    let mut batch = Batch::new();
    batch.push(&json!({ "a": "value" })).unwrap();
    batch.last_mut().unwrap().set_metadata(literal!({ "template": { "a": "other", "b": "b" } }));
    let mut out = String::new();
    let template: Template = "{a}{b:-none}".parse().unwrap();
    template.render(batch.get(0).unwrap(), &mut out).unwrap();
    assert_eq!(out, "valuenone");
}
