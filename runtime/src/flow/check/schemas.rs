//! Finds the schemas that apply to the parts of a configuration.

use std::{collections::HashSet, ptr};

use serde_json::Value;

use super::super::yaml::{Data, Node};

/// Visits a node of a configuration and all nodes below it, each with the schemas that apply to it.
///
/// `visit` returns whether the nodes below the node are visited.
pub(super) fn walk(node: &Node, root: &Value, visit: &mut impl FnMut(&Node, &[&Value]) -> bool) {
    walk_keys(node, root, &mut |node, _, schemas| visit(node, schemas));
}

/// Visits nodes as [`walk`] does, and also passes the keys that lead to the node. Positions in lists are left out.
pub(super) fn walk_keys<'n>(
    node: &'n Node,
    root: &Value,
    visit: &mut impl FnMut(&Node, &[&'n str], &[&Value]) -> bool,
) {
    walk_below(node, root, &mut Vec::new(), &[root], visit);
}

fn walk_below<'n>(
    node: &'n Node,
    root: &Value,
    keys: &mut Vec<&'n str>,
    schemas: &[&Value],
    visit: &mut impl FnMut(&Node, &[&'n str], &[&Value]) -> bool,
) {
    let schemas = applied(root, schemas);
    if !visit(node, keys, &schemas) {
        return;
    }
    match &node.data {
        Data::Map(entries) => {
            for entry in entries {
                let below = schemas.iter().flat_map(|schema| of_key(schema, &entry.key));
                let below: Vec<_> = below.collect();
                keys.push(&entry.key);
                walk_below(&entry.value, root, keys, &below, visit);
                keys.pop();
            }
        }
        Data::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let below = schemas.iter().filter_map(|schema| of_item(schema, index));
                let below: Vec<_> = below.collect();
                walk_below(item, root, keys, &below, visit);
            }
        }
        _ => {}
    }
}

/// Returns the given schemas and all schemas that they refer to or combine, each once.
///
/// The result includes all alternatives. If one of them marks a value, for example as secret, the value counts as
/// marked.
fn applied<'s>(root: &'s Value, schemas: &[&'s Value]) -> Vec<&'s Value> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let mut next = schemas.to_vec();
    while let Some(schema) = next.pop() {
        if !seen.insert(ptr::from_ref(schema)) {
            continue;
        }
        all.push(schema);
        let reference = schema.get("$ref").and_then(Value::as_str);
        let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
        next.extend(pointer.and_then(|pointer| root.pointer(pointer)));
        for keyword in ["allOf", "anyOf", "oneOf"] {
            next.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        next.extend(["if", "then", "else"].iter().filter_map(|keyword| schema.get(keyword)));
    }
    all
}

/// Returns the schemas that apply to the value of a key.
fn of_key<'s>(schema: &'s Value, key: &str) -> Vec<&'s Value> {
    if let Some(property) = schema.get("properties").and_then(|properties| properties.get(key)) {
        return vec![property];
    }
    // Patterns are not compared with the key, so a value may count as marked although the pattern does not apply to it.
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let patterns = patterns.into_iter().flat_map(|patterns| patterns.values());
    patterns.chain(schema.get("additionalProperties")).collect()
}

fn of_item(schema: &Value, index: usize) -> Option<&Value> {
    let prefix = schema.get("prefixItems").and_then(|items| items.get(index));
    prefix.or_else(|| schema.get("items"))
}
