//! A fake S3: checks signatures, parts and their order, and fails as a test specifies.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

use tremor_pdk::lock;

use crate::s3::sign::{self, Canonical, Keys, UNSIGNED};

pub(super) const BUCKET: &str = "a-bucket";
pub(super) const REGION: &str = "eu-test-1";

/// Minimum length of a part that is not the last one, in bytes. That of S3 is 5 MiB.
pub(super) const PART: usize = 1_000;

/// Reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Processes the request, and answers.
    Process,
    /// Answers with an error of this status and code, without processing the request.
    Refuse(u16, &'static str),
    /// Processes the request, and answers with the error nevertheless.
    ProcessAndRefuse(u16, &'static str),
    /// Closes the connection without processing the request.
    Cut,
    /// Processes the request, and closes the connection in the middle of the response.
    ProcessAndCut,
}

/// Decides about a request by its number, from 0, and its name, such as `PUT` or `POST uploads`.
type Decide = Box<dyn FnMut(usize, &str) -> Reaction + Send>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Upload {
    pub(super) key: String,
    parts: BTreeMap<usize, Vec<u8>>,
    headers: BTreeMap<String, String>,
}

/// An object: its contents and the headers with which it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) bytes: Vec<u8>,
    pub(super) headers: BTreeMap<String, String>,
    /// Lengths of its parts; none for an object of one request.
    pub(super) parts: Vec<usize>,
}

pub(super) struct Store {
    pub(super) objects: BTreeMap<String, Object>,
    /// Unfinished uploads, by their ID.
    pub(super) uploads: BTreeMap<String, Upload>,
    /// Names of the requests.
    pub(super) requests: Vec<String>,
    decide: Decide,
    /// Violations of the protocol.
    faults: Vec<String>,
    next_id: usize,
}

pub(super) struct Fake {
    pub(super) address: String,
    store: Arc<Mutex<Store>>,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// A response: a status, a header and a body.
type Response = (u16, String, String);

pub(super) fn keys() -> Keys {
    Keys {
        access_key_id: "AKIATEST".to_owned(),
        secret_access_key: "the/secret+key".to_owned(),
        session_token: Some("a-token".to_owned()),
    }
}

impl Fake {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let store = Store {
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            requests: Vec::new(),
            decide: Box::new(|_, _| Reaction::Process),
            faults: Vec::new(),
            next_id: 0,
        };
        let store = Arc::new(Mutex::new(store));
        let shared = store.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { address, store }
    }

    /// Returns the store. Requests wait while it is used.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// Sets the reactions to further requests, which are counted from 0 again.
    pub(super) fn react(&self, decide: impl FnMut(usize, &str) -> Reaction + Send + 'static) {
        let mut store = self.store();
        store.requests.clear();
        store.decide = Box::new(decide);
    }

    /// Begins an upload that does not belong to the sink.
    pub(super) fn add_foreign_upload(&self, key: &str) -> String {
        let mut store = self.store();
        let id = format!("foreign-{}", store.uploads.len());
        store.uploads.insert(id.clone(), Upload { key: key.to_owned(), ..Upload::default() });
        id
    }

    /// Asserts that all requests kept the protocol.
    #[track_caller]
    pub(super) fn expect_no_faults(&self) {
        let store = self.store();
        assert!(store.faults.is_empty(), "{:?} in {:?}", store.faults, store.requests);
    }
}

impl Store {
    /// Returns the lines of all objects, in the order of their keys.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.objects.values().flat_map(|object| {
            let text = String::from_utf8(object.bytes.clone()).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        lines.collect()
    }
}

fn serve(stream: &TcpStream, store: &Mutex<Store>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(request) = read(&mut reader) {
        let (reaction, (status, header, body)) = {
            let mut store = lock(store);
            let store = &mut *store;
            let name = request.name();
            let number = store.requests.len();
            store.requests.push(name.clone());
            let reaction = (store.decide)(number, &name);
            let mut response = (0, String::new(), String::new());
            if !matches!(reaction, Reaction::Cut | Reaction::Refuse(..)) {
                response = request.check().and_then(|()| store.process(&request)).unwrap_or_else(
                    |fault| {
                        store.faults.push(fault.clone());
                        error(400, "FaultOfTest")
                    },
                );
            }
            if let Reaction::Refuse(status, code) | Reaction::ProcessAndRefuse(status, code) =
                reaction
            {
                response = error(status, code);
            }
            (reaction, response)
        };
        if reaction == Reaction::Cut {
            return;
        }
        let length = if request.method == "HEAD" { 0 } else { body.len() };
        let head = format!("HTTP/1.1 {status} X\r\n{header}Content-Length: {length}\r\n\r\n");
        if reaction == Reaction::ProcessAndCut {
            let _ = writer.write_all(&head.as_bytes()[..12]);
            return;
        }
        let body = if length == 0 { "" } else { &*body };
        if writer.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn error(status: u16, code: &str) -> Response {
    let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    let body =
        format!("{xml}\n<Error><Code>{code}</Code><Message>This is {code}.</Message></Error>");
    (status, "Content-Type: application/xml\r\n".to_owned(), body)
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter(|it| !it.is_empty());
    let query = pairs
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), tremor_pdk::net::percent_decode(value).unwrap()));
    let query = query.collect();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_owned(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path: path.to_owned(), query, headers, body })
}

impl Request {
    /// Returns the method, and the parameters of the query except for the values.
    fn name(&self) -> String {
        let mut name = self.method.clone();
        for parameter in self.query.keys() {
            name.extend([" ", parameter]);
        }
        name
    }

    fn header(&self, name: &str) -> Result<&str, String> {
        self.headers.get(name).map(String::as_str).ok_or_else(|| format!("no header `{name}`"))
    }

    /// Checks the signature.
    fn check(&self) -> Result<(), String> {
        let (authorization, body) =
            (self.header("authorization")?, self.header("x-amz-content-sha256")?);
        if body != UNSIGNED && body != sign::sha256(&self.body) {
            return Err("the hash of the body is wrong".to_owned());
        }
        let names =
            authorization.split("SignedHeaders=").nth(1).and_then(|it| it.split(',').next());
        let names: Vec<_> = names.ok_or("no signed headers")?.split(';').collect();
        let checksum = self.headers.get("x-amz-checksum-crc32");
        if checksum.is_some_and(|checksum| *checksum != sign::checksum(&self.body)) {
            return Err("the checksum of the body is wrong".to_owned());
        }
        for (name, _) in self.headers.iter().filter(|(name, _)| name.starts_with("x-amz-")) {
            if !names.contains(&&**name) {
                return Err(format!("`{name}` is not signed"));
            }
        }
        let headers = names.iter().map(|name| Ok((*name, self.header(name)?)));
        let headers = headers.collect::<Result<_, String>>()?;
        let parameters: Vec<_> =
            self.query.iter().map(|(name, value)| (&**name, &**value)).collect();
        let query = sign::query(&parameters);
        let canonical =
            Canonical { method: &self.method, path: &self.path, query: &query, headers, body };
        let expected = canonical.authorization(&keys(), REGION, self.header("x-amz-date")?);
        if self.header("x-amz-security-token")? != "a-token" || authorization != expected {
            return Err(format!("expected the signature `{expected}`, found `{authorization}`"));
        }
        Ok(())
    }

    /// Returns the headers that an object keeps.
    fn kept(&self) -> BTreeMap<String, String> {
        let is_kept = |name: &str| {
            ["content-type", "content-encoding"].contains(&name) || name.starts_with("x-amz-s")
        };
        let is_kept = |name: &str| is_kept(name) || name.starts_with("x-amz-checksum-");
        let kept = self
            .headers
            .iter()
            .filter(|(name, _)| is_kept(name) && *name != "x-amz-security-token");
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl Store {
    fn process(&mut self, request: &Request) -> Result<Response, String> {
        let path =
            tremor_pdk::net::percent_decode(&request.path).ok_or("the path cannot be decoded")?;
        let path = path.strip_prefix(&format!("/{BUCKET}")).ok_or("another bucket")?;
        let key = path.strip_prefix('/').unwrap_or_default().to_owned();
        let parameter = |name: &str| request.query.get(name).map(String::as_str);
        let no_upload = || error(404, "NoSuchUpload");
        Ok(match (&*request.method, parameter("uploadId")) {
            ("PUT", None) => {
                let object = Object {
                    bytes: request.body.clone(),
                    headers: request.kept(),
                    parts: Vec::new(),
                };
                if self.objects.insert(key, object).is_some_and(|it| it.bytes != request.body) {
                    return Err("an object was replaced".to_owned());
                }
                (200, format!("ETag: {}\r\n", tag(&request.body)), String::new())
            }
            ("POST", None) if parameter("uploads") == Some("") => {
                self.next_id += 1;
                let id = format!("id/{}+=&", self.next_id);
                let upload = Upload { key, parts: BTreeMap::new(), headers: request.kept() };
                self.uploads.insert(id.clone(), upload);
                let id = id.replace('&', "&amp;");
                let body = format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                (200, String::new(), body)
            }
            ("PUT", Some(id)) => {
                let number = parameter("partNumber")
                    .and_then(|it| it.parse().ok())
                    .ok_or("no number of a part")?;
                let Some(upload) = self.uploads.get_mut(id) else { return Ok(no_upload()) };
                if upload.key != key {
                    return Err(format!("the upload is of `{}`", upload.key));
                }
                // An upload with an algorithm has a checksum for each part, and others have none.
                let has_checksum = request.headers.contains_key("x-amz-checksum-crc32");
                if has_checksum != upload.headers.contains_key("x-amz-checksum-algorithm") {
                    return Err(format!("a part with a checksum: {has_checksum}"));
                }
                upload.parts.insert(number, request.body.clone());
                (200, format!("ETag: {}\r\n", tag(&request.body)), String::new())
            }
            ("POST", Some(id)) => return self.complete(id, request),
            ("DELETE", Some(id)) => match self.uploads.remove(id) {
                Some(_) => (204, String::new(), String::new()),
                None => no_upload(),
            },
            ("GET", None) if parameter("uploads") == Some("") => {
                let prefix = parameter("prefix").ok_or("uploads of all keys")?;
                let mut body = "<ListMultipartUploadsResult>".to_owned();
                for (id, upload) in self.uploads.iter().filter(|(_, it)| it.key.starts_with(prefix))
                {
                    let (id, key) = (id.replace('&', "&amp;"), &upload.key);
                    body.extend([
                        "<Upload><Key>",
                        key,
                        "</Key><UploadId>",
                        &id,
                        "</UploadId></Upload>",
                    ]);
                }
                (200, String::new(), body + "</ListMultipartUploadsResult>")
            }
            ("HEAD", None) => {
                let status = if self.objects.contains_key(&key) { 200 } else { 404 };
                (status, String::new(), String::new())
            }
            (method, _) => return Err(format!("unexpected {method} {}", request.path)),
        })
    }

    /// Joins the parts of an upload to an object.
    fn complete(&mut self, id: &str, request: &Request) -> Result<Response, String> {
        let Some(upload) = self.uploads.get(id) else { return Ok(error(404, "NoSuchUpload")) };
        let body = String::from_utf8(request.body.clone()).unwrap();
        let listed: Vec<_> = crate::s3::xml::elements(&body, "Part").collect();
        let lengths: Vec<_> = upload.parts.values().map(Vec::len).collect();
        if listed.len() != upload.parts.len() || listed.is_empty() {
            return Err(format!("{} of {} parts", listed.len(), upload.parts.len()));
        }
        for ((number, bytes), listed) in upload.parts.iter().zip(listed) {
            let checksum = match upload.headers.get("x-amz-checksum-algorithm") {
                Some(_) => {
                    format!("<ChecksumCRC32>{}</ChecksumCRC32>", sign::checksum(bytes))
                }
                None => String::new(),
            };
            let expected =
                format!("<PartNumber>{number}</PartNumber><ETag>{}</ETag>{checksum}", tag(bytes));
            if listed != expected {
                return Err(format!("expected `{expected}`, found `{listed}`"));
            }
        }
        if lengths[..lengths.len() - 1].iter().any(|length| *length < PART) {
            return Err(format!("parts of {lengths:?} bytes"));
        }
        let upload = self.uploads.remove(id).unwrap();
        let bytes = upload.parts.into_values().collect::<Vec<_>>().concat();
        let object = Object { bytes, headers: upload.headers, parts: lengths };
        self.objects.insert(upload.key, object);
        Ok((
            200,
            String::new(),
            "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>".to_owned(),
        ))
    }
}

/// Returns the tag of an object or a part.
fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", &sign::sha256(bytes)[..32])
}
