//! The `config` section of the connector in a flow file.

use std::{num::NonZeroUsize, path::PathBuf};

use tremor_pdk::{
    net::tls::Tls,
    template::Template,
    units::{Interval, Size},
};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone)]
#[schemars(extend("examples" = [{
    "bucket": "logs",
    "key": "{:+%Y/%m/%d/%H}/events.ndjson.gz",
    "endpoint": "http://127.0.0.1:9",
    "credentials": { "keys": { "access_key_id": "example", "secret_access_key": "example" } }
}]))]
pub struct Config {
    /// The bucket, which has to exist.
    pub bucket: String,
    /// Key of the objects, with fields and times: `{host}/{:+%Y/%m/%d/%H}/events.ndjson.gz`. Each event names its
    /// object. Before the first point behind the last field, the connector adds a part that makes the key unique.
    pub key: Template,
    /// The region: `eu-central-1`. Default: the environment variable `AWS_REGION` or `AWS_DEFAULT_REGION`, or
    /// `us-east-1`.
    pub region: Option<String>,
    /// URL of a server other than that of AWS, without a path: `http://minio.example.com:9000`.
    pub endpoint: Option<String>,
    /// `true` to name the bucket in the path of URLs, and `false` to name it in the host. Default: `true` with
    /// `endpoint` or if the name of the bucket has a point, otherwise `false`.
    pub path_style: Option<bool>,
    /// Keys with which requests are signed. Default: those of the environment variables; if there are none, of the file
    /// `~/.aws/credentials`; if there is none, of the container or the instance.
    pub credentials: Option<Credentials>,
    /// Compression of the objects. Default: determined by the end of `key`.
    #[serde(default)]
    pub compression: Compression,
    /// Limits at which an object is complete.
    #[serde(default)]
    pub rotate: Rotate,
    /// Maximum number of objects that gather events at the same time. At this limit, the object without a new event for
    /// the longest time is completed.
    #[serde(default = "max_open_objects")]
    pub max_open_objects: NonZeroUsize,
    /// File that stores which uploads are unfinished, so that the next run aborts them. Objects above 8 MiB are
    /// uploaded in parts only if this key is set. A relative path is resolved against the folder of the flow file.
    #[schemars(extend("x-exclusive" = "file"))]
    pub state: Option<PathBuf>,
    /// The storage class of objects: `STANDARD_IA`. Default: that of the bucket.
    pub storage_class: Option<String>,
    /// Encryption of objects by the server. Default: that of the bucket.
    pub server_side_encryption: Option<Encryption>,
    /// The key of `server_side_encryption` with `aws:kms` or `aws:kms:dsse`. Default: the key of AWS for S3.
    pub kms_key_id: Option<String>,
    /// The `Content-Type` of objects. Default: `application/gzip` or `application/zstd` for a compressed object without
    /// `content_encoding`, otherwise `application/octet-stream`.
    pub content_type: Option<String>,
    /// The `Content-Encoding` of objects: `gzip`. With it, clients decompress an object when they download it. Default:
    /// none.
    pub content_encoding: Option<String>,
    /// `false` to leave the contents of objects out of the signatures, which saves a hash of all data.
    #[serde(default = "sign_payload")]
    pub sign_payload: bool,
    /// Checksum of objects and of their parts, which the server compares and stores. Default: `crc32`, or `none` with
    /// `endpoint`.
    pub checksum: Option<Checksum>,
    /// TLS settings for URLs with `https`. Default: the server's certificate is verified with the root certificates of
    /// the system.
    pub tls: Option<Tls>,
    /// Maximum time from the first byte of a request to the last byte of its response.
    #[serde(default = "timeout")]
    pub timeout: Interval,
    /// Maximum time to connect.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Interval,
    /// Maximum number of requests at the same time.
    #[serde(default = "max_connections")]
    pub max_connections: NonZeroUsize,
    /// Time without a request after which a connection is closed.
    #[serde(default = "idle_timeout")]
    pub idle_timeout: Interval,
}

/// Limits at which an object is complete.
#[tremor_pdk::config]
#[derive(Clone, Copy)]
pub struct Rotate {
    /// Length of the events of an object, before compression, at which the object is complete. It contains whole
    /// deliveries, so it may be longer by less than one delivery.
    #[serde(default = "max_bytes")]
    pub max_bytes: Size,
    /// Maximum age of an object. Events are acknowledged when their object is stored.
    #[serde(default = "every")]
    pub every: Interval,
}

impl Default for Rotate {
    fn default() -> Self {
        Self { max_bytes: max_bytes(), every: every() }
    }
}

/// Compression of the objects.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Determined by the end of `key`: `.gz` for gzip, `.zst` for Zstandard, and any other for no compression.
    #[default]
    Auto,
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// Checksum of objects and of their parts.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// No checksum. The server may compute one by itself.
    None,
    /// CRC-32.
    Crc32,
}

/// Encryption of objects by the server.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// A key that S3 manages.
    #[serde(rename = "AES256")]
    Aes256,
    /// A key of the Key Management Service.
    #[serde(rename = "aws:kms")]
    Kms,
    /// Two layers of encryption with a key of the Key Management Service.
    #[serde(rename = "aws:kms:dsse")]
    KmsDsse,
}

impl Encryption {
    /// Returns the value of the header `x-amz-server-side-encryption`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Aes256 => "AES256",
            Self::Kms => "aws:kms",
            Self::KmsDsse => "aws:kms:dsse",
        }
    }
}

/// Source of the keys with which requests are signed.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "snake_case")]
pub enum Credentials {
    /// These keys.
    Keys(AccessKeys),
    /// The environment variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    Environment,
    /// A file with credentials in the format of AWS.
    File(CredentialsFile),
    /// The endpoint of the container, which the environment variables `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI` or
    /// `AWS_CONTAINER_CREDENTIALS_FULL_URI` name.
    Container,
    /// The role that the environment variable `AWS_ROLE_ARN` names, with the token in the file that
    /// `AWS_WEB_IDENTITY_TOKEN_FILE` names.
    WebIdentity,
    /// The metadata service of an EC2 instance.
    Instance(Instance),
}

/// Keys with which requests are signed.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct AccessKeys {
    /// The access key ID.
    pub access_key_id: String,
    /// The secret access key.
    #[schemars(extend("writeOnly" = true))]
    pub secret_access_key: String,
    /// The session token of temporary keys.
    #[schemars(extend("writeOnly" = true))]
    pub session_token: Option<String>,
}

/// A file with credentials in the format of AWS.
#[tremor_pdk::config]
#[derive(Clone, Default)]
pub struct CredentialsFile {
    /// Path of the file. A relative path is resolved against the folder of the flow file. Default: the environment
    /// variable `AWS_SHARED_CREDENTIALS_FILE`, or `~/.aws/credentials`.
    pub path: Option<PathBuf>,
    /// The section of the file. Default: the environment variable `AWS_PROFILE`, or `default`.
    pub profile: Option<String>,
}

/// The metadata service of an EC2 instance.
#[tremor_pdk::config]
#[derive(Clone, Default)]
pub struct Instance {
    /// URL of the service. Default: the environment variable `AWS_EC2_METADATA_SERVICE_ENDPOINT`, or
    /// `http://169.254.169.254`.
    pub endpoint: Option<String>,
}

const fn max_bytes() -> Size {
    Size::of_bytes(64 << 20)
}

const fn every() -> Interval {
    Interval::of_ms(300_000)
}

fn max_open_objects() -> NonZeroUsize {
    NonZeroUsize::new(64).unwrap_or(NonZeroUsize::MIN)
}

const fn sign_payload() -> bool {
    true
}

const fn timeout() -> Interval {
    Interval::of_ms(60_000)
}

const fn connect_timeout() -> Interval {
    Interval::of_ms(10_000)
}

fn max_connections() -> NonZeroUsize {
    NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN)
}

const fn idle_timeout() -> Interval {
    // Servers of S3 close connections that are idle for longer.
    Interval::of_ms(20_000)
}
