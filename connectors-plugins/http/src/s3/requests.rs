//! Requests to S3: signed, and repeated after a transient failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hyper::{
    HeaderMap, Request, StatusCode,
    body::Bytes,
    header::{AUTHORIZATION, ETAG, HeaderName, HeaderValue},
    http::uri::PathAndQuery,
};
use tremor_pdk::{Error, Host, Result};

use super::{
    answer::{self, Failure},
    credentials::Provider,
    limit::Limit,
    settings::Settings,
    sign::{self, Canonical, EMPTY, UNSIGNED},
    time, xml,
};
use crate::exchange::{Pool, Secrets};

/// Maximum number of attempts of a request. The runtime repeats the deliveries of an object whose request has failed as
/// often, so that an outage of the server is visible in the state of the connector.
const ATTEMPTS: u32 = 4;

/// Pause before the second attempt. It doubles with each further attempt.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of bytes to read of a response.
const RESPONSE: usize = 256 << 10;

/// Length in bytes above which a body is hashed on a thread that may block.
const AT_ONCE: usize = 256 << 10;

/// Header with the algorithm of the checksums of the parts of an upload.
const ALGORITHM: HeaderName = HeaderName::from_static("x-amz-checksum-algorithm");

/// The client of one bucket.
pub(super) struct Client {
    pub(super) host: Host,
    pub(super) settings: Arc<Settings>,
    pool: Arc<Pool>,
    credentials: Provider,
    limit: Limit,
}

/// A request, without its signature.
struct Unsigned<'r> {
    method: &'static str,
    key: &'r str,
    parameters: &'r [(&'r str, &'r str)],
    headers: &'r [(HeaderName, HeaderValue)],
    body: Bytes,
    /// `true` if the body is an object or a part of one.
    is_content: bool,
}

/// A part that the server has stored.
pub(super) struct Uploaded {
    tag: String,
    /// `None` without checksums.
    checksum: Option<String>,
}

/// Digests of the body of a request.
struct Digests {
    /// Hash for the signature.
    hash: String,
    /// Checksum for the server; `None` unless the body is a part of an object that has checksums.
    checksum: Option<String>,
}

/// The successful response to a request.
struct Sent {
    headers: HeaderMap,
    body: String,
    /// Checksum of the body of the request.
    checksum: Option<String>,
    /// Number of times that the request was sent.
    times: u32,
}

impl<'r> Unsigned<'r> {
    const fn new(method: &'static str, key: &'r str) -> Self {
        Self { method, key, parameters: &[], headers: &[], body: Bytes::new(), is_content: false }
    }
}

impl Client {
    pub(super) fn new(
        host: &Host,
        settings: Arc<Settings>,
        pool: Arc<Pool>,
        credentials: Provider,
    ) -> Self {
        let limit = Limit::new(settings.config.max_connections.get());
        Self { host: host.clone(), settings, pool, credentials, limit }
    }

    /// Stores an object with one request.
    pub(super) async fn put(&self, key: &str, body: Bytes) -> Result<(), Failure> {
        let headers = &self.settings.headers;
        let request = Unsigned { headers, body, is_content: true, ..Unsigned::new("PUT", key) };
        self.send(request).await.map(drop)
    }

    /// Begins an upload in parts. Returns its ID, and whether the server may have begun further uploads of this object,
    /// because the request was sent more than once.
    pub(super) async fn create(&self, key: &str) -> Result<(String, bool), Failure> {
        let mut headers = self.settings.headers.clone();
        if self.settings.has_checksums {
            headers.push((ALGORITHM, HeaderValue::from_static("CRC32")));
        }
        let (headers, parameters) = (&headers[..], &[("uploads", "")][..]);
        let sent =
            self.send(Unsigned { parameters, headers, ..Unsigned::new("POST", key) }).await?;
        let id = xml::text(&sent.body, "UploadId").filter(|id| !id.is_empty() && id.len() <= 4_096);
        let id = id.ok_or_else(|| unexpected("UploadId"))?;
        Ok((id.into_owned(), sent.times > 1))
    }

    /// Uploads a part.
    pub(super) async fn upload(
        &self,
        key: &str,
        id: &str,
        number: usize,
        body: Bytes,
    ) -> Result<Uploaded, Failure> {
        let number = number.to_string();
        let parameters = &[("partNumber", &*number), ("uploadId", id)];
        let request = Unsigned { parameters, body, is_content: true, ..Unsigned::new("PUT", key) };
        let sent = self.send(request).await?;
        let tag =
            sent.headers.get(ETAG).and_then(|it| it.to_str().ok()).filter(|it| !it.is_empty());
        let tag = tag.map(str::to_owned).ok_or_else(|| unexpected("ETag"))?;
        Ok(Uploaded { tag, checksum: sent.checksum })
    }

    /// Joins parts to an object. Succeeds also if an earlier attempt, whose answer was lost, has
    /// completed the upload.
    pub(super) async fn complete(
        &self,
        key: &str,
        id: &str,
        parts: &[Uploaded],
    ) -> Result<(), Failure> {
        let mut body =
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                .to_owned();
        for (number, Uploaded { tag, checksum }) in (1..).zip(parts) {
            body.extend(["<Part><PartNumber>", &number.to_string(), "</PartNumber><ETag>"]);
            xml::escape(tag, &mut body);
            body += "</ETag>";
            if let Some(checksum) = checksum {
                body.extend(["<ChecksumCRC32>", checksum, "</ChecksumCRC32>"]);
            }
            body += "</Part>";
        }
        body += "</CompleteMultipartUpload>";
        let (parameters, body) = (&[("uploadId", id)][..], Bytes::from(body));
        match self.send(Unsigned { parameters, body, ..Unsigned::new("POST", key) }).await {
            Ok(sent)
                if xml::elements(&sent.body, "CompleteMultipartUploadResult").next().is_some() =>
            {
                Ok(())
            }
            Ok(_) => Err(unexpected("CompleteMultipartUploadResult")),
            // The key is unique, so an object with this key is the result of this upload.
            Err(failure) if failure.has_no_upload() => {
                self.send(Unsigned::new("HEAD", key)).await.map(drop).map_err(|_| failure)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Aborts an upload. An upload that does not exist counts as aborted.
    pub(super) async fn abort(&self, key: &str, id: &str) -> Result<(), Failure> {
        let parameters = &[("uploadId", id)];
        match self.send(Unsigned { parameters, ..Unsigned::new("DELETE", key) }).await {
            Err(failure) if failure.status != Some(StatusCode::NOT_FOUND) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Returns the IDs of the unfinished uploads of an object.
    pub(super) async fn uploads(&self, key: &str) -> Result<Vec<String>, Failure> {
        let parameters = &[("prefix", key), ("uploads", "")];
        match self.send(Unsigned { parameters, ..Unsigned::new("GET", "") }).await {
            Ok(sent) => {
                let uploads = xml::elements(&sent.body, "Upload");
                let ours = uploads.filter(|it| xml::text(it, "Key").is_some_and(|it| it == key));
                Ok(ours.filter_map(|it| xml::text(it, "UploadId").map(Into::into)).collect())
            }
            Err(failure) if failure.status == Some(StatusCode::NOT_FOUND) => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    /// Closes the connections that were idle for too long.
    pub(super) fn end_idle(&self) {
        self.pool.end_idle();
    }

    /// Sends a request until it succeeds, fails permanently or has failed [`ATTEMPTS`] times.
    async fn send(&self, request: Unsigned<'_>) -> Result<Sent, Failure> {
        let digests = self.digests(&request).await?;
        let (mut attempt, mut has_renewed) = (1, false);
        // The pool sends a request again if its connection was closed before a response began.
        let times = AtomicU32::new(0);
        loop {
            let failure = match self.attempt(&request, &digests, &times).await {
                Ok((headers, body)) => {
                    let (checksum, times) = (digests.checksum, times.into_inner());
                    return Ok(Sent { headers, body, checksum, times });
                }
                Err(failure) => failure,
            };
            if failure.is_by_keys() && !has_renewed {
                // The keys may have been replaced since they were read.
                has_renewed = true;
                if self.credentials.forget() {
                    continue;
                }
            }
            if !failure.is_transient || attempt == ATTEMPTS {
                return Err(failure);
            }
            self.host.sleep(failure.error.delay().max(PAUSE * 2_u32.pow(attempt - 1))).await;
            attempt += 1;
        }
    }

    /// Returns the digests of the body of a request.
    async fn digests(&self, request: &Unsigned<'_>) -> Result<Digests, Failure> {
        let body = request.body.clone();
        let is_hashed = self.settings.config.sign_payload && !body.is_empty();
        let has_checksum = self.settings.has_checksums && request.is_content;
        let digest = move || {
            let hash = if is_hashed {
                sign::sha256(&body)
            } else {
                let fixed = if body.is_empty() { EMPTY } else { UNSIGNED };
                fixed.to_owned()
            };
            Digests { hash, checksum: has_checksum.then(|| sign::checksum(&body)) }
        };
        if request.body.len() <= AT_ONCE || !(is_hashed || has_checksum) {
            return Ok(digest());
        }
        self.host.blocking(digest).await.map_err(Failure::of_preparation)
    }

    async fn attempt(
        &self,
        request: &Unsigned<'_>,
        Digests { hash, checksum }: &Digests,
        times: &AtomicU32,
    ) -> Result<(HeaderMap, String), Failure> {
        let Settings { base, region, .. } = &*self.settings;
        let permit = self.limit.acquire().await;
        let keys = self.credentials.keys().await.map_err(Failure::of_preparation)?;
        let path = match (&**base, request.key) {
            ("", key) => sign::encode_path(key),
            (base, "") => sign::encode_path(base),
            (base, key) => format!("/{base}{}", sign::encode_path(key)),
        };
        let query = sign::query(request.parameters);
        let mut url = self.settings.url().clone();
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        url.target = PathAndQuery::try_from(target)
            .map_err(|error| Failure::of_preparation(Error::bad_data(error)))?;
        let host = url.host_header();
        let stamp = time::stamp(self.host.now_ns());
        let mut headers: Vec<(&str, &str)> = vec![
            ("host", host.to_str().unwrap_or_default()),
            ("x-amz-content-sha256", hash),
            ("x-amz-date", &stamp),
        ];
        headers.extend(keys.session_token.as_deref().map(|token| ("x-amz-security-token", token)));
        headers.extend(checksum.as_deref().map(|checksum| ("x-amz-checksum-crc32", checksum)));
        let others = request.headers.iter();
        headers.extend(
            others.map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default())),
        );
        let canonical = Canonical {
            method: request.method,
            path: &path,
            query: &query,
            headers: headers.clone(),
            body: hash,
        };
        let authorization = canonical.authorization(&keys, region, &stamp);
        let head = || {
            times.fetch_add(1, Ordering::Relaxed);
            let mut head = Request::builder().method(request.method);
            // The pool sets the header `Host`.
            for (name, value) in &headers[1..] {
                head = head.header(*name, *value);
            }
            head.header(AUTHORIZATION, &authorization)
        };
        let answer = self.pool.send(&url, head, &request.body, RESPONSE).await;
        drop(permit);
        let answer = answer.map_err(Failure::of_connection)?;
        let secrets = [Some(&keys.secret_access_key), keys.session_token.as_ref()];
        let secrets =
            Secrets::of(secrets.into_iter().flatten().map(|it| it.clone().into_bytes()).collect());
        let body = answer::check(&answer, region, &secrets)?.to_owned();
        Ok((answer.headers, body))
    }
}

/// Returns the failure of a request whose response has not the expected contents.
fn unexpected(missing: &str) -> Failure {
    Failure::of_connection(Error::full(format_args!(
        "the response of the server has no `{missing}`; check `endpoint`"
    )))
}
