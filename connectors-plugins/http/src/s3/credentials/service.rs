//! Services that give keys to an instance, a container or a role of AWS.

use std::{fs, num::NonZeroUsize, sync::Arc};

use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue},
    http::uri::PathAndQuery,
};
use tremor_pdk::{Descriptors, Error, Host, Result, serde::Deserialize, units::Interval};

use super::{Loaded, Variables, check};
use crate::{
    exchange::{Pool, Url, percent_encode},
    s3::{
        settings::{Times, domain, parse_endpoint, server},
        sign::Keys,
        time, xml,
    },
};

/// The key of the configuration for the URL of the metadata service.
pub(super) const ENDPOINT: &str = "credentials.instance.endpoint";

/// The metadata service of EC2.
const INSTANCE: &str = "http://169.254.169.254";

/// The service of ECS.
const CONTAINER: &str = "http://169.254.170.2";

/// Path of the roles of an instance, which is followed by the name of a role.
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// Maximum number of bytes to read of a response.
const RESPONSE: usize = 64 << 10;

/// A service that gives keys.
pub(super) struct Service {
    kind: Kind,
    url: Url,
    pool: Pool,
    host: Host,
}

enum Kind {
    Instance,
    /// The path and the query of the request for the keys.
    Container(PathAndQuery),
    Role(Role),
}

/// A role that the token of a file allows to assume.
struct Role {
    arn: String,
    /// Name by which the logs of AWS refer to the session.
    session: String,
    /// Path of the file with the token. EKS replaces the file before the token expires.
    token: String,
}

/// A response with keys.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde", rename_all = "PascalCase")]
struct Response {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl Service {
    /// Creates the metadata service of an instance.
    ///
    /// # Errors
    /// The URL is invalid.
    pub(super) fn instance(
        endpoint: Option<&str>,
        host: &Host,
        descriptors: &Descriptors,
    ) -> Result<Self> {
        let url = parse_endpoint(ENDPOINT, endpoint.unwrap_or(INSTANCE))?;
        Self::new(Kind::Instance, url, host, descriptors)
    }

    /// Creates the service of a container, if the environment names one.
    ///
    /// # Errors
    /// The URL in the environment is invalid.
    pub(super) fn container(
        variables: Variables,
        host: &Host,
        descriptors: &Descriptors,
    ) -> Result<Option<Self>> {
        let relative = variables("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let full = || variables("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let Some(text) = relative.map(|path| format!("{CONTAINER}{path}")).or_else(full) else {
            return Ok(None);
        };
        let url: Url = text.parse().map_err(|error: Error| {
            error.context("cannot use `AWS_CONTAINER_CREDENTIALS_FULL_URI` or `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`")
        })?;
        Self::new(Kind::Container(url.target.clone()), url, host, descriptors).map(Some)
    }

    /// Creates the Security Token Service of a region, if the environment names a role and a file with a token.
    ///
    /// # Errors
    /// The URL in the environment, or the proxy in it, is invalid.
    pub(super) fn role(
        variables: Variables,
        region: &str,
        host: &Host,
        descriptors: &Descriptors,
    ) -> Result<Option<Self>> {
        let names = ["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"].map(variables);
        let [Some(arn), Some(token)] = names else { return Ok(None) };
        let session = variables("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "tremor".to_owned());
        let endpoint = variables("AWS_ENDPOINT_URL_STS")
            .unwrap_or_else(|| format!("https://sts.{region}.{}", domain(region)));
        let url = parse_endpoint("AWS_ENDPOINT_URL_STS", &endpoint)?;
        Self::new(Kind::Role(Role { arn, session, token }), url, host, descriptors).map(Some)
    }

    fn new(kind: Kind, url: Url, host: &Host, descriptors: &Descriptors) -> Result<Self> {
        let scheme = if url.is_tls { "https" } else { "http" };
        let (answer, connect) = (Interval::of_ms(5_000), Interval::of_ms(2_000));
        let times = Times { answer, connect, idle: answer };
        let url_of_server = format!("{scheme}://{}", url.authority());
        let endpoint = server(&url_of_server, None, &times, NonZeroUsize::MIN, host)?;
        let (endpoint, descriptors) = (Arc::new(endpoint), descriptors.clone());
        let pool = match &kind {
            Kind::Role(_) => Pool::with_proxy(host, endpoint, descriptors)?,
            // These services are on the machine itself, so no proxy can reach them.
            _ => Pool::without_proxy(host, endpoint, descriptors),
        };
        Ok(Self { kind, url, pool, host: host.clone() })
    }

    /// Requests the current keys.
    ///
    /// # Errors
    /// The service does not respond, or has no keys.
    pub(super) async fn load(&self, variables: Variables) -> Result<Loaded> {
        let loaded = match &self.kind {
            Kind::Instance => self.load_of_instance().await,
            Kind::Container(path) => self.load_of_container(path, variables).await,
            Kind::Role(role) => self.load_of_role(role).await,
        };
        loaded.map_err(|error| {
            let service = match &self.kind {
                Kind::Instance => "the metadata service of the instance",
                Kind::Container(_) => "the credentials of the container",
                Kind::Role(_) => "the Security Token Service, with `AWS_ROLE_ARN` and `AWS_WEB_IDENTITY_TOKEN_FILE`",
            };
            Error::authentication(format_args!("cannot read keys from {service}: {error}"))
        })
    }

    async fn load_of_instance(&self) -> Result<Loaded> {
        let ttl = (
            HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds"),
            HeaderValue::from_static("300"),
        );
        let token =
            self.send(Method::PUT, PathAndQuery::from_static("/latest/api/token"), &ttl).await?;
        let token = header(token.trim())?;
        let token = (HeaderName::from_static("x-aws-ec2-metadata-token"), token);
        let roles = match self.send(Method::GET, PathAndQuery::from_static(ROLES), &token).await {
            Ok(roles) => roles,
            Err(error) => return Err(error.context("the instance has no role")),
        };
        let role = roles.lines().next().unwrap_or_default().trim();
        let path = PathAndQuery::try_from(format!("{ROLES}{role}")).map_err(Error::bad_data)?;
        if role.is_empty() {
            return Err(Error::authentication("the instance has no role; attach a role to it"));
        }
        parse(&self.send(Method::GET, path, &token).await?)
    }

    async fn load_of_container(&self, path: &PathAndQuery, variables: Variables) -> Result<Loaded> {
        let token = match variables("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(path) => Some(self.read_token(path).await?),
            None => variables("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        };
        let token = header(token.unwrap_or_default().trim())?;
        parse(&self.send(Method::GET, path.clone(), &(AUTHORIZATION, token)).await?)
    }

    async fn load_of_role(&self, role: &Role) -> Result<Loaded> {
        let token = self.read_token(role.token.clone()).await?;
        let mut form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15".to_owned();
        let fields = [
            ("RoleArn", &*role.arn),
            ("RoleSessionName", &role.session),
            ("WebIdentityToken", token.trim()),
        ];
        for (name, value) in fields {
            form.extend(["&", name, "="]);
            let at = form.len();
            form.push_str(value);
            percent_encode(&mut form, at);
        }
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let (path, header) = (PathAndQuery::from_static("/"), (CONTENT_TYPE, kind));
        let body = self.exchange(Method::POST, path, &header, form.into()).await?;
        let field = |name| xml::text(&body, name).map(String::from);
        let missing = || Error::authentication("the response has no keys");
        let access_key_id = field("AccessKeyId").ok_or_else(missing)?;
        let secret_access_key = field("SecretAccessKey").ok_or_else(missing)?;
        loaded(
            Keys { access_key_id, secret_access_key, session_token: field("SessionToken") },
            field("Expiration").as_deref(),
        )
    }

    /// Reads a file with a token. AWS replaces such files, so they are read each time.
    async fn read_token(&self, path: String) -> Result<String> {
        let (read, path) = self.host.blocking(move || (fs::read_to_string(&path), path)).await?;
        read.map_err(|error| {
            Error::authentication(format_args!("cannot read the token in `{path}`: {error}"))
        })
    }

    /// Sends a request with a header, and returns the body of its successful response.
    async fn send(
        &self,
        method: Method,
        path: PathAndQuery,
        header: &(HeaderName, HeaderValue),
    ) -> Result<String> {
        self.exchange(method, path, header, Bytes::new()).await
    }

    /// Sends a request with a header and a body, and returns the body of its successful response.
    async fn exchange(
        &self,
        method: Method,
        path: PathAndQuery,
        header: &(HeaderName, HeaderValue),
        body: Bytes,
    ) -> Result<String> {
        let url = Url { target: path, ..self.url.clone() };
        let head = || {
            let head = Request::builder().method(method.clone());
            if header.1.is_empty() { head } else { head.header(&header.0, &header.1) }
        };
        let answer = self.pool.send(&url, head, &body, RESPONSE).await?;
        if answer.status != StatusCode::OK {
            // Show nothing else of the body, which may contain a secret.
            let text = std::str::from_utf8(&answer.body).unwrap_or_default();
            let is_word =
                |code: &str| code.len() < 100 && code.bytes().all(|it| it.is_ascii_alphanumeric());
            let code = xml::text(text, "Code").filter(|code| is_word(code)).unwrap_or_default();
            let separator = if code.is_empty() { "" } else { ": " };
            return Err(Error::authentication(format_args!(
                "`{url}` answered with {}{separator}{code}",
                answer.status
            )));
        }
        String::from_utf8(answer.body).map_err(|_| {
            Error::authentication(format_args!("the response of `{url}` is not UTF-8"))
        })
    }
}

fn header(text: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Error::authentication("the token has control characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn parse(body: &str) -> Result<Loaded> {
    // Do not show the error, which may quote a secret.
    let invalid = || Error::authentication("the response has no keys");
    let Response { access_key_id, secret_access_key, token, expiration } =
        serde_json::from_str(body).map_err(|_| invalid())?;
    let keys = Keys { access_key_id, secret_access_key, session_token: token };
    loaded(keys, expiration.as_deref())
}

/// Returns the keys of a response, and their expiry.
fn loaded(keys: Keys, expiration: Option<&str>) -> Result<Loaded> {
    check(&keys.access_key_id, keys.session_token.as_deref(), "the response")?;
    let expires = match expiration {
        None => None,
        Some(text) => Some(time::parse(text).ok_or_else(|| {
            Error::authentication(format_args!(
                "invalid `Expiration` `{}` in the response",
                text.escape_debug()
            ))
        })?),
    };
    Ok(Loaded { expires, ..keys.into() })
}
