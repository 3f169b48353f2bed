//! Lines of equal length, each of which starts with a number of twenty digits.

use std::io::Write;

use crate::Result;

/// Number of bytes of a line, including the line feed.
pub(crate) const LINE: usize = 630;
/// Number of digits of a line's number.
const DIGITS: usize = 20;

/// Returns a line with this number.
pub(crate) fn line(number: u64) -> Vec<u8> {
    let mut line = vec![b'x'; LINE];
    line[LINE - 1] = b'\n';
    line[DIGITS] = b' ';
    renumber(&mut line, number);
    line
}

/// Changes the number of a line.
pub(crate) fn renumber(mut line: &mut [u8], number: u64) {
    // Writing cannot fail, because the line has space for all digits.
    let _ = write!(line, "{number:020}");
}

/// Returns `count` lines with the same number.
pub(crate) fn lines(number: u64, count: usize) -> Vec<u8> {
    line(number).repeat(count)
}

/// Returns the number of a line.
///
/// # Errors
/// The text is not such a line.
pub(crate) fn number(line: &[u8]) -> Result<u64> {
    let digits = line.get(..DIGITS).filter(|_| line.len() == LINE);
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.ok_or_else(|| format!("invalid line: {:?}", String::from_utf8_lossy(line)).into())
}

/// Splits received bytes into lines.
#[derive(Default)]
pub(crate) struct Cutter(Vec<u8>);

impl Cutter {
    /// Calls `take` with each complete line.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result,
    ) -> Result {
        if !self.0.is_empty() {
            let missing = (LINE - self.0.len()).min(bytes.len());
            let (end, rest) = bytes.split_at(missing);
            self.0.extend_from_slice(end);
            bytes = rest;
            if self.0.len() < LINE {
                return Ok(());
            }
            take(&self.0)?;
            self.0.clear();
        }
        let mut whole = bytes.chunks_exact(LINE);
        whole.by_ref().try_for_each(take)?;
        self.0.extend_from_slice(whole.remainder());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_chunks_of_any_length() {
        let bytes: Vec<u8> = (0..7).flat_map(line).collect();
        for length in [1, 7, LINE - 1, LINE, LINE + 1, 3 * LINE, bytes.len()] {
            let (mut cutter, mut found) = (Cutter::default(), Vec::new());
            for chunk in bytes.chunks(length) {
                let fed = cutter.feed(chunk, |line| {
                    found.push(number(line)?);
                    Ok(())
                });
                fed.unwrap();
            }
            assert_eq!(found, (0..7).collect::<Vec<_>>(), "in pieces of {length} bytes");
        }
        assert!(number(b"no line\n").is_err());
    }
}
