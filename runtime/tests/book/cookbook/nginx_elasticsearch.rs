//! Tests of the page "Access logs of nginx to Elasticsearch".

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hostile_peers::http::{Request, Server, response};
use serde_json::{Value, json};

use super::{Kitchen, collector::body, counts, flows, values};
use crate::peer::wait_until;

const LINES: usize = 100;

/// The documents of a data stream by their IDs.
#[derive(Default)]
struct Stream {
    documents: BTreeMap<String, Value>,
    /// Number of items that the server has refused because their document exists.
    repeated: usize,
    /// `true` if the server answers with 503, although it stores the documents.
    loses_answers: bool,
}

impl Stream {
    /// Stores the documents of a request, and returns the response.
    fn answer(&mut self, request: &Request) -> Vec<u8> {
        assert!(request.head.starts_with("POST /_bulk?"), "{}", request.head);
        let text = body(request);
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let results: Vec<_> = lines.chunks(2).map(|pair| self.create(&pair[0], &pair[1])).collect();
        let errors = results.iter().any(|result| result.get("error").is_some());
        let items: Vec<_> = results.into_iter().map(|result| json!({ "create": result })).collect();
        if self.loses_answers {
            return response("503 X", "");
        }
        response("200 OK", &json!({ "errors": errors, "items": items }).to_string())
    }

    fn create(&mut self, action: &Value, document: &Value) -> Value {
        assert_eq!(action["create"]["_index"], "logs-nginx-default");
        let id = action["create"]["_id"].as_str().unwrap().to_owned();
        if document["path"] == "/7" {
            let error = json!({ "type": "document_parsing_exception", "reason": "why" });
            return json!({ "status": 400, "error": error });
        }
        if self.documents.contains_key(&id) {
            self.repeated += 1;
            return json!({ "status": 409, "error": { "type": "version_conflict_engine_exception" } });
        }
        self.documents.insert(id, document.clone());
        json!({ "status": 201 })
    }
}

fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends lines to the log, each with another path.
fn write(kitchen: &Kitchen, first: usize) {
    let log = kitchen.log("nginx/access.log");
    let mut file = File::options().append(true).create(true).open(log).unwrap();
    for number in first..first + LINES {
        let time = "26/Nov/2026:20:35:46 +0000";
        writeln!(file, "203.0.113.7 - - [{time}] \"GET /{number} HTTP/1.1\" 200 6 \"-\" \"curl\"")
            .unwrap();
    }
}

/// The server loses its answers until the process is killed.
#[test]
fn lost_answers_and_kill_write_each_line_once() {
    let kitchen = Kitchen::new();
    fs::create_dir(kitchen.log("nginx")).unwrap();
    write(&kitchen, 0);
    let stream = Stream { loses_answers: true, ..Stream::default() };
    let stream = Arc::new(Mutex::new(stream));
    let served = stream.clone();
    let server = Server::start(move |request| lock(&served).answer(request));
    let count = || lock(&stream).documents.len();
    let address = format!("http://{}", server.address());
    let replaced = [("https://search.example.com:9200", &*address)];
    let (flow, variables) = (&flows("nginx-elasticsearch.md")[0], [("ELASTIC_PASSWORD", "p")]);
    let running = kitchen.start(flow, &replaced, &variables);
    wait_until(|| count() == LINES - 1);
    running.signal(&["KILL"]);
    drop(running);
    lock(&stream).loses_answers = false;
    write(&kitchen, LINES);
    let running = kitchen.start(flow, &replaced, &variables);
    wait_until(|| count() == 2 * LINES - 1);
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);

    let stream = lock(&stream);
    assert!(stream.repeated >= LINES - 1, "{}", stream.repeated);
    let documents: Vec<_> = stream.documents.values().cloned().collect();
    let paths = counts(&documents, "/path");
    assert!(paths.len() == 2 * LINES - 1 && paths.values().all(|count| *count == 1), "{paths:?}");
    let times = counts(&documents, "/@timestamp");
    assert_eq!(times.into_keys().collect::<Vec<_>>(), ["2026-11-26T20:35:46Z"]);
    let dead = values(&kitchen.state("dead.json"));
    let refused = "refused the document with the status 400: document_parsing_exception: why";
    assert!(!dead.is_empty());
    assert!(dead.iter().all(|letter| letter.to_string().contains(refused)), "{dead:?}");
}
