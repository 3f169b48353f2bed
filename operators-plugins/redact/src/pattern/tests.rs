use std::fmt::Write;

use proptest::prelude::*;

use super::{Finder, Pattern};

const ALL: [Pattern; 7] = [
    Pattern::Email,
    Pattern::Ipv4,
    Pattern::Ipv6,
    Pattern::CreditCard,
    Pattern::Iban,
    Pattern::BearerToken,
    Pattern::Jwt,
];

/// Returns the text with each text that is found in brackets.
fn marked(finder: &Finder, text: &str) -> String {
    let (mut out, mut at) = (String::new(), 0);
    while let Some(found) = finder.find(text, at) {
        assert!(found.start >= at && !found.is_empty(), "{text} {found:?}");
        out.push_str(&text[at..found.start]);
        write!(out, "[{}]", &text[found.clone()]).unwrap();
        at = found.end;
    }
    out + &text[at..]
}

fn check(pattern: Pattern, expected: &[&str]) {
    let finder = Finder::of(pattern).unwrap();
    for expected in expected {
        assert_eq!(marked(&finder, &expected.replace(['[', ']'], "")), *expected);
    }
}

#[test]
fn emails_are_found() {
    check(
        Pattern::Email,
        &[
            "from [bob@example.com], to <[o'brien+x@mail.example.co.uk]>.",
            "user='[bob.b@example.com]'&u=[bob%40example.com]",
            "[m\u{fc}ller@b\u{fc}ro.example] [\u{7528}\u{6237}@\u{4f8b}\u{5b50}.\u{516c}\u{53f8}]",
            "https://u:[p@example.com]/a, [a@b.c]@[d@e.f]",
            "root@localhost, @example.com, a@, 50%, bob @ example.com",
        ],
    );
}

#[test]
fn ip_addresses_are_found() {
    check(
        Pattern::Ipv4,
        &[
            "[10.0.0.1]:80,[255.255.255.255] ip_[1.2.3.4]x [010.001.000.009].",
            "[1.2.3.4].5 1.2.3 256.1.1.1 1.2.3.2567 1234.1.1.1 1..2.3.4 999.[1.2.3.4]",
        ],
    );
    check(
        Pattern::Ipv6,
        &[
            "from [2001:db8::1], [::1] and [fe80::1]%eth0 or [::ffff:192.0.2.1].",
            "IPv6:[2001:db8::1], addr:[2001:db8:0:0:0:0:0:1], :[fe80::a]:",
            "[2001:db8:0:0:0:0:0:1]:8080 [1:2:3:4:5:6:7:8]",
            "12:30:45 std::string core::fmt::Debug aa:bb:cc:dd:ee:ff :: a:b 1.2.3.4:80",
            "01:23:45:67:89:ab:cd:ef:01:23:45:67:89:ab:cd:ef",
        ],
    );
}

#[test]
fn cards_with_a_check_digit_are_found() {
    check(
        Pattern::CreditCard,
        &[
            "[4111111111111111],[4111 1111 1111 1111] 12 [4111-1111-1111-1111] 34x[378282246310005]",
            "[5555555555554444] [2223003122003222] [6011111111111117] [3530111333300000] [30569309025904]",
            "[4222222222222] [6304000000000000] [6200000000000005]",
            // A changed digit, a longer number, a time in ns, two spaces, and a number that no network issues.
            "4111111111111112 41111111111111110 1700000000123456789 4111 1111  1111 1111 1111111111111117",
        ],
    );
}

#[test]
fn ibans_with_check_digits_are_found() {
    check(
        Pattern::Iban,
        &[
            "[DE89370400440532013000], [GB82 WEST 1234 5698 7654 32].",
            "iban=[fr1420041010050500013m02606]x [NO9386011117947] PAID",
            "DE89370400440532013001 DE8937040044053201300 XX89370400440532013000 DE8",
        ],
    );
}

#[test]
fn tokens_are_found() {
    check(
        Pattern::BearerToken,
        &[
            "Authorization: Bearer [abc.DEF-1~+/==], x",
            "bearer%20[t0ken]&a BEARER\t[x]",
            "forbearer abc Bearer",
        ],
    );
    check(Pattern::Jwt, &["t=[eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl]; eyJ.a.b"]);
}

#[test]
fn regex_that_matches_the_empty_text_is_rejected() {
    for regex in ["", "a*", "(a|)", r"\b", "^$", "a?b?"] {
        let error = Finder::of_regex(regex).err().map(|error| error.to_string()).unwrap();
        assert!(error.contains("matches the empty text"), "{regex}: {error}");
    }
    let error = Finder::of_regex("(a").err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("unclosed group"), "{error}");
    let finder = Finder::of_regex(r"(?i)\bid-(\d+)").unwrap();
    assert_eq!(marked(&finder, "ID-12, id-3 xid-4"), "[ID-12], [id-3] xid-4");
}

/// Replaces each text that is found by a text in which nothing is found.
fn redacted(finder: &Finder, text: &str) -> String {
    let (mut out, mut at) = (String::new(), 0);
    while let Some(found) = finder.find(text, at) {
        out.push_str(&text[at..found.start]);
        out.push_str("[redacted]");
        at = found.end;
    }
    out + &text[at..]
}

fn texts() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "bob@example.com",
        "4111 1111 1111 1111",
        "4111111111111111",
        "10.0.0.1",
        "2001:db8::1",
        "DE89370400440532013000",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "Bearer abc",
        "::",
        "%40",
        "\u{e4}",
    ]);
    let piece = prop_oneof![
        known.prop_map(str::to_owned),
        "[a-f0-9:.@ _-]{0,6}".prop_map(|text| text),
        ".{0,3}".prop_map(|text| text),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_is_found_in_redacted_text(text in texts()) {
        for pattern in ALL {
            let finder = Finder::of(pattern).unwrap();
            let redacted = redacted(&finder, &text);
            let left = finder.find(&redacted, 0).map(|found| redacted[found].to_owned());
            prop_assert_eq!(left, None, "{:?} in {:?}", pattern, redacted);
        }
    }
}
