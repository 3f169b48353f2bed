//! Decompression of request bodies.

use std::io::{self, Read};

use flate2::bufread::MultiGzDecoder;
use hyper::{
    HeaderMap, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue},
};
use tremor_pdk::yield_now;

use super::{answer::Answer, content::Content, permit::Permit};

/// Maximum number of bytes to decompress per step.
const STEP: usize = 64 << 10;

/// Number of steps before the task yields to other tasks.
const STEPS: usize = 4;

/// Maximum window of zstd as a power of two: 8 MiB, as RFC 9659 requires.
const WINDOW_LOG: u32 = 23;

/// Compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    /// Returns the encoding that the header `Content-Encoding` names.
    ///
    /// # Errors
    /// The response to a request with an unsupported encoding.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Answer> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let encoding = match (values.next(), values.next()) {
            (None, _) => Some(Self::Identity),
            (Some(one), None) => Self::named(one.as_bytes()),
            // More than one encoding is not supported.
            _ => None,
        };
        encoding.ok_or_else(|| {
            let text = "the body has a `Content-Encoding` other than `gzip` and `zstd`\n";
            Answer::bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
                .with(ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd"))
                .last()
        })
    }

    fn named(name: &[u8]) -> Option<Self> {
        let names = [
            (&b"identity"[..], Self::Identity),
            (b"gzip", Self::Gzip),
            (b"x-gzip", Self::Gzip),
            (b"zstd", Self::Zstd),
        ];
        let found = names.iter().find(|(it, _)| name.trim_ascii().eq_ignore_ascii_case(it));
        found.map(|(_, encoding)| *encoding)
    }

    /// Decodes a body that has arrived completely.
    ///
    /// # Errors
    /// The response if the body is malformed, truncated or longer than `most` bytes after decoding.
    pub(crate) async fn decode(
        self,
        body: Content,
        most: usize,
        permit: &mut Permit<'_>,
    ) -> Result<Content, Answer> {
        match self {
            Self::Identity => Ok(body),
            // Boxed, because otherwise every connection would reserve memory for this future.
            Self::Gzip => Box::pin(read(MultiGzDecoder::new(&*body), "gzip", most, permit)).await,
            Self::Zstd => {
                let decoder =
                    zstd::stream::read::Decoder::with_buffer(&*body).and_then(|mut it| {
                        it.window_log_max(WINDOW_LOG)?;
                        Ok(it)
                    });
                let decoder = decoder.map_err(|error| broken("zstd", &error))?;
                Box::pin(read(decoder, "zstd", most, permit)).await
            }
        }
    }
}

async fn read(
    mut decoder: impl Read + Send,
    name: &str,
    most: usize,
    permit: &mut Permit<'_>,
) -> Result<Content, Answer> {
    let mut decoded = Vec::new();
    let mut available = 0;
    for step in 1_usize.. {
        let start = decoded.len();
        if start > most {
            return Err(too_long(most));
        }
        let end = start + STEP.min(most + 1 - start);
        if end > available {
            permit.grow(end - available).await?;
            available = end;
        }
        decoded.resize(end, 0);
        let count = match decoder.read(&mut decoded[start..]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(broken(name, &error)),
        };
        decoded.truncate(start + count);
        if count == 0 {
            break;
        }
        if step.is_multiple_of(STEPS) {
            yield_now().await;
        }
    }
    Ok(Content::Whole(decoded))
}

fn broken(name: &str, error: &io::Error) -> Answer {
    Answer::bad(StatusCode::BAD_REQUEST, format!("cannot decompress the body as {name}: {error}\n"))
}

/// Returns the response to a body that is too long.
pub(crate) fn too_long(most: usize) -> Answer {
    let text = format!("the body exceeds {most} bytes (`max_body_bytes`)\n");
    Answer::bad(StatusCode::PAYLOAD_TOO_LARGE, text).last()
}
