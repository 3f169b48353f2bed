//! Checks of the book (`docs/`): its flows pass `check`, codecs produce the values that it shows, and `tremor plugin
//! new` creates the code that it shows. Other Rust code of the book is compiled in `examples/`, and `cargo xtask tidy`
//! compares both. Other commands in the book are not run.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    support::workspace,
    tremor::{Run, Scene},
};

/// A fenced block of a page.
struct Block {
    /// Page and line, for messages.
    position: String,
    language: String,
    text: String,
}

/// Returns all blocks of all pages.
fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    read(&workspace().join("docs"), &mut blocks);
    assert!(blocks.len() > 30, "{}", blocks.len());
    blocks
}

fn read(folder: &Path, blocks: &mut Vec<Block>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, blocks);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let page = fs::read_to_string(&path).unwrap();
            let mut lines = (1..).zip(page.lines());
            while let Some((number, line)) = lines.next() {
                let Some(language) = line.strip_prefix("```") else { continue };
                let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
                blocks.push(Block {
                    position: format!("{}:{number}", path.display()),
                    language: language.to_owned(),
                    text: inside.flat_map(|line| [line, "\n"]).collect(),
                });
            }
        }
    }
}

/// Returns complete flows that contain a part of a flow. For a connector there are two flows: it is the source of one,
/// and the sink of the other.
fn flows(block: &Block) -> Vec<String> {
    let indented: String = block.text.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    let (start, end) =
        ("  start: { type: metronome, config: { interval_ms: 1 } }\n", "  end: { type: 'null' }\n");
    let text = block.text.strip_prefix("# yaml-language-server: $schema=tremor.schema.json\n");
    let first = text.unwrap_or(&block.text).split(':').next().unwrap();
    match first {
        "plugins" => vec![block.text.split_inclusive('\n').skip(1).collect()],
        "connectors" => vec![block.text.clone()],
        "type" => [("part -> end", end), ("start -> part", start)]
            .map(|(link, other)| {
                format!("connectors:\n{other}  part:\n{indented}links: [{link}]\n")
            })
            .into(),
        "preprocessors" => vec![format!(
            "connectors:\n{end}  part:\n    type: stdio\n    codec: json\n{indented}links: [part -> end]\n"
        )],
        "operators" => vec![format!(
            "connectors:\n{start}{end}pipelines:\n  part:\n{indented}links: [start -> part -> end]\n"
        )],
        "pipelines" => {
            let names = ["output", "archive", "dead"];
            let used = names.into_iter().filter(|name| block.text.contains(&format!("> {name}")));
            let connectors: Vec<_> =
                used.map(|name| format!("  {name}: {{ type: 'null' }}\n")).collect();
            let input = "  input: { type: metronome, config: { interval_ms: 1 } }\n";
            vec![format!("connectors:\n{input}{}{}", connectors.concat(), block.text)]
        }
        other => {
            panic!("{}: no flow starts with `{other}`: add a check for it here", block.position)
        }
    }
}

/// Returns whether a flow has a connector of the workspace `brokers`, whose tests check the flow.
pub(crate) fn needs_brokers(flow: &str) -> bool {
    ["type: kafka_", "type: nats_"].iter().any(|kind| flow.contains(kind))
}

fn check(needs_vrl: bool) {
    let is_flow =
        |block: &Block| block.language == "yaml" && !block.text.starts_with("# test.yaml");
    for block in blocks().iter().filter(|block| is_flow(block)) {
        if block.text.contains("type: vrl") != needs_vrl || needs_brokers(&block.text) {
            continue;
        }
        // Skip the flows that `brokers/tests/tests/book.rs` checks, because their plugins are in another workspace.
        if ["type: kafka_", "type: nats_"].iter().any(|it| block.text.contains(it)) {
            continue;
        }
        let check = |flow: &String| -> Run {
            let scene = crate::lookup::with_tables(crate::redact::with_key(flow));
            let arguments = ["check", "flow.yaml"];
            if needs_vrl { scene.tremor_with_vrl(&arguments) } else { scene.tremor(&arguments) }
        };
        let flows = flows(block);
        let runs: Vec<_> = flows.iter().map(check).collect();
        let said: Vec<_> = runs.iter().map(|run| &*run.stderr).collect();
        let said = || format!("{}:\n{}", block.position, said.join("\n"));
        let is_sound: Vec<_> = runs.iter().map(|run| run.status == Some(0)).collect();
        assert!(is_sound.contains(&true), "{}", said());
        for ((run, flow), _) in runs.iter().zip(&flows).zip(is_sound).filter(|(_, sound)| *sound) {
            let is_of_variables = flow.contains("${env:");
            assert!(is_of_variables || !run.stderr.contains("warning: "), "{}", said());
            if !needs_vrl {
                crate::schema::accepts(flow);
            }
        }
    }
}

#[test]
fn every_flow_of_the_book_passes_check() {
    check(false);
}

mod vrl {
    #[test]
    #[ignore = "builds the plugin `vrl` with its 400 packages, which takes minutes: `cargo xtask ci` \
                does"]
    fn every_flow_of_the_book_with_vrl_passes_check() {
        super::check(true);
    }
}

#[test]
fn book_shows_what_plugin_new_creates() {
    let mut made = String::new();
    let mut shown = 0;
    for block in blocks() {
        let command = block.text.lines().next().filter(|_| block.language == "sh");
        if let Some(arguments) = command.and_then(|line| line.strip_prefix("tremor plugin new ")) {
            let scene = Scene::new("");
            let arguments: Vec<_> = arguments.split(' ').collect();
            scene.tremor(&[&["plugin", "new"], &*arguments].concat()).expect(0, &[]);
            made = ["src/lib.rs", "flow.yaml"]
                .map(|file| scene.read(&format!("{}/{file}", arguments[0])))
                .concat();
        } else if block.language.ends_with(",generated") {
            assert!(
                made.contains(&block.text),
                "{}: another file is made:\n{made}",
                block.position
            );
            shown += 1;
        }
    }
    assert_eq!(shown, 5);
}

#[test]
fn documented_test_settings_are_the_defaults() {
    let blocks = blocks();
    let settings = blocks.iter().find(|block| block.text.starts_with("# test.yaml")).unwrap();
    let events = b"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n";
    let scene = Scene::new(
        "connectors: { in: { type: nowhere }, out: { type: nowhere } }
pipelines:
  p:
    operators:
      - { type: window, config: { every: 2ms, aggregates: { last: { function: last, field: n } } } }
links: [in -> p -> out]",
    );
    for folder in ["input", "expected"] {
        fs::create_dir(scene.path().join(folder)).unwrap();
    }
    let scene = scene.write("input/in.jsonl", events);
    scene.tremor(&["test", ".", "--update"]).expect(0, &["updated"]);
    let scene = scene.write("test.yaml", settings.text.as_bytes());
    scene.tremor(&["test", "."]).expect(0, &[".: ok"]);
}

#[test]
fn codecs_produce_the_values_shown_in_the_book() {
    let page = "guide/codecs.md";
    let blocks = blocks();
    let shown = blocks.windows(2).filter(|pair| {
        pair[0].position.contains(page) && pair[0].language == "text" && pair[1].language == "json"
    });
    let mut codecs = Vec::new();
    for pair in shown {
        let text = &pair[0].text;
        let (codec, preprocessor) = match text {
            _ if text.starts_with('<') => ("syslog", "lines"),
            _ if text.starts_with('#') => ("prometheus", "prometheus"),
            _ if text.starts_with('{') => ("gelf", "lines"),
            _ if text.starts_with("level=") => ("logfmt", "lines"),
            _ => ("influx", "lines"),
        };
        let scene = Scene::new(&format!(
            "connectors:
  input: {{ type: stdio, preprocessors: [{preprocessor}], codec: {codec} }}
  output: {{ type: file, codec: json, config: {{ path: out, mode: write }} }}
links: [input -> output]"
        ));
        let scene = scene.write("message", pair[0].text.as_bytes());
        let input = fs::File::open(scene.path().join("message")).unwrap();
        let mut command = scene.command(&["run", "flow.yaml"]);
        Run::of(&command.stdin(input).output().unwrap()).expect(0, &["1 out"]);
        let [made, shown] = [&scene.read("out"), &pair[1].text]
            .map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(made, shown, "{}", pair[1].position);
        codecs.push(codec);
    }
    assert_eq!(codecs, ["influx", "syslog", "logfmt", "gelf", "prometheus"]);
}
