//! Files that components read. The schemas of configurations mark the keys whose values are such files.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::Value;

use super::{
    super::{
        Flow,
        spec::Config,
        yaml::{Data, Node},
    },
    Lookup, Resolver, components, schemas,
};

/// Returns the files that the components of a flow read, such as certificates, programs and tokens. Data files are not
/// included.
///
/// If the value of a key is such a file, the schema of the configuration has `"x-file": "read"` at the key. Relative
/// paths are relative to the folder of the flow file.
pub fn files(flow: &Flow, resolver: &dyn Resolver) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for (kind, component) in components(flow) {
        if let Lookup::Known { schema: Some(schema) } = resolver.find(kind, &component.name.value) {
            collect(&component.config, &schema, &mut |file| _ = found.insert(file.into()));
        }
    }
    found
}

fn collect(config: &Config, schema: &Value, take: &mut impl FnMut(&str)) {
    let Some(node) = config.node() else { return };
    schemas::walk(node, schema, &mut |node: &Node, schemas| {
        let mark = |schema: &&Value| schema.get("x-file").and_then(Value::as_str) == Some("read");
        if schemas.iter().any(mark) {
            node.scalars(&mut |scalar| {
                if let Data::Text(file) = &scalar.data {
                    take(file);
                }
            });
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::PathBuf};

    use serde_json::json;

    use super::files;
    use crate::flow::{self, Environment, Kind, Limits, Lookup, Resolver};

    struct Known;

    impl Resolver for Known {
        fn find(&self, kind: Kind, _: &str) -> Lookup {
            let file =
                json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "x-file": "read" });
            let schema = json!({
                "properties": {
                    "path": { "type": "string" },
                    "tls": { "anyOf": [{ "$ref": "#/$defs/Tls" }, { "type": "null" }] },
                    "tables": { "items": { "type": "string" }, "x-file": "read" },
                },
                "$defs": { "Tls": { "properties": { "ca_file": file } } },
            });
            match kind {
                Kind::Connector => Lookup::Known { schema: Some(schema) },
                _ => Lookup::Known { schema: None },
            }
        }

        fn names(&self, _: Kind) -> Vec<String> {
            Vec::new()
        }

        fn searched(&self) -> Vec<PathBuf> {
            Vec::new()
        }
    }

    #[test]
    fn values_of_marked_keys_are_files() {
        let text = "connectors:\n  a:\n    type: x\n    config:\n      path: data.json\n      tls: { ca_file: \"${env:CA}\" }\n  \
             b:\n    type: x\n    config: { tables: [one.csv, two.csv], tls: { ca_file: null } }\nlinks: [a -> b]";
        let variable = |name: &str| (name == "CA").then(|| OsString::from("ca.pem"));
        let environment = Environment::default().variables(&variable);
        let draft = flow::parse("f", text, &Limits::default(), &environment).expect("YAML");
        let flow = draft.finish().expect("a valid flow");
        let found: Vec<_> = files(&flow, &Known).into_iter().collect();
        assert_eq!(found, ["ca.pem", "one.csv", "two.csv"].map(PathBuf::from));
    }
}
