//! Lines of an access log of nginx, in the format `combined`.

use std::io::{self, Write};

use crate::random::Random;

/// Time of the first line: 10 October 2025, 13:00:00 UTC.
const FIRST: u64 = 13 * 3_600;

const METHODS: [&str; 8] = ["GET", "GET", "GET", "GET", "GET", "POST", "HEAD", "PUT"];
const STATUS: [&str; 8] = ["200", "200", "200", "200", "304", "301", "404", "500"];
const PATHS: [&str; 8] = [
    "/",
    "/index.html",
    "/api/v1/orders",
    "/api/v1/orders/4711/items?expand=price&lang=en",
    "/static/app.8d1c2f7a.js",
    "/static/fonts/inter-var.woff2",
    "/search?q=stream+processing&page=2",
    "/images/banner-1600x400.webp",
];
const REFERERS: [&str; 4] =
    ["-", "-", "https://www.example.com/", "https://shop.example.com/catalogue/4711?from=mail"];
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/126.0.0.0 Safari/537.36",
    "curl/8.5.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];

/// Writes the first `count` lines of the access log with this seed to `out`, about 190 bytes each.
///
/// # Errors
/// Errors of `out`.
pub fn write_access_log(count: u64, seed: u64, out: &mut impl Write) -> io::Result<()> {
    let mut random = Random::new(seed);
    for line in 0..count {
        // The log has ten lines per second. After a day, the time of day starts again.
        let second = (FIRST + line / 10) % 86_400;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let user = if random.below(8) == 0 { "alice" } else { "-" };
        writeln!(
            out,
            "203.0.{}.{} - {user} [10/Oct/2025:{hour:02}:{minute:02}:{second:02} +0000] \
             \"{} {} HTTP/1.1\" {} {} \"{}\" \"{}\"",
            random.between(0, 255),
            random.between(1, 254),
            random.pick(&METHODS),
            random.pick(&PATHS),
            random.pick(&STATUS),
            random.between(0, 200_000),
            random.pick(&REFERERS),
            random.pick(&AGENTS),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write_access_log;

    #[test]
    fn seed_determines_the_lines() {
        let text = |seed| {
            let mut text = Vec::new();
            write_access_log(1_000, seed, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(42), text(42));
        assert_ne!(text(42), text(43));
        let average = text(42).len() / 1_000;
        assert!((150..220).contains(&average), "{average}");
        assert!(text(42).lines().all(|line| line.contains(" - ") && line.ends_with('"')));
    }
}
