//! Splits the output of `journalctl` into entries, and finds their cursors.

use std::{io, ops::Range};

use memchr::{memchr, memmem};
use tremor_pdk::Memory;

/// Maximum number of bytes per read: the capacity of a pipe.
pub(crate) const READ: usize = 64 << 10;

/// Bytes that were read from `journalctl`. Each line is an entry.
pub(crate) struct Entries {
    /// The buffer, which is initialised to its end.
    bytes: Vec<u8>,
    /// The bytes that are neither returned nor discarded.
    filled: Range<usize>,
    /// Position up to which the bytes are known to contain no further end of a line.
    scanned: usize,
    /// Range of the first entry, once it is complete.
    first: Option<Range<usize>>,
    max_entry: usize,
    /// `true` after the start of an entry that is too long was returned, so that the remainder has
    /// to be discarded.
    discards: bool,
    /// Number of entries of which only the start was returned.
    truncated: u64,
    memory: Memory,
}

impl Entries {
    pub(crate) fn new(max_entry: usize, memory: Memory) -> Self {
        Self {
            bytes: Vec::new(),
            filled: 0..0,
            scanned: 0,
            first: None,
            max_entry,
            discards: false,
            truncated: 0,
            memory,
        }
    }

    /// Discards all bytes.
    pub(crate) fn clear(&mut self) {
        (self.filled, self.scanned, self.first, self.discards) = (0..0, 0, None, false);
    }

    /// Passes free space of the buffer to `read`, which returns the number of bytes that it has written. Returns this
    /// number.
    pub(crate) fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.make_space();
        let end = self.filled.end;
        let count = read(&mut self.bytes[end..end + READ])?;
        self.filled.end += count;
        Ok(count)
    }

    /// Makes space for one read after the filled bytes.
    fn make_space(&mut self) {
        let Range { start, end } = self.filled;
        if start > 0 {
            self.bytes.copy_within(start..end, 0);
            self.filled = 0..end - start;
            self.scanned -= start;
            self.first = self.first.take().map(|it| it.start - start..it.end - start);
        }
        let needed = self.filled.end + READ;
        if self.bytes.len() < needed {
            // Double the length, so that the bytes of a long entry are copied only a few times.
            self.bytes.resize(needed.next_power_of_two(), 0);
        } else if self.filled.is_empty() && self.bytes.len() > 4 * READ {
            self.bytes = vec![0; READ];
        }
        self.memory.resize(self.bytes.capacity());
    }

    /// Returns the first entry, or `None` if no complete entry is buffered. Returns only the start
    /// of an entry that is too long.
    pub(crate) fn first(&mut self) -> Option<&[u8]> {
        while self.first.is_none() {
            let unscanned = self.scanned..self.filled.end;
            let end = memchr(b'\n', &self.bytes[unscanned.clone()]).map(|at| unscanned.start + at);
            self.scanned = end.map_or(unscanned.end, |end| end + 1);
            let start = self.filled.start;
            let length = end.unwrap_or(unscanned.end) - start;
            if self.discards {
                self.filled.start = self.scanned;
                self.discards = end.is_none();
            } else if length > self.max_entry {
                self.truncated += 1;
                self.discards = end.is_none();
                self.first = Some(start..start + self.max_entry);
            } else if let Some(end) = end {
                if length == 0 {
                    self.filled.start = self.scanned;
                } else {
                    self.first = Some(start..end);
                }
            }
            if end.is_none() && self.first.is_none() {
                return None;
            }
        }
        self.first.clone().map(|range| &self.bytes[range])
    }

    /// Removes the entry that [`Entries::first`] has returned.
    pub(crate) fn remove_first(&mut self) {
        self.first = None;
        self.filled.start = self.scanned;
    }

    /// Returns the number of entries that were truncated since the last call.
    pub(crate) fn take_truncated(&mut self) -> u64 {
        std::mem::take(&mut self.truncated)
    }
}

/// Returns the cursor of an entry in JSON, or `None` if the entry has none.
///
/// The key `"__CURSOR"` can be anywhere in the entry, because `journalctl` writes the fields in
/// random order. Within a text, the quotation marks of the key would be escaped.
pub(crate) fn cursor(entry: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b"\"__CURSOR\"";
    memmem::find_iter(entry, KEY).find_map(|at| {
        // A text that equals the key is not followed by a colon.
        let value = entry[at + KEY.len()..].trim_ascii_start().strip_prefix(b":")?;
        let value = value.trim_ascii_start().strip_prefix(b"\"")?;
        let cursor = &value[..memchr(b'"', value)?];
        // Cursors consist of letters, digits, `=` and `;`. Nothing else may become an argument of `journalctl`.
        let is_plain = |c: &u8| c.is_ascii_graphic() && *c != b'\\';
        std::str::from_utf8(cursor)
            .ok()
            .filter(|it| !it.is_empty() && it.bytes().all(|c| is_plain(&c)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tremor_pdk::testing::TestHost;

    use super::{Entries, READ, cursor};

    /// Returns the entries of `pieces`, which are read one after the other.
    fn entries<'p>(max_entry: usize, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<Vec<u8>> {
        let host = TestHost::new();
        let mut entries = Entries::new(max_entry, host.host().memory());
        let mut all = Vec::new();
        for piece in pieces {
            let count = entries.fill(|space| {
                space[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            });
            assert_eq!(count.unwrap(), piece.len());
            while let Some(entry) = entries.first() {
                all.push(entry.to_owned());
                entries.remove_first();
            }
            assert!(entries.bytes.len() <= 2 * (max_entry + 2 * READ), "{}", entries.bytes.len());
        }
        all
    }

    #[test]
    fn long_entry_is_truncated_and_the_next_one_complete() {
        let pieces: [&[u8]; 5] =
            [b"ab\n\ncdef", b"ghi", b"jk\nlm\nnopqr", b"s\n", b"tuvwx\ny\nhalf"];
        let expected: [&[u8]; 6] = [b"ab", b"cdef", b"lm", b"nopq", b"tuvw", b"y"];
        assert_eq!(entries(4, pieces), expected);
    }

    #[test]
    fn cursor_is_found_among_texts_that_look_like_it() {
        for (entry, expected) in [
            (r#"{"__CURSOR":"s=1;i=2","MESSAGE":"x"}"#, Some("s=1;i=2")),
            (r#"{ "MESSAGE" : "__CURSOR", "__CURSOR" : "s=3" }"#, Some("s=3")),
            (r#"{"MESSAGE":"\"__CURSOR\":\"s=4\"","__CURSOR":"s=5"}"#, Some("s=5")),
            (r#"{"MESSAGE":"\"__CURSOR\":\"s=4\""}"#, None),
            (r#"{"__CURSOR":null}"#, None),
            (r#"{"__CURSOR":"a b"}"#, None),
            (r#"{"__CURSOR":"s=1"#, None),
            ("", None),
        ] {
            assert_eq!(cursor(entry.as_bytes()), expected, "{entry}");
        }
    }

    proptest! {
        #[test]
        fn entries_do_not_depend_on_how_output_is_read(
            text in "[a-c\n]{0,40}",
            size in 1_usize..10,
            max_entry in 1_usize..6,
        ) {
            let lines = text.split_inclusive('\n').filter_map(|it| it.strip_suffix('\n'));
            let lines = lines.filter(|it| !it.is_empty());
            let mut expected: Vec<_> =
                lines.map(|it| it.as_bytes()[..it.len().min(max_entry)].to_vec()).collect();
            // The start of an entry is returned as soon as the entry is known to be too long.
            let partial = text.rsplit('\n').next().unwrap_or_default().as_bytes();
            if partial.len() > max_entry {
                expected.push(partial[..max_entry].to_vec());
            }
            prop_assert_eq!(entries(max_entry, text.as_bytes().chunks(size)), expected);
        }

        #[test]
        fn cursor_of_any_bytes_is_plain_text(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut entry = br#"{"__CURSOR":""#.to_vec();
            entry.extend(&bytes);
            for found in [cursor(&bytes), cursor(&entry)].into_iter().flatten() {
                prop_assert!(found.bytes().all(|c| c.is_ascii_graphic()));
            }
        }
    }
}
