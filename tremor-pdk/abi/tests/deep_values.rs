//! Tests of values that are nested so deeply that recursion would overflow the stack. A program can build such values
//! level by level, so the stack usage of no operation may grow with the depth.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    thread,
};

use tremor_abi::{
    ByteBuffer, NodeBuffer,
    batch::{Batch, HostBatch},
    document::{self, MAX_DEPTH, WriteError},
    value::{Array, Change, Object, Path, Value, from_value, to_value},
};

const LEVELS: usize = 100_000;

/// Returns nested arrays.
fn arrays() -> Value<'static> {
    nested(LEVELS, |inner| Value::Array(Array::from(vec![inner])))
}

/// Returns nested objects, each with another field.
fn objects() -> Value<'static> {
    nested(LEVELS / 5, |inner| {
        let object: Object =
            [("first", Value::from("x".to_owned())), ("inner", inner)].into_iter().collect();
        Value::Object(object)
    })
}

/// Returns nested arrays in objects with an index of their keys.
fn large_objects() -> Value<'static> {
    nested(LEVELS / 50, |inner| {
        let mut object = Object::with_capacity(34);
        (0..33).for_each(|key| object.insert_nocheck(key.to_string(), Value::Null));
        object.insert_nocheck("inner", Value::Array(Array::from(vec![Value::Null, inner])));
        Value::Object(object)
    })
}

fn nested(levels: usize, wrap: impl Fn(Value<'static>) -> Value<'static>) -> Value<'static> {
    (0..levels).fold(Value::from(1), |inner, _| wrap(inner))
}

/// Runs `test` with deep values on a thread with std's default stack. The stack suffices for recursion over
/// [`MAX_DEPTH`] levels, even in unoptimised code, but not over all levels.
#[track_caller]
fn on_default_stack(test: fn(Value<'static>)) {
    for make in [arrays as fn() -> Value<'static>, objects, large_objects] {
        thread::spawn(move || test(make())).join().expect("the thread finished");
    }
}

/// Returns the value on the next level.
fn inner<'a>(value: &'a Value<'static>) -> Option<&'a Value<'static>> {
    match value {
        Value::Array(array) => array.last(),
        Value::Object(object) => object.get("inner"),
        _ => None,
    }
}

/// Returns the number of nested containers, and the innermost value.
fn depth<'a>(value: &'a Value<'static>) -> (usize, &'a Value<'static>) {
    let all = std::iter::successors(Some(value), |value| inner(value));
    all.enumerate().last().expect("the list has at least the value itself")
}

#[test]
fn deep_values_are_dropped() {
    on_default_stack(drop);
    on_default_stack(|value| drop(vec![Value::Null, value]));
    on_default_stack(|mut value| drop(value.take()));
    on_default_stack(|value| {
        let mut batch = Batch::new();
        batch.push_message(b"x");
        batch.set_metadata(batch.len() - 1, value);
    });
}

#[test]
fn remainder_of_disassembled_value_is_dropped() {
    on_default_stack(|value| match value {
        Value::Array(array) => drop(array.into_iter()),
        Value::Object(object) => drop(object.into_iter()),
        _ => unreachable!("the value is a container"),
    });
    on_default_stack(|mut value| match &mut value {
        Value::Array(array) => drop(array.pop()),
        Value::Object(object) => drop(object.remove("inner")),
        _ => unreachable!("the value is a container"),
    });
    on_default_stack(|mut value| {
        if let Value::Object(object) = &mut value {
            object.retain(|key, _| key.as_str() != "inner");
        }
    });
}

#[test]
fn deep_values_are_cloned_completely() {
    on_default_stack(|value| {
        let clone = value.clone();
        let (levels, last) = depth(&value);
        assert!([LEVELS, LEVELS / 5, 2 * LEVELS / 50].contains(&levels));
        assert_eq!(depth(&clone).0, levels);
        assert_eq!(depth(&clone).1, last);
        drop(value);
        assert_eq!(depth(&clone).1, &Value::from(1));
    });
}

#[test]
fn deep_values_become_owned_completely() {
    on_default_stack(|value| {
        let levels = depth(&value).0;
        let owned = value.into_static();
        assert_eq!(depth(&owned), (levels, &Value::from(1)));
    });
}

#[test]
fn deep_values_are_merged_completely() {
    on_default_stack(|value| {
        let patch = value.clone();
        let levels = depth(&value).0;
        let mut merged = value;
        merged.merge(patch);
        assert_eq!(depth(&merged), (levels, &Value::from(1)));
    });
    on_default_stack(|value| {
        let path: Path = "new".parse().expect("a path");
        let mut merged = Value::object();
        let changed = merged.patch([Change::Merge(path, value)]);
        assert_eq!(changed, Ok(()));
    });
}

#[test]
fn comparison_hash_and_text_end_at_the_depth_limit() {
    on_default_stack(|value| {
        let clone = value.clone();
        assert_eq!(value, clone);
        assert!(value <= clone);
        let hash = |value: &Value<'_>| {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&value), hash(&clone));
        let opened = |text: &str| text.matches(['[', '{']).count();
        assert_eq!(opened(&value.to_string()), MAX_DEPTH);
        assert_eq!(opened(&format!("{:?}", value.view())), MAX_DEPTH);
        assert!(format!("{value:?}").contains('…'), "the text shows that levels are missing");
        assert_eq!(opened(&serde_json::to_string(&value).expect("JSON")), MAX_DEPTH);
        assert_eq!(depth(&value.view().to_value()).0, MAX_DEPTH);
    });
}

#[test]
fn deep_values_cannot_become_documents() {
    on_default_stack(|value| {
        let (mut bytes, mut nodes) = (ByteBuffer::new(), NodeBuffer::new());
        let mut writer = document::Writer::new(&mut bytes, &mut nodes);
        writer.write_value(value.view());
        assert_eq!(writer.finish(), Err(WriteError::TooDeep));
        assert!(bytes.is_empty() && nodes.is_empty());
        // Serialisation ends at the depth limit, as the text does.
        assert_eq!(depth(&to_value(&value).expect("a value down to the limit")).0, MAX_DEPTH);
        let read = from_value::<Value<'static>>(&value);
        assert_eq!(
            read.map_err(|error| error.to_string()),
            Err("the value is nested deeper than 512 levels".into())
        );
    });
}
