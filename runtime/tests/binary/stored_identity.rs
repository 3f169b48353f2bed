//! Tests of events of a queue on disk that are delivered again, with a peer that removes repeated ones.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hostile_peers::http::{Request, Server, response};
use serde_json::{Value, json};

use crate::{
    api::start_with,
    peer::wait_until,
    stored::{DOWN, NOTHING},
    tremor::Scene,
};

const EVENTS: usize = 20_000;

/// Number of the event that the server refuses.
const REFUSED: usize = EVENTS / 2 + 7;

/// Number of restarts while events are delivered.
const RESTARTS: usize = 20;

/// An index of Elasticsearch: documents by their IDs.
#[derive(Default)]
struct Index {
    documents: BTreeMap<String, Value>,
    /// Number of requests.
    requests: usize,
    /// Number of documents whose ID existed.
    repeated: usize,
    /// Number of times that a document was refused.
    refused: usize,
}

impl Index {
    fn answer(&mut self, request: &Request) -> Vec<u8> {
        self.requests += 1;
        let text = request.text();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let items: Vec<_> = lines
            .chunks(2)
            .map(|pair| json!({ "create": self.create(&pair[0]["create"], &pair[1]) }))
            .collect();
        response("200 OK", &json!({ "errors": true, "items": items }).to_string())
    }

    fn create(&mut self, action: &Value, document: &Value) -> Value {
        if document["n"] == REFUSED {
            self.refused += 1;
            return json!({ "status": 400, "error": { "type": "document_parsing_exception" } });
        }
        let id = action["_id"].as_str().unwrap().to_owned();
        if let Some(known) = self.documents.get(&id) {
            assert_eq!(known, document, "{id}");
            self.repeated += 1;
            return json!({ "status": 409, "error": { "type": "version_conflict_engine_exception" } });
        }
        self.documents.insert(id, document.clone());
        json!({ "status": 201 })
    }
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a flow from a file to a sink, whose queue is in this folder.
fn scene(source: &str, sink: &str, folder: &Path) -> Scene {
    let path = folder.join("queue");
    let queue = format!("{{ path: '{}', max_bytes: 64MiB, identify: true }}", path.display());
    Scene::new(&format!(
        "connectors:
  input: {{ {source} }}
  output: {{ queue: {{ disk: {queue} }}, {sink} }}
links: [input -> output]
"
    ))
}

/// The process is killed and stopped by turns while the server writes documents. It refuses one of them permanently.
#[test]
fn each_event_is_a_document_once_after_kills_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    (0..EVENTS).for_each(|number| writeln!(lines, "{{\"n\":{number}}}").unwrap());
    let stored = scene(NOTHING, DOWN, folder.path()).write("in", lines.as_bytes());
    let asked = start_with(stored, &["flow.yaml"], 1, |command| command);
    asked.until("/v1/flows", |it| it["flows"][0]["components"][1]["stored"]["now"] == EVENTS);
    asked.stop("TERM").expect(0, &[&format!("{EVENTS} stored")]);

    let index = Arc::<Mutex<Index>>::default();
    let answers = index.clone();
    let server = Server::start(move |request| lock(&answers).answer(request));
    let sink = format!(
        "type: elasticsearch, batch: {{ max_events: 100, linger: 5ms }}, \
         config: {{ url: 'http://{}', index: events, id: '{{%queue.id}}' }}",
        server.address()
    );
    for round in 0..RESTARTS {
        let before = lock(&index).requests;
        let scene = scene(NOTHING, &sink, folder.path()).write("in", b"");
        let asked = start_with(scene, &["flow.yaml"], 1, |command| command);
        let most = EVENTS / 100 / RESTARTS;
        wait_until(|| {
            let index = lock(&index);
            index.requests >= before + most || index.documents.len() == EVENTS - 1
        });
        asked.stop(["KILL", "TERM"][round % 2]);
    }
    let last = scene(NOTHING, &sink, folder.path()).write("in", b"").run();
    last.expect(0, &["0 events in, "]);
    let index = lock(&index);
    assert_eq!(index.documents.len(), EVENTS - 1);
    assert!(index.refused > 0);
    let numbers: BTreeMap<_, _> =
        index.documents.values().map(|it| (it["n"].as_u64(), 1)).collect();
    assert_eq!(numbers.len(), EVENTS - 1, "each event has one ID");
    let rejected = fs::read_dir(folder.path().join("queue/rejected")).unwrap();
    let rejected: String =
        rejected.map(|it| fs::read_to_string(it.unwrap().path()).unwrap()).collect();
    assert_eq!(rejected.lines().count(), 1, "{rejected}");
    assert!(rejected.contains(&format!("\"n\":{REFUSED}}}")), "{rejected}");
}
