//! Reads the text of a flow file.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{diagnostic::Diagnostic, limits::Limits, source::Source};

/// Reads a file. A file that cannot be a flow file is rejected before it is parsed.
pub(super) fn read(path: &Path, limits: &Limits) -> Result<Arc<Source>, Diagnostic> {
    let reject = |message: String| {
        Diagnostic::of_file(Source::new(path.to_path_buf(), String::new()), message)
    };
    let mut bytes = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(limits.max_file_bytes + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(reject("there is no such file".into())
                .help("give the path of a flow file, relative to the current folder"));
        }
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            return Err(reject("this is a folder, not a flow file".into())
                .help("give the path of a file in it"));
        }
        Err(error) => return Err(reject(format!("cannot read the file: {error}"))),
    }
    if bytes.len() as u64 > limits.max_file_bytes {
        return Err(reject(format!(
            "the file is larger than {} bytes, the limit for a flow file",
            limits.max_file_bytes
        ))
        .help("data belongs in files of its own, which connectors read"));
    }
    decode(path, bytes)
}

fn decode(path: &Path, bytes: Vec<u8>) -> Result<Arc<Source>, Diagnostic> {
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    match String::from_utf8(bytes) {
        Ok(text) => {
            // A byte order mark is permitted, and does not count as a character of the first line.
            let text = text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text);
            Ok(Source::new(path.to_path_buf(), text))
        }
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let bytes = error.into_bytes();
            let byte = bytes[valid];
            let before = String::from_utf8_lossy(&bytes[..valid]).into_owned();
            let source =
                Source::new(path.to_path_buf(), String::from_utf8_lossy(&bytes).into_owned());
            let at = Source::new(PathBuf::new(), before).end();
            let message = if utf16 {
                "the file is UTF-16: expected UTF-8".to_owned()
            } else {
                format!("the file is not UTF-8: byte 0x{byte:02x} is not valid here")
            };
            Err(Diagnostic::error(source, at, message).help("save the file as UTF-8"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_mark_is_ignored() {
        let source = decode(Path::new("f"), b"\xef\xbb\xbflinks: []".to_vec()).expect("valid");
        assert_eq!(source.line(1), "links: []");
    }
}
