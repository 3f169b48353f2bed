//! Tests of `tremor schema`, which prints the schema of flow files for editors.

use std::{collections::BTreeSet, fs, sync::OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};
use tremor_runtime::flow::read_yaml;

use crate::{support::workspace, tremor::Scene};

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let run = Scene::new("").tremor(&["schema"]);
        run.expect(0, &[]);
        serde_json::from_str(&run.stdout).unwrap()
    })
}

/// Returns the errors that the schema finds in a flow.
fn errors(flow: &str) -> Vec<String> {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    let validator =
        VALIDATOR.get_or_init(|| jsonschema::draft202012::new(schema()).expect("a schema"));
    let flow = read_yaml(&Scene::new(flow).path().join("flow.yaml")).unwrap();
    validator.iter_errors(&flow).map(|error| error.to_string()).collect()
}

/// Checks that the schema, which `tremor schema` prints with the plugins of these tests, accepts a flow.
#[track_caller]
pub(crate) fn accepts(flow: &str) {
    assert_eq!(errors(flow), [""; 0], "{flow}");
}

/// Returns the paths and texts of the flows in `examples` and `bench/flows`, except for flows that need a broker or
/// the plugins `vrl` or `countdown`. The key `plugins` is removed, because these tests set the plugin folder.
fn flows() -> Vec<(String, String)> {
    let mut flows = Vec::new();
    for folder in ["examples", "bench/flows"] {
        for entry in fs::read_dir(workspace().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let is_flow = path.extension().is_some_and(|extension| extension == "yaml");
            let name = path.display().to_string();
            if is_flow && !name.contains("vrl") && !name.contains("countdown") {
                let text = fs::read_to_string(&path).unwrap();
                if crate::pages::needs_brokers(&text) {
                    continue;
                }
                let lines = text.lines().filter(|line| !line.starts_with("plugins:"));
                flows.push((name, lines.flat_map(|line| [line, "\n"]).collect()));
            }
        }
    }
    assert!(flows.len() > 5, "{}", flows.len());
    flows
}

#[test]
fn schema_is_valid_and_accepts_flows_of_the_workspace() {
    jsonschema::draft202012::meta::validate(schema()).unwrap();
    flows().iter().for_each(|(_, flow)| accepts(flow));
}

#[test]
fn flows_of_the_workspace_cause_no_warning() {
    for (name, flow) in flows() {
        let check = Scene::new(&flow).tremor(&["check", "flow.yaml"]);
        // Ignore this warning, because benchmarks truncate their output on purpose.
        let meant = "`mode: truncate` deletes events";
        let mut lines = check.stderr.lines().filter(|line| line.contains(" warning: "));
        let is_sound = check.status == Some(0) && lines.all(|line| line.contains(meant));
        assert!(is_sound, "{name}:\n{}", check.stderr);
    }
}

#[test]
fn components_and_keys_have_descriptions() {
    let schema = schema();
    let types = schema["$defs"]["connector"]["properties"]["type"]["anyOf"].as_array().unwrap();
    let file = types.iter().find(|one| one["const"] == "file").unwrap();
    assert!(file["description"].as_str().unwrap().contains("file"), "{file}");
    let path = &schema["$defs"]["connector.file"]["properties"]["path"];
    assert!(path["description"].as_str().unwrap().starts_with("Path of the file."), "{path}");
    let lines = &schema["$defs"]["preprocessor.lines"]["properties"];
    assert!(lines.is_object(), "{lines}");
}

/// Keys whose values are numbers of bytes, of the built-in components and of the plugins of these tests.
const SIZES: [&str; 53] = [
    "connector.max_bytes",
    "connector.memory",
    "connector.clickhouse.max_body_bytes",
    "connector.elasticsearch.max_body_bytes",
    "connector.file.max_bytes",
    "connector.file.max_deleted_bytes",
    "connector.file.chunk_bytes",
    "connector.http_client.max_body_bytes",
    "connector.http_client.max_response_bytes",
    "connector.http_server.max_body_bytes",
    "connector.http_server.max_header_bytes",
    "connector.http_server.max_waiting_bytes",
    "connector.journald.max_entry_bytes",
    "connector.journald.read_ahead_bytes",
    "connector.loki.max_body_bytes",
    "connector.objects.max_bytes",
    "connector.prometheus_remote_write.max_body_bytes",
    "connector.prometheus_remote_write.max_waiting_bytes",
    "connector.read_once.max_in_flight",
    "connector.s3.max_bytes",
    "connector.stdio.chunk_bytes",
    "connector.splunk_hec.max_body_bytes",
    "connector.udp_server.receive_buffer",
    "connector.victorialogs.max_body_bytes",
    "connector.ws_client.max_message_bytes",
    "connector.ws_server.max_buffered_bytes",
    "connector.ws_server.max_message_bytes",
    "connector.ws_server.max_send_bytes",
    "pipeline.max_bytes",
    "preprocessor.cri.max_length",
    "preprocessor.csv-records.max_length",
    "preprocessor.decompress.max_bytes",
    "preprocessor.decompress.max_memory",
    "preprocessor.docker.max_length",
    "preprocessor.gelf-chunks.max_length",
    "preprocessor.gzip.max_bytes",
    "preprocessor.gzip.max_memory",
    "preprocessor.join.max_length",
    "preprocessor.json-values.max_length",
    "preprocessor.length-prefixed.max_length",
    "preprocessor.lines.max_length",
    "preprocessor.lz4.max_bytes",
    "preprocessor.lz4.max_memory",
    "preprocessor.multiline.max_length",
    "preprocessor.prometheus.max_length",
    "preprocessor.snappy.max_bytes",
    "preprocessor.snappy.max_memory",
    "preprocessor.syslog-frames.max_length",
    "preprocessor.xz.max_bytes",
    "preprocessor.xz.max_memory",
    "preprocessor.zstd.max_bytes",
    "preprocessor.zstd.max_memory",
    "operator.lookup.max_memory",
];

/// Adds the keys of objects below `schema` whose values are numbers of bytes, with the schemas of the values.
fn add_sizes<'s>(path: &str, schema: &'s Value, sizes: &mut Vec<(String, &'s Value)>) {
    let is_size = |key: &str, value: &Value| {
        let about = value["description"].as_str().unwrap_or_default();
        let text = value.to_string();
        let is_number = text.contains("\"integer\"") && !text.contains("\"properties\"");
        let is_named = key.contains("bytes") || about.contains(" bytes");
        is_number && (is_named || text.contains("MiB"))
    };
    for (key, value) in schema.as_object().into_iter().flatten() {
        if key == "properties" {
            let keys = value.as_object().into_iter().flatten();
            let found = keys.filter(|(key, value)| is_size(key, value));
            sizes.extend(found.map(|(key, value)| (format!("{path}.{key}"), value)));
        }
        add_sizes(if path == "$defs" { key } else { path }, value, sizes);
    }
}

#[test]
fn keys_in_bytes_accept_numbers_and_units() {
    let mut sizes = Vec::new();
    let all = &schema()["$defs"];
    add_sizes("$defs", all, &mut sizes);
    for (key, schema) in &sizes {
        let rooted = json!({ "$defs": { "reference": all["reference"] }, "allOf": [schema] });
        let validator = jsonschema::draft202012::new(&rooted).unwrap();
        let accepts = [json!("16 KiB"), json!(16_384), json!("16 kib"), json!(0)]
            .map(|size| validator.is_valid(&size));
        assert_eq!(accepts, [true, true, false, false], "{key}: {schema}");
    }
    let found: BTreeSet<_> = sizes.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(found, BTreeSet::from(SIZES));
}

#[test]
fn reference_is_accepted_for_a_value_of_any_type() {
    accepts(
        "connectors:
  ticks:
    type: metronome
    queue: { max_bytes: '${env:BYTES}' }
    retry: { attempts: '${env:ATTEMPTS:-3}', backoff: '${env:BACKOFF}' }
    err: ${env:ERR}
    config:
      interval_ms: ${env:INTERVAL}
      count: ${file:count}
  out:
    type: file
    codec: { csv: { numbers: '${env:NUMBERS}' } }
    config: { path: 'a${env:B}c', mode: '${env:MODE}' }
links: [ticks -> out]",
    );
}

#[test]
fn invalid_flows_are_rejected_by_the_schema() {
    let ends = "
  in: { type: metronome, config: { interval_ms: 1 } }
  out: { type: 'null' }";
    let connector = |keys: &str| format!("connectors:{ends}\n  x: {{ {keys} }}\nlinks: [in -> x]");
    let operator = |operator: &str| {
        format!(
            "connectors:{ends}\npipelines: {{ p: {{ operators: [{operator}] }} }}\nlinks: [in -> p -> out]"
        )
    };
    accepts(&connector("type: stdio, codec: json"));
    accepts(&operator("passthrough"));
    for flow in [
        connector("type: fiel, codec: json, config: { path: x, mode: read }"),
        connector("type: '${env:TYPE}', codec: json"),
        connector("type: file, config: { path: x, mode: read }"),
        connector("type: file, codec: json"),
        connector("type: file, codec: json, config: { path: x, mode: raed }"),
        connector("type: file, codec: json, config: { path: x, mode: read, more: 1 }"),
        connector("type: file, codec: json, config: { path: [x], mode: read }"),
        connector("type: file, codec: json, config: { path: x, mode: read, chunk_bytes: many }"),
        connector("type: 'null', codec: json"),
        connector("type: stdio, codec: jsno"),
        connector("type: stdio, codec: { json: { max_depth: 0 } }"),
        connector("type: stdio, codec: { json: {}, csv: {} }"),
        connector("type: stdio, codec: { type: json, config: { max_depth: 0 } }"),
        connector("type: stdio, codec: json, preprocessors: lines"),
        connector("type: stdio, codec: json, preprocessors: [line]"),
        connector("type: stdio, codec: json, queue: { max_events: 0 }"),
        connector("type: stdio, codec: json, retry: { backoff: soon }"),
        connector("type: stdio, codec: json, err: drop"),
        connector("type: stdio, codec: json, codex: json"),
        operator("{ type: filter, config: { field: 1, exists: true } }"),
        operator("{ type: bucket, config: { rate: [] } }"),
        operator("5"),
        format!("connectors:{ends}"),
        format!("connectors:{ends}\nlinks: []"),
        format!("connectors:{ends}\nlinks: [in => out]"),
        format!("connectors:{ends}\nlinks: ['in -> ${{env:OUT}}']"),
        format!("connectors:{ends}\nlinks: [in -> out]\nmore: 1"),
        format!("connectors:{ends}\n  1st: {{ type: stdio, codec: json }}\nlinks: [in -> out]"),
    ] {
        assert!(!errors(&flow).is_empty(), "{flow}");
    }
}

#[test]
fn schema_without_plugins_allows_any_connector() {
    let scene = Scene::new("");
    let mut command = scene.command(&["schema"]);
    let run = crate::tremor::Run::of(&command.env_remove("TREMOR_PLUGIN_PATH").output().unwrap());
    run.expect(0, &["warning: no connectors are available"]);
    let schema: Value = serde_json::from_str(&run.stdout).unwrap();
    let flow = serde_json::json!({
        "connectors": { "a": { "type": "any", "codec": "json", "config": { "b": 1 } } },
        "links": ["a -> a"],
    });
    assert!(jsonschema::draft202012::new(&schema).unwrap().is_valid(&flow));
}
