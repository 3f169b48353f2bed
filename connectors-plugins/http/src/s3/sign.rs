//! Signatures of requests: [Signature Version 4][1] of AWS, in the header `Authorization`.
//!
//! [1]: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::Crc;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::exchange::percent_encode;

/// Value of `x-amz-content-sha256` of a request whose body is not signed.
pub(super) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// SHA-256 of an empty body.
pub(super) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Keys with which requests are signed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
    /// Token of temporary keys, which is sent in `x-amz-security-token`.
    pub(super) session_token: Option<String>,
}

/// A request, as far as the signature covers it.
pub(super) struct Canonical<'r> {
    pub(super) method: &'r str,
    /// Path, percent-encoded by [`encode_path`].
    pub(super) path: &'r str,
    /// Query, made by [`query`].
    pub(super) query: &'r str,
    /// Names in lowercase, and values.
    pub(super) headers: Vec<(&'r str, &'r str)>,
    /// SHA-256 of the body in hexadecimal, or [`UNSIGNED`].
    pub(super) body: &'r str,
}

impl Canonical<'_> {
    /// Returns the value of `Authorization`. `stamp` is the value of the header `x-amz-date`.
    pub(super) fn authorization(mut self, keys: &Keys, region: &str, stamp: &str) -> String {
        self.headers.sort_unstable();
        let names: Vec<_> = self.headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let mut text = format!("{}\n{}\n{}\n", self.method, self.path, self.query);
        for (name, value) in &self.headers {
            let _ = writeln!(text, "{name}:{}", value.trim());
        }
        let _ = write!(text, "\n{names}\n{}", self.body);
        let day = stamp.get(..8).unwrap_or(stamp);
        let scope = format!("{day}/{region}/s3/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", sha256(text.as_bytes()));
        let mut key = hmac(format!("AWS4{}", keys.secret_access_key).as_bytes(), day);
        for part in [region, "s3", "aws4_request"] {
            key = hmac(&key, part);
        }
        let signature = hex(&hmac(&key, &text));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
            keys.access_key_id
        )
    }
}

/// Returns the path of a URL for an object: `/`, and the percent-encoded segments of `path`.
pub(super) fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 8);
    for segment in path.split('/') {
        out.push('/');
        let at = out.len();
        out.push_str(segment);
        percent_encode(&mut out, at);
    }
    out
}

/// Returns the query of a URL in the form that is signed: percent-encoded and sorted.
pub(super) fn query(parameters: &[(&str, &str)]) -> String {
    let mut parameters: Vec<_> = parameters
        .iter()
        .map(|(name, value)| {
            let mut pair = format!("{name}=");
            let at = pair.len();
            pair.push_str(value);
            percent_encode(&mut pair, at);
            pair
        })
        .collect();
    parameters.sort_unstable();
    parameters.join("&")
}

/// Returns the SHA-256 of `bytes` in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the CRC-32 of an object or a part, as headers have it.
pub(super) fn checksum(bytes: &[u8]) -> String {
    let mut crc = Crc::new();
    crc.update(bytes);
    STANDARD.encode(crc.sum().to_be_bytes())
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Canonical, EMPTY, Keys, encode_path, query, sha256};

    /// Returns the keys with which AWS signs the examples of its documentation.
    fn keys() -> Keys {
        Keys {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        }
    }

    fn signature(
        method: &str,
        path: &str,
        parameters: &[(&str, &str)],
        body: &str,
        headers: &[(&'static str, &'static str)],
    ) -> String {
        let (stamp, path, query) = ("20130524T000000Z", encode_path(path), query(parameters));
        let mut headers = headers.to_vec();
        headers.push(("host", "examplebucket.s3.amazonaws.com"));
        let all = [("x-amz-content-sha256", body), ("x-amz-date", stamp)];
        let headers = headers.into_iter().chain(all).collect();
        let request = Canonical { method, path: &path, query: &query, headers, body };
        let authorization = request.authorization(&keys(), "us-east-1", stamp);
        let scope =
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=";
        assert!(authorization.starts_with(&format!("AWS4-HMAC-SHA256 {scope}")), "{authorization}");
        authorization.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    #[test]
    fn signatures_are_those_of_the_examples_of_aws() {
        assert_eq!(
            signature("GET", "test.txt", &[], EMPTY, &[("range", "bytes=0-9")]),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let headers = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let body = sha256(b"Welcome to Amazon S3.");
        assert_eq!(
            signature("PUT", "test$file.text", &[], &body, &headers),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        assert_eq!(
            signature("GET", "", &[("lifecycle", "")], EMPTY, &[]),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("GET", "", &[("prefix", "J"), ("max-keys", "2")], EMPTY, &[]),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn path_keeps_slashes_and_encodes_all_other_marks() {
        assert_eq!(encode_path("a b/c+d=e/ä"), "/a%20b/c%2Bd%3De/%C3%A4");
        assert_eq!(
            query(&[("uploadId", "a/b+c=="), ("partNumber", "2")]),
            "partNumber=2&uploadId=a%2Fb%2Bc%3D%3D"
        );
    }
}
