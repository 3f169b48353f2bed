//! Decompression of request bodies.

use std::io;

use hyper::{
    HeaderMap, StatusCode,
    header::{ACCEPT_ENCODING, TRANSFER_ENCODING},
};
use tremor_pdk::yield_now;

use super::{answer::Answer, content::Content, permit::Permit};
use crate::coding::{ACCEPTED, Coding};

/// Maximum number of bytes to decompress per step.
const STEP: usize = 64 << 10;

/// Number of steps before the task yields to other tasks.
const STEPS: usize = 4;

/// Returns the codings of a body in the order in which they have to be undone.
///
/// # Errors
/// The response to a request with an unsupported coding.
pub(crate) fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, Answer> {
    Coding::of(headers).map_err(|unsupported| {
        let text = format!("{unsupported}\n");
        if unsupported.header == TRANSFER_ENCODING {
            return Answer::bad(StatusCode::NOT_IMPLEMENTED, text).last();
        }
        Answer::bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with(ACCEPT_ENCODING, ACCEPTED).last()
    })
}

/// Undoes the codings of a body that has arrived completely.
///
/// # Errors
/// The response if the body is malformed, truncated or longer than `most` bytes after decoding.
pub(crate) async fn decode(
    codings: Vec<Coding>,
    mut body: Content,
    most: usize,
    permit: &mut Permit<'_>,
) -> Result<Content, Answer> {
    for coding in codings {
        if !body.is_empty() {
            // Boxed, because otherwise every connection would reserve memory for this future.
            body = Box::pin(read(coding, body, most, permit)).await?;
        }
    }
    Ok(body)
}

async fn read(
    coding: Coding,
    body: Content,
    most: usize,
    permit: &mut Permit<'_>,
) -> Result<Content, Answer> {
    let broken = |error: io::Error| {
        let text = format!("cannot decompress the body as {}: {error}\n", coding.name());
        Answer::bad(StatusCode::BAD_REQUEST, text)
    };
    let mut decoder = coding.reader(&body).map_err(broken)?;
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
        let count = decoder.read(&mut decoded[start..]).map_err(broken)?;
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

/// Returns the response to a body that is too long.
pub(crate) fn too_long(most: usize) -> Answer {
    let text = format!("the body exceeds {most} bytes (`max_body_bytes`)\n");
    Answer::bad(StatusCode::PAYLOAD_TOO_LARGE, text).last()
}
