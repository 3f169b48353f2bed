//! Search for and removal of an incomplete message at the end of a file.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
};

use memchr::memmem;

use super::{
    location::Folder,
    rotation::{TORN, stamp},
};

/// Number of bytes to read and search at a time.
const BLOCK: u64 = 64 << 10;

/// Returns the position after the last `message_end` in the first `length` bytes of the file, or 0
/// if there is none.
pub(super) fn end_of_last_message(file: &File, length: u64, message_end: &[u8]) -> io::Result<u64> {
    let finder = memmem::FinderRev::new(message_end);
    let overlap = message_end.len() as u64 - 1;
    let mut block = Vec::new();
    let mut to = length;
    while to > 0 {
        let from = to.saturating_sub(BLOCK);
        // A terminator may span two blocks.
        let until = (to + overlap).min(length);
        block.resize(usize::try_from(until - from).unwrap_or_default(), 0);
        file.read_exact_at(&mut block, from)?;
        if let Some(at) = finder.rfind(&block) {
            return Ok(from + (at + message_end.len()) as u64);
        }
        to = from;
    }
    Ok(0)
}

/// Copies `part` of the file to a new file in its folder, whose name is that of the file plus `.torn-` and the time in
/// UTC. The copy is durable when this function returns.
pub(super) fn set_aside(
    mut file: &File,
    part: Range<u64>,
    folder: &Folder<'_>,
    now_ns: u64,
) -> io::Result<PathBuf> {
    let (aside, mut copy) = create_aside(folder, now_ns / 1_000_000)?;
    let mut copy_part = || {
        file.seek(SeekFrom::Start(part.start))?;
        let length = part.end - part.start;
        if io::copy(&mut file.take(length), &mut copy)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        copy.sync_all()?;
        folder.sync()
    };
    match copy_part() {
        Ok(()) => Ok(folder.path_of(&aside)),
        Err(error) => {
            // Ignore an error: the next attempt creates another copy, so a remaining copy does no
            // harm.
            let _ = folder.remove(&aside);
            Err(error)
        }
    }
}

/// Creates a file that did not exist.
fn create_aside(folder: &Folder<'_>, mut ms: u64) -> io::Result<(OsString, File)> {
    loop {
        let mut aside = folder.name();
        aside.push(format!("{TORN}{}", stamp(ms)));
        match folder.create_new(&aside) {
            Ok(file) => return Ok((aside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ms += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Removes the last `torn` bytes of the file, which this process has just written.
///
/// # Errors
/// Fails if the file is not a regular file, or if another process has written after these bytes.
pub(super) fn cut_off(mut file: &File, torn: u64) -> io::Result<()> {
    let position = file.stream_position()?;
    if file.metadata()?.len() != position {
        return Err(io::Error::other("another process writes to the file as well"));
    }
    let end = position.saturating_sub(torn);
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        io::Write,
    };

    use super::{BLOCK, cut_off, end_of_last_message};

    #[test]
    fn last_terminator_is_found_across_blocks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let block = usize::try_from(BLOCK).unwrap();
        for end in ["\n", "\r\n", "--end--"] {
            for torn in [0, 1, block - 2, block - 1, block, block + 1, 3 * block] {
                let text = format!("one{end}two{end}{}", "x".repeat(torn));
                fs::write(file.path(), &text).unwrap();
                let found = end_of_last_message(file.as_file(), text.len() as u64, end.as_bytes());
                assert_eq!(found.unwrap(), (text.len() - torn) as u64, "{end:?}, {torn} bytes");
            }
        }
    }

    #[test]
    fn file_without_terminator_ends_at_zero() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["", "torn", "\r"] {
            fs::write(file.path(), text).unwrap();
            let found = end_of_last_message(file.as_file(), text.len() as u64, b"\r\n");
            assert_eq!(found.unwrap(), 0, "{text:?}");
        }
    }

    #[test]
    fn incomplete_message_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        for append in [false, true] {
            let path = folder.path().join(format!("append-{append}"));
            let mut options = OpenOptions::new();
            let mut file = options.write(true).append(append).create(true).open(&path).unwrap();
            file.write_all(b"whole\npar").unwrap();
            cut_off(&file, 3).unwrap();
            file.write_all(b"part\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "whole\npart\n");
        }
    }

    #[test]
    fn data_of_another_writer_is_not_removed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut ours = OpenOptions::new().append(true).open(file.path()).unwrap();
        ours.write_all(b"par").unwrap();
        OpenOptions::new().append(true).open(file.path()).unwrap().write_all(b"theirs").unwrap();
        cut_off(&ours, 3).unwrap_err();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "partheirs");
    }
}
