//! Numbers of payment cards.

use std::ops::Range;

/// Lengths of the numbers of cards, in digits.
const LENGTHS: std::ops::RangeInclusive<usize> = 12..=19;

/// Returns the range of the first number of a card that begins at byte `from` or later.
///
/// A number is a group of digits, or several groups with a space or a hyphen between two of them. It begins and ends
/// with a group, so a longer number that contains the digits of a card is not found.
pub(super) fn find(text: &[u8], from: usize) -> Option<Range<usize>> {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = from;
    loop {
        at += text.get(at..)?.iter().position(u8::is_ascii_digit)?;
        if (at == 0 || !is_digit(at - 1))
            && let Some(end) = end_of_card(text, at)
        {
            return Some(at..end);
        }
        while is_digit(at) {
            at += 1;
        }
    }
}

/// Returns the end of the longest number of a card that begins at `at`.
fn end_of_card(text: &[u8], at: usize) -> Option<usize> {
    let (mut digits, mut count) = ([0_u8; *LENGTHS.end()], 0);
    let (mut end, mut found) = (at, None);
    while count < digits.len() {
        match text.get(end) {
            Some(digit @ b'0'..=b'9') => {
                digits[count] = digit - b'0';
                count += 1;
                end += 1;
                let ends_here = !text.get(end).is_some_and(u8::is_ascii_digit);
                if ends_here && LENGTHS.contains(&count) && is_card(&digits[..count]) {
                    found = Some(end);
                }
            }
            Some(b' ' | b'-') if text.get(end + 1).is_some_and(u8::is_ascii_digit) => end += 1,
            _ => break,
        }
    }
    found
}

/// Returns whether a network of cards issues numbers with this beginning and length, and the check digit is valid.
fn is_card(digits: &[u8]) -> bool {
    let prefix = |len: usize| {
        digits.iter().take(len).fold(0_u32, |number, digit| number * 10 + u32::from(*digit))
    };
    let (two, three, four) = (prefix(2), prefix(3), prefix(4));
    let is_issued = match digits.len() {
        // Visa; Mastercard; RuPay and Troy; Mir.
        16 if matches!(two, 40..=49 | 51..=55 | 82) => true,
        16 if matches!(four, 2221..=2720 | 9792) => true,
        13 | 19 if two / 10 == 4 => true,
        16..=19 if matches!(four, 2200..=2204) => true,
        // American Express.
        15 if matches!(two, 34 | 37) => true,
        // Diners Club.
        14..=19 if matches!(two, 36 | 38 | 39) || matches!(three, 300..=305 | 309) => true,
        // JCB; UnionPay, whose numbers that begin with 62 are among those of Maestro.
        16..=19 if matches!(four, 3528..=3589) || two == 81 => true,
        // Maestro, Discover, UnionPay, RuPay.
        12..=19 => matches!(two, 50 | 56..=58 | 60..=69),
        _ => false,
    };
    is_issued && has_check_digit(digits)
}

/// Checks the last digit by the algorithm of Luhn.
fn has_check_digit(digits: &[u8]) -> bool {
    let sum = digits.iter().rev().enumerate().fold(0_u32, |sum, (position, digit)| {
        let digit = u32::from(*digit);
        let doubled = if position % 2 == 1 { digit * 2 } else { digit };
        sum + doubled / 10 + doubled % 10
    });
    sum.is_multiple_of(10)
}
