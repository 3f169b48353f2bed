//! Pool of connections to the peer: made on demand, and kept for the next request.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{
    Method,
    body::Bytes,
    header::{CONTENT_LENGTH, HeaderValue, PROXY_AUTHORIZATION},
    http::request::Builder,
};
use tremor_pdk::{
    ComponentContext, Descriptors, Error, ErrorPolicy, Host, Result, lock,
    net::{self, Proxy, TcpStream, within},
};

use super::{
    connection::{Answer, HttpConnection, Stream},
    endpoint::Endpoint,
    secrets::Secrets,
    url::Url,
};
use crate::payload::Payload;

/// Methods whose requests have a `Content-Length` even if the body is empty. Some servers reject
/// such a request without a length (411).
const CONTENT: [Method; 3] = [Method::POST, Method::PUT, Method::PATCH];

/// Connections of a connector to its endpoint.
pub(crate) struct Pool {
    host: Host,
    endpoint: Arc<Endpoint>,
    descriptors: Descriptors,
    proxy: Option<Proxy>,
    /// Values that no error may show, including the credentials for the proxy.
    pub(crate) secrets: Secrets,
    idle: Mutex<Vec<Idle>>,
    /// Time until which the sink sends no request, because the peer asked for a delay. By the
    /// monotonic clock, in ns.
    resumes_ns: AtomicU64,
}

struct Idle {
    connection: HttpConnection,
    since_ns: u64,
}

impl Pool {
    /// Creates a pool without connections: each request takes a connection from the pool, or makes a new one.
    ///
    /// # Errors
    /// The files of the TLS settings, or the proxy that the environment names, cannot be used.
    pub(crate) async fn new(
        context: &ComponentContext,
        endpoint: Arc<Endpoint>,
    ) -> Result<Arc<Self>> {
        if let Some(tls) = &endpoint.tls {
            // Detects errors in the files before the first request.
            tls.client_config().await?;
        }
        Self::with_proxy(context, endpoint, Descriptors::new(context)?).map(Arc::new)
    }

    /// Creates a pool for a server that is reached through the proxy that the environment names, if it names one.
    ///
    /// # Errors
    /// The proxy cannot be used.
    pub(crate) fn with_proxy(
        host: &Host,
        endpoint: Arc<Endpoint>,
        descriptors: Descriptors,
    ) -> Result<Self> {
        let url = &endpoint.url;
        let proxy = Proxy::from_environment(host, &url.address()?, url.is_tls)?;
        if let Some(proxy) = &proxy {
            tremor_pdk::info!(host, "sends through {proxy}");
        }
        let authorization = proxy.as_ref().and_then(authorization);
        let secrets = endpoint.secrets.and(authorization.as_ref());
        Ok(Self { proxy, secrets, ..Self::without_proxy(host, endpoint, descriptors) })
    }

    /// Creates a pool for a server that no proxy can reach, such as a service of the machine itself.
    pub(crate) fn without_proxy(
        host: &Host,
        endpoint: Arc<Endpoint>,
        descriptors: Descriptors,
    ) -> Self {
        let secrets = endpoint.secrets.and(None);
        let (idle, resumes_ns) = (Mutex::default(), AtomicU64::new(0));
        Self { host: host.clone(), endpoint, descriptors, proxy: None, secrets, idle, resumes_ns }
    }

    /// Pauses the requests of the sink for at least `time`, because the peer asked for a delay.
    /// Requests of the source continue.
    pub(crate) fn pause(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.resumes_ns.fetch_max(self.host.monotonic_ns().saturating_add(ns), Ordering::Relaxed);
    }

    /// Returns the remaining time of the delay that the peer asked for, or `None` if the sink may
    /// send requests.
    pub(crate) fn paused_for(&self) -> Option<Duration> {
        let left = self.resumes_ns.load(Ordering::Relaxed).saturating_sub(self.host.monotonic_ns());
        (left > 0).then(|| Duration::from_nanos(left))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        lock(&self.idle)
    }

    /// Sends a request to a URL of the peer, and reads at most `most` bytes of the response's body,
    /// as received and decompressed.
    ///
    /// # Errors
    /// The server did not send a complete response, or could not be reached. The policy of the
    /// error is to retry unless the error is final.
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
            let has_content = head.method_ref().is_some_and(|method| CONTENT.contains(method));
            if let Some(headers) = head.headers_mut() {
                headers.extend(self.endpoint.headers.clone());
                // hyper sets the length only if a body has bytes.
                if body.is_empty() && has_content {
                    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
                }
                let value = self.proxy.as_ref().filter(|_| !url.is_tls).and_then(authorization);
                if let Some(value) = value {
                    headers.insert(PROXY_AUTHORIZATION, value);
                }
            }
            head.body(Payload::new(body.clone())).map_err(Error::internal)
        };
        let timeout = self.endpoint.timeout;
        let late =
            || Error::timeout(format_args!("the server `{url}` did not answer within {timeout}"));
        loop {
            let (mut connection, is_new) = match self.take().await {
                Some(connection) => (connection, false),
                None => (self.connect().await?, true),
            };
            let sent = within(&self.host, timeout.get(), connection.send(request()?, most)).await;
            match sent {
                None => return Err(late()),
                Some(Ok(mut answer)) => {
                    self.put(connection).await;
                    answer.decode(&self.host, most).await?;
                    return Ok(answer);
                }
                // The peer closed an idle connection and sent no byte of a response, so it has
                // probably not received the request. Try another connection. The loop ends, because
                // the number of idle connections is limited and a new connection is not tried
                // again.
                Some(Err(_)) if !is_new && !connection.has_answered() => {}
                Some(Err(error)) => {
                    let lost = Error::connection_lost(format_args!(
                        "the connection to `{url}` broke before the end of its response: {error}"
                    ));
                    return Err(lost.with_policy(ErrorPolicy::RETRY));
                }
            }
        }
    }

    /// Takes the idle connection that was used most recently, so that connections that are not
    /// needed reach their idle timeout.
    async fn take(&self) -> Option<HttpConnection> {
        loop {
            self.end_idle();
            let mut connection = self.idle().pop()?.connection;
            if connection.is_usable().await {
                return Some(connection);
            }
        }
    }

    /// Returns a connection to the pool, unless it has ended.
    async fn put(&self, mut connection: HttpConnection) {
        if connection.is_usable().await {
            let since_ns = self.host.monotonic_ns();
            self.idle().push(Idle { connection, since_ns });
        }
    }

    /// Closes the connections that were idle for longer than `idle_timeout`.
    pub(crate) fn end_idle(&self) {
        let (now_ns, most) = (self.host.monotonic_ns(), self.endpoint.idle_timeout.ns());
        let is_old = |idle: &mut Idle| now_ns.saturating_sub(idle.since_ns) >= most;
        let old: Vec<_> = self.idle().extract_if(.., is_old).collect();
        // Close the connections after the lock was released.
        drop(old);
    }

    /// Makes a connection to the peer or the proxy. The host name is resolved for each connection.
    async fn connect(&self) -> Result<HttpConnection> {
        let Self { host, endpoint, .. } = self;
        let (url, timeout) = (&endpoint.url, endpoint.connect_timeout);
        let peer = || match &self.proxy {
            Some(proxy) => format!("cannot connect to `{url}` through {proxy}"),
            None => format!("cannot connect to `{url}`"),
        };
        let begun_ns = host.monotonic_ns();
        let connecting = async {
            let stream = self.dial(timeout.get()).await?;
            let elapsed = Duration::from_nanos(host.monotonic_ns().saturating_sub(begun_ns));
            let remaining = timeout.get().saturating_sub(elapsed);
            let late = || Err(Error::timeout(format_args!("timed out after {timeout}")));
            within(host, remaining, self.prepare(stream)).await.unwrap_or_else(late)
        };
        match connecting.await {
            Err(error) if error.is_final() => Err(error),
            // Set the policy to retry, so that the runtime does not reconnect the connector: it has
            // no permanent connection, and the next attempt makes a new one.
            result => result.map_err(|error| error.context(peer()).with_policy(ErrorPolicy::RETRY)),
        }
    }

    /// Connects to the proxy, or to the peer if there is no proxy.
    async fn dial(&self, timeout: Duration) -> Result<TcpStream> {
        let address = match &self.proxy {
            Some(proxy) => proxy.address().clone(),
            None => self.endpoint.url.address()?,
        };
        net::connect_within(&self.host, &self.descriptors, &address, timeout).await
    }

    /// Performs the handshakes on a connection to the proxy or the peer.
    async fn prepare(&self, stream: TcpStream) -> Result<HttpConnection> {
        let url = &self.endpoint.url;
        if let Some(proxy) = self.proxy.as_ref().filter(|_| url.is_tls) {
            proxy.tunnel(&stream, &url.address()?).await?;
        }
        let stream: Box<dyn Stream> = match &self.endpoint.tls {
            Some(tls) => Box::new(tls.connect(stream).await?),
            None => Box::new(stream),
        };
        HttpConnection::new(stream).await.map_err(Error::connection_lost)
    }
}

/// Returns the header `Proxy-Authorization` for a proxy that requires credentials.
fn authorization(proxy: &Proxy) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(proxy.authorization()?).ok()?;
    value.set_sensitive(true);
    Some(value)
}
