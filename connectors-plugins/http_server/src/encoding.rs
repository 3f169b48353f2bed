//! Bodies that are compressed.

use std::io::{self, Read};

use flate2::bufread::MultiGzDecoder;
use hyper::{
    HeaderMap, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue},
};
use tremor_pdk::yield_now;

use crate::{answer::Answer, content::Content, place::Place};

/// How much is decompressed at once, in bytes.
const STEP: usize = 64 << 10;

/// How many steps there are before others have their turn.
const STEPS: usize = 4;

/// The largest window of zstd, as a power of two: 8 MiB, as RFC 9659 wants it.
const WINDOW_LOG: u32 = 23;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    /// # Errors
    /// The answer to a request that has another one.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Answer> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let encoding = match (values.next(), values.next()) {
            (None, _) => Some(Self::Identity),
            (Some(one), None) => Self::named(one.as_bytes()),
            // Encoded more than once.
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

    /// Decodes a body that has come as a whole.
    ///
    /// # Errors
    /// The answer: it is no such thing, is cut short, or has more than `most` bytes.
    pub(crate) async fn decode(
        self,
        body: Content,
        most: usize,
        room: &mut Place<'_>,
    ) -> Result<Content, Answer> {
        match self {
            Self::Identity => Ok(body),
            // In a box: there is a place for what a request needs in each connection.
            Self::Gzip => Box::pin(read(MultiGzDecoder::new(&*body), "gzip", most, room)).await,
            Self::Zstd => {
                let decoder =
                    zstd::stream::read::Decoder::with_buffer(&*body).and_then(|mut it| {
                        it.window_log_max(WINDOW_LOG)?;
                        Ok(it)
                    });
                let decoder = decoder.map_err(|error| broken("zstd", &error))?;
                Box::pin(read(decoder, "zstd", most, room)).await
            }
        }
    }
}

async fn read(
    mut decoder: impl Read + Send,
    name: &str,
    most: usize,
    room: &mut Place<'_>,
) -> Result<Content, Answer> {
    let mut decoded = Vec::new();
    let mut has_room = 0;
    for step in 1_usize.. {
        let start = decoded.len();
        if start > most {
            return Err(too_long(most));
        }
        let end = start + STEP.min(most + 1 - start);
        if end > has_room {
            room.grow(end - has_room).await?;
            has_room = end;
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
    Answer::bad(
        StatusCode::BAD_REQUEST,
        format!("the body cannot be decompressed as {name}: {error}\n"),
    )
}

/// The answer to a body that is too long.
pub(crate) fn too_long(most: usize) -> Answer {
    let text = format!("the body has more than {most} bytes (`max_body_bytes`)\n");
    Answer::bad(StatusCode::PAYLOAD_TOO_LARGE, text).last()
}
