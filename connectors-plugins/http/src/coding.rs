//! Codings of bodies: compression that `Content-Encoding` and `Transfer-Encoding` name.

use std::{
    fmt,
    io::{self, Read},
};

use flate2::{Decompress, FlushDecompress, Status, bufread::MultiGzDecoder};
use hyper::{
    HeaderMap,
    header::{CONTENT_ENCODING, HeaderName, HeaderValue, TRANSFER_ENCODING},
};

/// Value of `Accept-Encoding`: the codings that can be decoded.
pub(crate) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip, deflate, zstd");

/// Maximum window of zstd as a power of two: 8 MiB, as RFC 9659 requires.
const WINDOW_LOG: u32 = 23;

/// Maximum number of codings of a body. Each coding may expand the body to its maximum length.
const MOST: usize = 4;

/// Maximum number of bytes of an unknown coding's name that an error shows.
const SHOWN: usize = 40;

/// A coding that compresses a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Zstd,
}

/// A body has a coding that cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsupported {
    /// The header that names the coding.
    pub(crate) header: HeaderName,
    name: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { header, name } = self;
        let header =
            if header == CONTENT_ENCODING { "Content-Encoding" } else { "Transfer-Encoding" };
        write!(
            f,
            "the body has the `{header}` `{name}`; expected at most {MOST} of `gzip`, `deflate` and `zstd`"
        )
    }
}

impl Coding {
    /// Returns the codings of a body in the order in which they have to be undone: the last one
    /// that was applied is the first. Omits `identity`, and the `chunked` that hyper undoes.
    ///
    /// # Errors
    /// A coding cannot be decoded, or there are too many.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Vec<Self>, Unsupported> {
        let mut found = Vec::new();
        // Transfer codings are applied after content codings.
        for header in [CONTENT_ENCODING, TRANSFER_ENCODING] {
            let values = headers.get_all(&header).iter();
            let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
            let mut names: Vec<_> =
                names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()).collect();
            if header == TRANSFER_ENCODING {
                names.pop_if(|name| name.eq_ignore_ascii_case(b"chunked"));
            }
            for name in names {
                if name.eq_ignore_ascii_case(b"identity") {
                    continue;
                }
                let coding = Self::named(name).filter(|_| found.len() < MOST);
                found.push(coding.ok_or_else(|| {
                    let name = name[..name.len().min(SHOWN)].escape_ascii().to_string();
                    Unsupported { header: header.clone(), name }
                })?);
            }
        }
        found.reverse();
        Ok(found)
    }

    fn named(name: &[u8]) -> Option<Self> {
        let names = [
            (&b"gzip"[..], Self::Gzip),
            (b"x-gzip", Self::Gzip),
            (b"deflate", Self::Deflate),
            (b"zstd", Self::Zstd),
        ];
        let found = names.iter().find(|(it, _)| name.eq_ignore_ascii_case(it));
        found.map(|(_, coding)| *coding)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }

    /// Returns a reader of the decoded bytes of a complete body. The reader fails if the body is
    /// malformed or truncated, or has further bytes after its end.
    pub(crate) fn reader<'b>(self, body: &'b [u8]) -> io::Result<Box<dyn Read + Send + 'b>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(body)),
            Self::Deflate => Box::new(Inflate::new(body)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(body)?;
                decoder.window_log_max(WINDOW_LOG)?;
                Box::new(decoder)
            }
        })
    }
}

/// Decoder of `deflate`: data in the format of zlib, or the same data without the header and the
/// checksum of zlib, which some senders omit.
struct Inflate<'b> {
    remainder: &'b [u8],
    state: Decompress,
    has_ended: bool,
}

impl<'b> Inflate<'b> {
    fn new(body: &'b [u8]) -> Self {
        let is_zlib = body.first_chunk().is_some_and(|header: &[u8; 2]| {
            header[0] & 0x0f == 8 && u16::from_be_bytes(*header).is_multiple_of(31)
        });
        Self { remainder: body, state: Decompress::new(is_zlib), has_ended: false }
    }
}

impl Read for Inflate<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let (read, written) = (self.state.total_in(), self.state.total_out());
        if !self.has_ended {
            let status = self.state.decompress(self.remainder, to, FlushDecompress::None)?;
            let read = usize::try_from(self.state.total_in() - read).map_err(io::Error::other)?;
            self.remainder = &self.remainder[read..];
            self.has_ended = status == Status::StreamEnd;
        }
        match usize::try_from(self.state.total_out() - written).map_err(io::Error::other)? {
            0 if self.has_ended && !self.remainder.is_empty() => {
                Err(io::Error::other("further bytes follow the compressed data"))
            }
            0 if !self.has_ended && !to.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            written => Ok(written),
        }
    }
}

/// Undoes the codings of a body. Returns at most `most` bytes, whether there are more, and the
/// reason why bytes could not be decoded, if any. The bytes before that position are returned.
pub(crate) fn decode(
    codings: &[Coding],
    mut body: Vec<u8>,
    most: usize,
) -> (Vec<u8>, bool, Option<String>) {
    let (mut is_cut, mut why) = (false, None);
    for coding in codings {
        if body.is_empty() {
            break;
        }
        let mut decoded = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        let read = coding.reader(&body).and_then(|it| it.take(limit).read_to_end(&mut decoded));
        if let Err(error) = read {
            why.get_or_insert(format!("cannot decompress it as {}: {error}", coding.name()));
        }
        is_cut |= decoded.len() > most;
        decoded.truncate(most);
        body = decoded;
    }
    (body, is_cut, why)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };
    use hyper::{
        HeaderMap,
        header::{CONTENT_ENCODING, HeaderName, TRANSFER_ENCODING},
    };

    use super::{Coding, decode};

    fn of(headers: &[(HeaderName, &'static str)]) -> Result<Vec<Coding>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        Coding::of(&map).map_err(|error| error.to_string())
    }

    #[test]
    fn codings_are_undone_in_reverse_order() {
        use Coding::{Deflate, Gzip, Zstd};
        assert_eq!(of(&[]), Ok(vec![]));
        assert_eq!(of(&[(CONTENT_ENCODING, " X-GZip , identity,, ZSTD")]), Ok(vec![Zstd, Gzip]));
        let lines = [
            (TRANSFER_ENCODING, "gzip"),
            (CONTENT_ENCODING, "zstd"),
            (TRANSFER_ENCODING, "Chunked"),
            (CONTENT_ENCODING, "deflate"),
        ];
        assert_eq!(of(&lines), Ok(vec![Gzip, Deflate, Zstd]));
    }

    #[test]
    fn unsupported_coding_is_named() {
        let error = of(&[(CONTENT_ENCODING, "gzip, br")]).unwrap_err();
        assert!(error.contains("the `Content-Encoding` `br`; expected"), "{error}");
        let error = of(&[(TRANSFER_ENCODING, "chunked, chunked")]).unwrap_err();
        assert!(error.contains("the `Transfer-Encoding` `chunked`; expected"), "{error}");
        of(&[(CONTENT_ENCODING, "gzip, gzip, gzip, gzip")]).unwrap();
        of(&[(CONTENT_ENCODING, "gzip, gzip, gzip, gzip, gzip")]).unwrap_err();
    }

    /// Returns `text` in each format that a coding decodes.
    fn compressed(text: &[u8]) -> [(Coding, Vec<u8>); 4] {
        let level = Compression::fast();
        let mut gzip = GzEncoder::new(Vec::new(), level);
        let mut zlib = ZlibEncoder::new(Vec::new(), level);
        let mut raw = DeflateEncoder::new(Vec::new(), level);
        gzip.write_all(text).unwrap();
        zlib.write_all(text).unwrap();
        raw.write_all(text).unwrap();
        [
            (Coding::Gzip, gzip.finish().unwrap()),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Deflate, raw.finish().unwrap()),
            (Coding::Zstd, zstd::stream::encode_all(text, 1).unwrap()),
        ]
    }

    #[test]
    fn body_is_decoded_up_to_its_limit() {
        let text = b"a line of a log\n".repeat(9_000);
        for text in [&text[..], b"", b"x"] {
            for (coding, body) in compressed(text) {
                let decoded = decode(&[coding], body, text.len());
                assert_eq!(decoded, (text.to_vec(), false, None), "{coding:?}");
            }
        }
        for (coding, body) in compressed(&text) {
            let (decoded, is_cut, why) = decode(&[coding], body, 100);
            assert_eq!((&decoded[..], is_cut, why), (&text[..100], true, None), "{coding:?}");
        }
        assert_eq!(decode(&[Coding::Gzip], Vec::new(), 9), (Vec::new(), false, None));
    }

    #[test]
    fn truncated_and_trailing_bytes_are_errors() {
        let text = b"a line of a log\n".repeat(9_000);
        for (coding, body) in compressed(&text) {
            for end in [1, 2, body.len() / 2, body.len() - 1] {
                let why = decode(&[coding], body[..end].to_vec(), text.len()).2;
                assert!(why.unwrap().contains(coding.name()), "{coding:?} {end}");
            }
            let why = decode(&[coding], [&body[..], b"more"].concat(), text.len()).2;
            assert!(why.is_some(), "{coding:?}");
        }
        let twice = compressed(&compressed(b"twice")[3].1)[0].1.clone();
        let (body, ..) = decode(&[Coding::Gzip, Coding::Zstd], twice, 100);
        assert_eq!(body, b"twice");
    }
}
