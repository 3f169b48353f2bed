use proptest::prelude::*;

use super::*;

#[test]
fn layouts_of_object_bodies_are_fixed() {
    use std::mem::{align_of, size_of};
    assert_layouts! {
        Body<'_> => 72, 8;
        Entry<'_> => 56, 8;
        Index => 32, 8;
    }
}

fn numbered(len: i64) -> Object<'static> {
    (0..len).map(|n| (format!("key {n}"), n)).collect()
}

#[test]
fn keys_keep_their_order_at_every_size() {
    for len in [0, 1, 32, 33, 1_000] {
        let object = numbered(len);
        let keys: Vec<_> = object.keys().map(|key| key.as_str().to_owned()).collect();
        assert_eq!(keys, (0..len).map(|n| format!("key {n}")).collect::<Vec<_>>());
    }
}

#[test]
fn index_exists_exactly_above_linear_limit() {
    let mut object = numbered(32);
    assert!(object.0.index.is_none());
    object.insert("one more", 32);
    assert!(object.0.index.is_some());
    object.remove("key 0");
    assert!(object.0.index.is_none());
}

#[test]
fn repeated_key_replaces_in_place() {
    let mut object = numbered(40);
    let old = object.insert("key 3", "new");
    assert!(matches!(old, Some(Value::I64(3))));
    assert_eq!(object.len(), 40);
    assert_eq!(object.keys().nth(3).map(Str::as_str), Some("key 3"));
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(u8, i64),
    Remove(u8),
    RetainBelow(u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        8 => (any::<u8>(), any::<i64>()).prop_map(|(key, value)| Edit::Insert(key % 60, value)),
        3 => any::<u8>().prop_map(|key| Edit::Remove(key % 60)),
        1 => (40_u8..60).prop_map(Edit::RetainBelow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn object_behaves_like_a_list_of_pairs(edits in prop::collection::vec(edit(), 0..200)) {
        let mut object = Object::new();
        let mut model: Vec<(String, i64)> = Vec::new();
        for edit in edits {
            match edit {
                Edit::Insert(key, value) => {
                    let key = key.to_string();
                    object.insert(key.clone(), value);
                    match model.iter_mut().find(|(other, _)| *other == key) {
                        Some((_, old)) => *old = value,
                        None => model.push((key, value)),
                    }
                }
                Edit::Remove(key) => {
                    let key = key.to_string();
                    let removed = object.remove(&key);
                    let position = model.iter().position(|(other, _)| *other == key);
                    prop_assert_eq!(removed.is_some(), position.is_some());
                    if let Some(position) = position {
                        model.remove(position);
                    }
                }
                Edit::RetainBelow(limit) => {
                    let below = |key: &str| key.parse::<u8>().is_ok_and(|key| key < limit);
                    object.retain(|key, _| below(key));
                    model.retain(|(key, _)| below(key));
                }
            }
        }
        let entries: Vec<_> = object.iter().map(|(key, value)| match value {
            Value::I64(value) => (key.as_str().to_owned(), *value),
            other => panic!("unexpected {other:?}"),
        }).collect();
        prop_assert_eq!(&entries, &model);
        for (key, value) in &model {
            prop_assert!(matches!(object.get(key), Some(Value::I64(found)) if found == value));
            prop_assert_eq!(object.position_of(key.as_str()), object.position(key));
        }
        prop_assert!(object.clone().get("absent").is_none());
    }
}
