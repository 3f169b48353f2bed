//! The lines: of nginx, with JSON in the message.

/// Bytes of a line, with its end.
pub(super) const LINE: usize = 630;
/// Lines of a block.
pub(super) const BLOCK: u64 = 10_000;

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz     ";

/// A block of lines, the same each time.
pub(super) fn block() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..BLOCK).flat_map(|number| line(number, &mut random)).collect()
}

fn line(number: u64, random: &mut fastrand::Rng) -> Vec<u8> {
    let second = number % 60;
    let head = format!(
        "<134>Nov 22 00:20:{second:02} web-{:02} nginx[{}]: @cee: ",
        number % 17,
        1_000 + number % 999
    );
    let level = random.choice(["info", "warn", "error"]).unwrap_or("info");
    let status = random.choice([200, 201, 404, 500]).unwrap_or(200);
    let address: [u8; 3] = [random.u8(..), random.u8(..), random.u8(..)];
    let json = format!(
        "{{\"ts\": \"2026-11-22T00:20:{second:02}.{:03}Z\", \"level\": \"{level}\", \"method\": \"GET\", \
         \"path\": \"/api/v1/items/{}\", \"status\": {status}, \"bytes\": {}, \"dur_ms\": {:.3}, \
         \"ip\": \"10.{}.{}.{}\", \"trace\": \"{:032x}\", \"user\": {{\"id\": {}, \"name\": \"user{number}\"}}, \
         \"msg\": \"",
        number % 1_000,
        random.u32(..1_000_000),
        random.u32(..100_000),
        random.f64() * 1_000.0,
        address[0],
        address[1],
        address[2],
        random.u128(..),
        random.u32(..100_000),
    );
    let end = "\"}\n";
    let mut line = format!("{head}{json}").into_bytes();
    while line.len() + end.len() < LINE {
        line.push(LETTERS[random.usize(..LETTERS.len())]);
    }
    line.extend_from_slice(end.as_bytes());
    line
}

/// How many ends of lines there are.
pub(super) fn count(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte == b'\n')).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_one_length_and_json_in_them() {
        let block = block();
        assert_eq!((block.len(), count(&block)), (LINE * 10_000, BLOCK));
        for line in block.chunks(LINE).take(100) {
            let text = std::str::from_utf8(line).expect("text");
            let (_, json) = text.split_once("@cee: ").expect("a cookie before JSON");
            serde_json::from_str::<serde_json::Value>(json).expect("JSON");
        }
    }
}
