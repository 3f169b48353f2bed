//! Validation of the configuration.

use std::{collections::BTreeMap, env, num::NonZeroUsize, path::PathBuf, sync::Arc};

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use tremor_pdk::{
    Error, Host, Result, net::tls::Tls, path_without_placeholders, units::Interval,
    without_placeholders,
};

use super::{
    config::{Checksum, Config, Encryption},
    keys::{Format, KeyTemplate},
};
use crate::{
    Compression,
    exchange::{Endpoint, Keys, Targets, Url},
};

/// Length of the parts of an object in bytes, and of the longest object that is stored with one request.
pub(super) const PART: usize = 8 << 20;

/// Number of parts of the longest object. S3 accepts 10,000 parts.
const PARTS: u64 = 9_000;

/// Upper limit of `rotate.max_bytes` with `state`, in bytes: the longest object of S3.
const MOST_IN_PARTS: u64 = 5 << 40;

/// Upper limit of `rotate.max_bytes` without `state`, in bytes: S3 accepts 5 GiB in one request, and the connector
/// keeps the object in memory.
const MOST_AT_ONCE: u64 = 1 << 30;

/// The validated configuration.
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) region: String,
    pub(super) endpoint: Arc<Endpoint>,
    /// Start of the path of each URL: empty, or the bucket.
    pub(super) base: String,
    pub(super) keys: KeyTemplate,
    pub(super) format: Option<Format>,
    /// Headers of each new object.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// `true` if objects and their parts have checksums.
    pub(super) has_checksums: bool,
    /// Length of the parts of an object, in bytes.
    pub(super) part_bytes: usize,
    /// Path of the state file.
    pub(super) state: Option<PathBuf>,
}

impl Settings {
    /// Validates the configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value and the expected value. Secrets are never shown.
    pub(super) fn new(mut config: Config, host: &Host) -> Result<Self> {
        config.bucket = without_placeholders("bucket", &config.bucket)?;
        check_bucket(&config.bucket)?;
        let region = region(&config)?;
        let has_point = config.bucket.contains('.');
        let is_path_style = config.path_style.unwrap_or(config.endpoint.is_some() || has_point);
        let endpoint = Arc::new(endpoint(&config, &region, is_path_style, host)?);
        let base = if is_path_style { config.bucket.clone() } else { String::new() };
        let keys = KeyTemplate::new(&config.key)?;
        let format = Format::of(config.compression, &config.key);
        let state = config.state.take().map(|it| path_without_placeholders("state", it));
        let state = state.transpose()?.map(|path| host.resolve(path));
        let most = if state.is_some() { MOST_IN_PARTS } else { MOST_AT_ONCE };
        let max_bytes = config.rotate.max_bytes.get();
        if max_bytes > most {
            let remedy = if state.is_some() {
                ""
            } else {
                "; set `state`, so that objects are uploaded in parts"
            };
            return Err(Error::configuration(format_args!(
                "invalid `rotate.max_bytes` {max_bytes}: expected at most {most} bytes{remedy}"
            )));
        }
        let part_bytes = usize::try_from(max_bytes / PARTS).unwrap_or(PART).max(PART);
        let headers = headers(&config, format)?;
        // Stores other than AWS may reject the headers.
        let default = if config.endpoint.is_some() { Checksum::None } else { Checksum::Crc32 };
        let has_checksums = config.checksum.unwrap_or(default) == Checksum::Crc32;
        Ok(Self {
            config,
            region,
            endpoint,
            base,
            keys,
            format,
            headers,
            has_checksums,
            part_bytes,
            state,
        })
    }

    /// Returns the URL of the server, without a path.
    pub(super) fn url(&self) -> &Url {
        &self.endpoint.url
    }
}

/// Times in which a server has to answer.
pub(super) struct Times {
    /// Maximum time from the first byte of a request to the last byte of its response.
    pub(super) answer: Interval,
    pub(super) connect: Interval,
    /// Time without a request after which a connection is closed.
    pub(super) idle: Interval,
}

/// Returns the server of a URL without a path.
pub(super) fn server(
    url: &str,
    tls: Option<&Tls>,
    times: &Times,
    max_connections: NonZeroUsize,
    host: &Host,
) -> Result<Endpoint> {
    let keys = Keys {
        headers: &BTreeMap::new(),
        auth: None,
        tls,
        compression: Compression::None,
        timeout: times.answer,
        connect_timeout: times.connect,
        idle_timeout: times.idle,
        max_connections,
    };
    Endpoint::new(url.parse()?, &keys, &mut Targets::fixed(), host)
}

fn endpoint(config: &Config, region: &str, is_path_style: bool, host: &Host) -> Result<Endpoint> {
    let url = match &config.endpoint {
        Some(endpoint) => parse_endpoint("endpoint", endpoint)?,
        None => parse_endpoint("region", &format!("https://s3.{region}.{}", domain(region)))?,
    };
    if config.tls.is_some() && !url.is_tls {
        return Err(Error::configuration(
            "invalid `tls`: an `endpoint` with `http` has no TLS; use an `endpoint` with `https`",
        ));
    }
    let scheme = if url.is_tls { "https" } else { "http" };
    let bucket = if is_path_style { String::new() } else { format!("{}.", config.bucket) };
    let url = format!("{scheme}://{bucket}{}", url.authority());
    let Config { timeout: answer, connect_timeout: connect, idle_timeout: idle, .. } = *config;
    let times = Times { answer, connect, idle };
    server(&url, config.tls.as_ref(), &times, config.max_connections, host)
}

/// Parses the URL of a server, which must not have a path.
pub(super) fn parse_endpoint(key: &str, text: &str) -> Result<Url> {
    let invalid = |problem: &str| {
        Error::configuration(format_args!(
            "invalid `{key}`: {problem}; expected a URL such as `https://HOST:PORT`, without a path"
        ))
    };
    let text = without_placeholders(key, text)?;
    let url: Url = text.parse().map_err(|error: Error| {
        // The message names `url`, which is a key of another connector.
        let message = error.message();
        invalid(
            message
                .split("; expected")
                .next()
                .unwrap_or(message)
                .trim_start_matches("invalid `url`: "),
        )
    })?;
    if url.target.as_str() != "/" {
        return Err(invalid("it has a path or a query"));
    }
    Ok(url)
}

fn check_bucket(bucket: &str) -> Result<()> {
    let is_valid = |it: u8| it.is_ascii_alphanumeric() || b"-._".contains(&it);
    let is_edge = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    let has_edges = is_edge(bucket.chars().next()) && is_edge(bucket.chars().next_back());
    if (3..=255).contains(&bucket.len()) && bucket.bytes().all(is_valid) && has_edges {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "invalid `bucket` `{}`: expected 3 to 63 characters of `a` to `z`, `0` to `9`, `-` and `.`, without a path",
        bucket.escape_debug()
    )))
}

/// Returns the domain of the services of AWS in a region.
pub(super) fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// Returns the region of the configuration or the environment.
fn region(config: &Config) -> Result<String> {
    let from_environment = || {
        let names = ["AWS_REGION", "AWS_DEFAULT_REGION"];
        names.iter().find_map(|name| env::var(name).ok().filter(|it| !it.is_empty()))
    };
    let region = match &config.region {
        Some(region) => without_placeholders("region", region)?,
        // If the bucket is in another region, the server names that region.
        None => from_environment().unwrap_or_else(|| "us-east-1".to_owned()),
    };
    let is_valid = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
    if !region.is_empty() && region.len() <= 64 && region.bytes().all(is_valid) {
        return Ok(region);
    }
    Err(Error::configuration(format_args!(
        "invalid `region` `{}`: expected the name of a region, such as `eu-central-1`",
        region.escape_debug()
    )))
}

/// Returns the headers of each new object.
fn headers(config: &Config, format: Option<Format>) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let value = |key: &str, text: &str| {
        let text = without_placeholders(key, text)?;
        HeaderValue::from_str(&text).ok().filter(|it| !it.is_empty() && it.to_str().is_ok()).ok_or_else(|| {
            Error::configuration(format_args!(
                "invalid `{key}` `{}`: expected the value of a header, in ASCII and without line feeds",
                text.escape_debug()
            ))
        })
    };
    let mut headers = Vec::new();
    let content_type = match (&config.content_type, &config.content_encoding, format) {
        (Some(text), ..) => value("content_type", text)?,
        (None, None, Some(Format::Gzip)) => HeaderValue::from_static("application/gzip"),
        (None, None, Some(Format::Zstd)) => HeaderValue::from_static("application/zstd"),
        _ => HeaderValue::from_static("application/octet-stream"),
    };
    headers.push((CONTENT_TYPE, content_type));
    if let Some(text) = &config.content_encoding {
        headers.push((CONTENT_ENCODING, value("content_encoding", text)?));
    }
    if let Some(text) = &config.storage_class {
        let name = HeaderName::from_static("x-amz-storage-class");
        headers.push((name, value("storage_class", text)?));
    }
    if let Some(encryption) = config.server_side_encryption {
        let name = HeaderName::from_static("x-amz-server-side-encryption");
        headers.push((name, HeaderValue::from_static(encryption.as_str())));
    }
    if let Some(text) = &config.kms_key_id {
        if !matches!(config.server_side_encryption, Some(Encryption::Kms | Encryption::KmsDsse)) {
            return Err(Error::configuration(
                "`kms_key_id` needs `server_side_encryption: aws:kms` or `aws:kms:dsse`: set it, or remove \
                 `kms_key_id`",
            ));
        }
        let name = HeaderName::from_static("x-amz-server-side-encryption-aws-kms-key-id");
        headers.push((name, value("kms_key_id", text)?));
    }
    Ok(headers)
}
