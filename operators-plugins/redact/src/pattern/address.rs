//! IP addresses.

use std::{net::Ipv6Addr, ops::Range};

/// Maximum length of a text that is tried as an IPv6 address, in bytes: the longest address, and a port.
const MAX_IPV6: usize = 64;

/// Returns the range of the first IPv4 address that begins at byte `from` or later: four numbers of at most 255, with
/// points between them, that do not begin or end within a longer number.
pub(super) fn find_ipv4(text: &[u8], from: usize) -> Option<Range<usize>> {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = from;
    loop {
        at += text.get(at..)?.iter().position(u8::is_ascii_digit)?;
        if (at == 0 || !is_digit(at - 1))
            && let Some(end) = end_of_ipv4(text, at)
        {
            return Some(at..end);
        }
        while is_digit(at) {
            at += 1;
        }
    }
}

fn end_of_ipv4(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    for number in 0..4 {
        if number > 0 {
            (text.get(end) == Some(&b'.')).then_some(())?;
            end += 1;
        }
        let digits = text.get(end..)?.iter().take(4).take_while(|byte| byte.is_ascii_digit());
        let (mut value, mut len) = (0_u32, 0);
        for digit in digits {
            value = value * 10 + u32::from(digit - b'0');
            len += 1;
        }
        (len > 0 && len < 4 && value < 256).then_some(())?;
        end += len;
    }
    Some(end)
}

/// Returns the range of the first IPv6 address that begins at byte `from` or later, without the port and the brackets.
pub(super) fn find_ipv6(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let mut at = from;
    loop {
        let colon = at + memchr::memchr(b':', bytes.get(at..)?)?;
        let before = bytes[at..colon].iter().rev().take_while(|byte| is_part(byte)).count();
        let after = bytes[colon..].iter().take_while(|byte| is_part(byte)).count();
        let run = colon - before..colon + after;
        at = run.end;
        // Behind a word such as `IPv6:`, whose end may look like the beginning of an address, the address begins after
        // the colon.
        let starts = [run.start, colon + 1];
        let found = starts.into_iter().find_map(|start| address_in(text, start..run.end));
        if found.is_some() {
            return found;
        }
    }
}

/// Returns the range of the address at the beginning of a run of hexadecimal digits, colons and points.
fn address_in(text: &str, run: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_behind_word = run.start > 0 && is_word(bytes.get(run.start - 1)?);
    let shown = text.get(run.clone())?;
    let start = match shown.strip_prefix(':') {
        // The colon after a word is not a part of the address.
        Some(rest) if !rest.starts_with(':') => run.start + 1,
        _ if is_behind_word => return None,
        _ => run.start,
    };
    let shown = text.get(start..run.end)?;
    let is_single_colon = |text: &str| text.ends_with(':') && !text.ends_with("::");
    let shown = shown.trim_end_matches('.');
    let shown = if is_single_colon(shown) { &shown[..shown.len() - 1] } else { shown };
    let without_port = shown.rsplit_once(':').map(|(address, _)| address);
    let candidates = [Some(shown), without_port].into_iter().flatten();
    let is_address = |text: &&str| {
        let end = start + text.len();
        text.len() <= MAX_IPV6
            && text.bytes().any(|byte| byte.is_ascii_hexdigit())
            && !bytes.get(end).is_some_and(is_word)
            && text.parse::<Ipv6Addr>().is_ok()
    };
    candidates.into_iter().find(is_address).map(|address| start..start + address.len())
}
