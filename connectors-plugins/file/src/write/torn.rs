//! Where the last whole message of a file ends.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use memchr::memmem;

use super::rotation::stamp;
use crate::folder;

/// How much is looked at at once.
const BLOCK: u64 = 64 << 10;

/// The position after the last `message_end` of the file, which is so long. Zero where there is none.
pub(super) fn end_of_last_message(file: &File, length: u64, message_end: &[u8]) -> io::Result<u64> {
    let finder = memmem::FinderRev::new(message_end);
    let overlap = message_end.len() as u64 - 1;
    let mut block = Vec::new();
    let mut to = length;
    while to > 0 {
        let from = to.saturating_sub(BLOCK);
        // An end may lie across two blocks.
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

/// Copies this part of the file to a new one beside it: `path`, `.torn-` and the time, in UTC. It is on the
/// disk then.
pub(super) fn set_aside(
    mut file: &File,
    part: Range<u64>,
    path: &Path,
    now_ns: u64,
) -> io::Result<PathBuf> {
    let (aside, mut copy) = create_aside(path, now_ns / 1_000_000)?;
    let mut copy_part = || {
        file.seek(SeekFrom::Start(part.start))?;
        let length = part.end - part.start;
        if io::copy(&mut file.take(length), &mut copy)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        copy.sync_all()?;
        folder::sync_parent(&aside)
    };
    match copy_part() {
        Ok(()) => Ok(aside),
        Err(error) => {
            // Another attempt makes another one. That this one stays is no loss.
            let _ = fs::remove_file(&aside);
            Err(error)
        }
    }
}

/// A file that was not there yet.
fn create_aside(path: &Path, mut ms: u64) -> io::Result<(PathBuf, File)> {
    loop {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".torn-{}", stamp(ms)));
        let aside = path.with_file_name(name);
        match File::create_new(&aside) {
            Ok(file) => return Ok((aside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ms += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Takes the last `torn` bytes that were written off the file's end.
///
/// # Errors
/// Where it is no regular file, or another process has written after them.
pub(super) fn cut_off(mut file: &File, torn: u64) -> io::Result<()> {
    let position = file.stream_position()?;
    if file.metadata()?.len() != position {
        return Err(io::Error::other("somebody else writes to it as well"));
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
    fn a_message_ends_where_its_end_is_in_whatever_block() {
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
    fn a_file_without_a_whole_message_has_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["", "torn", "\r"] {
            fs::write(file.path(), text).unwrap();
            let found = end_of_last_message(file.as_file(), text.len() as u64, b"\r\n");
            assert_eq!(found.unwrap(), 0, "{text:?}");
        }
    }

    #[test]
    fn a_part_of_a_message_is_taken_off_again() {
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
    fn what_somebody_else_has_written_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut ours = OpenOptions::new().append(true).open(file.path()).unwrap();
        ours.write_all(b"par").unwrap();
        OpenOptions::new().append(true).open(file.path()).unwrap().write_all(b"theirs").unwrap();
        cut_off(&ours, 3).unwrap_err();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "partheirs");
    }
}
