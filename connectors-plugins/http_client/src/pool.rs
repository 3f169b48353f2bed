//! Connections to the peer: made when one is needed, and kept for the next request.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{body::Bytes, http::request::Builder};
use tremor_pdk::{
    Descriptors, Error, ErrorPolicy, Host, Result,
    net::{
        self, TcpStream,
        futures_io::{AsyncRead, AsyncWrite},
        within,
    },
};

use crate::{
    answer::{SHOWN, printable},
    config::Settings,
    io::Stream,
    line::{Answer, Line},
    payload::Payload,
    proxy::Proxy,
    secrets::Secrets,
    url::Url,
};

/// How long the answer of a proxy may be, in bytes.
const PROXY_ANSWER: usize = 16 << 10;

/// The connections that nothing goes through just now.
pub(crate) struct Pool {
    host: Host,
    pub(crate) settings: Arc<Settings>,
    descriptors: Descriptors,
    proxy: Option<Proxy>,
    /// Values that no error may show, those for the proxy included.
    pub(crate) secrets: Secrets,
    idle: Mutex<Vec<Idle>>,
    /// Until when the peer wants nothing, in ns since the epoch.
    resumes_ns: AtomicU64,
}

struct Idle {
    line: Line,
    since_ns: u64,
}

impl Pool {
    pub(crate) fn new(
        host: &Host,
        settings: Arc<Settings>,
        descriptors: Descriptors,
        proxy: Option<Proxy>,
    ) -> Self {
        let authorization = proxy.as_ref().and_then(|proxy| proxy.authorization.as_ref());
        let secrets = settings.secrets.and(authorization);
        let (idle, resumes_ns) = (Mutex::default(), AtomicU64::new(0));
        Self { host: host.clone(), settings, descriptors, proxy, secrets, idle, resumes_ns }
    }

    /// The peer wants nothing for so long, from any delivery.
    pub(crate) fn hold(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.resumes_ns.fetch_max(self.host.monotonic_ns().saturating_add(ns), Ordering::Relaxed);
    }

    /// How long the peer wants nothing yet.
    pub(crate) fn held(&self) -> Option<Duration> {
        let left = self.resumes_ns.load(Ordering::Relaxed).saturating_sub(self.host.monotonic_ns());
        (left > 0).then(|| Duration::from_nanos(left))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to a URL of the peer, and takes so much of the response's body at most.
    ///
    /// # Errors
    /// There is no answer. Time may mend that: its policy is to retry.
    pub(crate) async fn send(
        &self,
        url: &Url,
        head: impl Fn() -> Builder,
        body: &Bytes,
        most: usize,
    ) -> Result<Answer> {
        let is_for_proxy = self.proxy.is_some();
        let request = || {
            let mut head = head().uri(url.request_target(is_for_proxy));
            if let Some(headers) = head.headers_mut() {
                headers.extend(self.settings.headers.clone());
                if let Some(Proxy { authorization: Some(value), .. }) = &self.proxy
                    && !url.is_tls
                {
                    headers.insert(hyper::header::PROXY_AUTHORIZATION, value.clone());
                }
            }
            head.body(Payload::new(body.clone())).map_err(Error::internal)
        };
        let timeout = self.settings.config.timeout;
        let late = || Error::timeout(format_args!("`{url}` has not answered within {timeout}"));
        loop {
            let (mut line, is_new) = match self.take().await {
                Some(line) => (line, false),
                None => (self.connect().await?, true),
            };
            let sent = within(&self.host, timeout.get(), line.send(request()?, most)).await;
            match sent {
                None => return Err(late()),
                Some(Ok(answer)) => {
                    self.put(line).await;
                    return Ok(answer);
                }
                // The peer has closed it while nothing went through, and has seen nothing of the request, as
                // far as is known. There are no more such connections than there are.
                Some(Err(_)) if !is_new && !line.has_answered() => {}
                Some(Err(error)) => {
                    let lost = Error::connection_lost(format_args!(
                        "the connection to `{url}` broke before the end of the answer: {error}"
                    ));
                    return Err(lost.with_policy(ErrorPolicy::RETRY));
                }
            }
        }
    }

    /// A connection that can be used again: the last that was, for the others may end by their age.
    async fn take(&self) -> Option<Line> {
        loop {
            self.end_idle();
            let mut line = self.idle().pop()?.line;
            if line.is_usable().await {
                return Some(line);
            }
        }
    }

    /// Keeps a connection for the next request.
    async fn put(&self, mut line: Line) {
        if line.is_usable().await {
            let since_ns = self.host.monotonic_ns();
            self.idle().push(Idle { line, since_ns });
        }
    }

    /// Ends connections that nothing has gone through for too long.
    pub(crate) fn end_idle(&self) {
        let (now_ns, most) = (self.host.monotonic_ns(), self.settings.config.idle_timeout.ns());
        let is_old = |idle: &mut Idle| now_ns.saturating_sub(idle.since_ns) >= most;
        let old: Vec<_> = self.idle().extract_if(.., is_old).collect();
        // They are closed without the lock.
        drop(old);
    }

    /// Makes a connection. The name is looked up anew.
    async fn connect(&self) -> Result<Line> {
        let Self { host, settings, .. } = self;
        let (url, timeout) = (&settings.url, settings.config.connect_timeout);
        let peer = || match &self.proxy {
            Some(proxy) => format!("cannot connect to `{url}` through {proxy}"),
            None => format!("cannot connect to `{url}`"),
        };
        match within(host, timeout.get(), self.dial()).await {
            None => {
                let late = format_args!("{}: it took longer than {timeout}", peer());
                Err(Error::timeout(late))
            }
            Some(Ok(line)) => Ok(line),
            // The connector has no connection of its own to be made again.
            Some(Err(error)) if error.is_final() => Err(error),
            Some(Err(error)) => Err(error.context(peer()).with_policy(ErrorPolicy::RETRY)),
        }
    }

    async fn dial(&self) -> Result<Line> {
        let url = &self.settings.url;
        let address = match &self.proxy {
            Some(proxy) => proxy.address.clone(),
            None => url.address()?,
        };
        let mut stream = net::connect(&self.host, &self.descriptors, &address).await?;
        if let Some(proxy) = self.proxy.as_ref().filter(|_| url.is_tls) {
            tunnel(&mut stream, proxy, &url.authority(), &self.secrets).await?;
        }
        let stream: Box<dyn Stream> = match &self.settings.tls {
            Some(tls) => Box::new(tls.connect(stream).await?),
            None => Box::new(stream),
        };
        Line::new(stream).await.map_err(Error::connection_lost)
    }
}

/// Has a proxy connect to a peer.
async fn tunnel(
    stream: &mut TcpStream,
    proxy: &Proxy,
    peer: &str,
    secrets: &Secrets,
) -> Result<()> {
    let mut request = format!("CONNECT {peer} HTTP/1.1\r\nHost: {peer}\r\n").into_bytes();
    if let Some(value) = &proxy.authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let mut rest = &request[..];
    while !rest.is_empty() {
        let count = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, rest)).await?;
        rest = &rest[count..];
    }
    // A byte at a time: what comes after it is the peer's.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut byte)).await?;
        if read == 0 || answer.len() == PROXY_ANSWER {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        answer.push(byte[0]);
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let status = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if line.starts_with(b"HTTP/1.") && status.len() == 3 && status[0] == b'2' {
        return Ok(());
    }
    let line = printable(&secrets.redacted(line, SHOWN));
    Err(Error::connection_refused(format_args!("the proxy answers with `{line}`")))
}
