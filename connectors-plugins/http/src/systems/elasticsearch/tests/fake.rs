//! A server that follows the documentation of the bulk API.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value as Json, json};
use tremor_pdk::testing::{Connection, TestHost};

use crate::testing::{Reply, Request, Server};

/// Documents by their index and ID.
pub(super) type Documents = BTreeMap<(String, String), String>;

/// Action of an item, and its document.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) action: String,
    pub(super) target: Json,
    pub(super) document: String,
}

impl Item {
    /// Returns the items of a request.
    pub(super) fn all(request: &Request) -> Vec<Self> {
        let lines: Vec<_> = request.text().strip_suffix('\n').unwrap().split('\n').collect();
        assert!(lines.len().is_multiple_of(2), "an action without a document");
        let item = |pair: &[&str]| {
            let Json::Object(action) = serde_json::from_str(pair[0]).unwrap() else { panic!() };
            let (action, target) = action.into_iter().next().unwrap();
            Self { action, target, document: pair[1].to_owned() }
        };
        lines.chunks(2).map(item).collect()
    }
}

/// A server that stores documents as Elasticsearch does.
pub(super) struct Fake {
    pub(super) server: Server,
    pub(super) documents: Arc<Mutex<Documents>>,
}

impl Fake {
    /// Starts the server. `refuse` returns the status and the type of the error with which it refuses a document, if it
    /// does.
    pub(super) fn start(
        refuse: impl Fn(&Item) -> Option<(u16, &'static str)> + Send + Sync + 'static,
    ) -> Self {
        Self::replying(refuse, Reply::ok)
    }

    /// Starts the server. `reply` returns its reaction for the body of a response, after it has stored documents.
    pub(super) fn replying(
        refuse: impl Fn(&Item) -> Option<(u16, &'static str)> + Send + Sync + 'static,
        reply: impl Fn(String) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let documents = Arc::new(Mutex::new(Documents::new()));
        let stored = documents.clone();
        let server = Server::start(move |request| {
            let mut documents = stored.lock().unwrap();
            let results: Vec<_> = Item::all(request)
                .iter()
                .map(|item| {
                    let result = match refuse(item) {
                        Some((status, kind)) => refusal(status, kind),
                        None => store(&mut documents, item),
                    };
                    json!({ &*item.action: result })
                })
                .collect();
            let has_error = |it: &Json| it.to_string().contains("error");
            let errors = results.iter().any(has_error);
            // The order of the keys is that of the server.
            let items: Vec<_> = results.iter().map(Json::to_string).collect();
            reply(format!(r#"{{"errors":{errors},"items":[{}]}}"#, items.join(",")))
        });
        Self { server, documents }
    }

    /// Starts a server that refuses no document.
    pub(super) fn accepting() -> Self {
        Self::start(|_| None)
    }

    pub(super) fn client(&self, keys: &str) -> Connection {
        super::client(&TestHost::new(), &self.server, keys)
    }

    pub(super) fn documents(&self) -> Documents {
        self.documents.lock().unwrap().clone()
    }
}

pub(super) fn refusal(status: u16, kind: &str) -> Json {
    json!({ "status": status, "error": { "type": kind, "reason": "why", "index": "i" } })
}

fn store(documents: &mut Documents, item: &Item) -> Json {
    let index = item.target["_index"].as_str().unwrap().to_owned();
    let id = match item.target["_id"].as_str() {
        Some(id) => id.to_owned(),
        None => format!("server-{}", documents.len()),
    };
    let key = (index, id);
    if item.action == "create" && documents.contains_key(&key) {
        return refusal(409, "version_conflict_engine_exception");
    }
    let is_new = documents.insert(key, item.document.clone()).is_none();
    json!({ "status": if is_new { 201 } else { 200 } })
}
