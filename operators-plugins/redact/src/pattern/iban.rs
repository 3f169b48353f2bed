//! International bank account numbers.

use std::ops::Range;

/// Lengths of the numbers of each country, from the registry of SWIFT.
const LENGTHS: [(&[u8; 2], usize); 88] = [
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BI", 27),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DJ", 27),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FK", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HN", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MN", 20),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NI", 28),
    (b"NL", 18),
    (b"NO", 15),
    (b"OM", 23),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"RU", 33),
    (b"SA", 24),
    (b"SC", 31),
    (b"SD", 18),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"SO", 23),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
];

/// Returns the range of the first account number that begins at byte `from` or later, with or without a space or a
/// hyphen between two of its characters. Letters may be lowercase.
pub(super) fn find(text: &[u8], from: usize) -> Option<Range<usize>> {
    let last = text.len().checked_sub(4)?;
    (from..=last).find_map(|at| match text[at..at + 4] {
        [a, b, c, d]
            if a.is_ascii_alphabetic()
                && b.is_ascii_alphabetic()
                && c.is_ascii_digit()
                && d.is_ascii_digit() =>
        {
            let country = [a.to_ascii_uppercase(), b.to_ascii_uppercase()];
            let found = LENGTHS.iter().find(|(code, _)| **code == country);
            found.and_then(|(_, len)| end_of_account(text, at, *len)).map(|end| at..end)
        }
        _ => None,
    })
}

/// Returns the end of the account number of `len` letters and digits that begins at `at`, if its check digits are valid.
fn end_of_account(text: &[u8], at: usize, len: usize) -> Option<usize> {
    let (mut characters, mut count) = ([0_u8; 34], 0);
    let mut end = at;
    while count < len {
        match text.get(end)? {
            character if character.is_ascii_alphanumeric() => {
                *characters.get_mut(count)? = character.to_ascii_uppercase();
                count += 1;
            }
            b' ' | b'-' if text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric) => {}
            _ => return None,
        }
        end += 1;
    }
    let (country, account) = characters.get(..len)?.split_at_checked(4)?;
    let remainder = account.iter().chain(country).fold(0_u32, |remainder, character| {
        let value = match character {
            b'0'..=b'9' => u32::from(character - b'0'),
            _ => u32::from(character - b'A') + 10,
        };
        (remainder * if value > 9 { 100 } else { 10 } + value) % 97
    });
    (remainder == 1).then_some(end)
}
