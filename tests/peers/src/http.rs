//! Reading requests of HTTP.

use std::io::{self, BufRead, Read};

/// Reads the head of a request, up to its empty line.
///
/// # Errors
/// The connection has ended, or a read took too long.
pub fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Reads a request, and returns its body, whose length is in the header `Content-Length`. Returns `None` if the
/// connection has ended.
pub fn read_request(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let head = read_head(stream).ok()?;
    let length = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.strip_prefix("content-length:").map(|value| value.trim().parse())
    };
    let length = head.lines().find_map(length).unwrap_or(Ok(0)).ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}
