//! Structure of an event: its keys and the values that they can have.

use std::fmt::Arguments;
use std::io::Write;

use crate::random::Random;
use crate::words::WORDS;

// Two spellings of some levels, as in logs of several systems.
const LEVELS: [&str; 5] = ["ERROR", "error", "INFO", "info", "warn"];
const INDEX_TYPES: [&str; 11] = [
    "applog_app3",
    "applog_app4",
    "applog_app5",
    "applog_app6",
    "edilog",
    "sqlserverlog",
    "syslog_app1",
    "syslog_app3",
    "syslog_app4",
    "syslog_app5",
    "syslog_app6",
];
const TYPES: [&str; 3] = ["applog", "sillylog", "syslog"];
const TAGS_PER_EVENT: usize = 5;

/// Appends one JSON object. Every text in it is plain ASCII and needs no escape.
pub(crate) fn append(random: &mut Random, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"about":""#);
    append_sentences(random, out);
    out.extend_from_slice(br#"","guid":""#);
    append_guid(random, out);
    let abool = random.below(2) == 1;
    let aint = random.between(20, 40);
    let level = random.pick(&LEVELS);
    append_formatted(out, format_args!(r#"","abool":{abool},"aint":{aint},"#));
    append_formatted(out, format_args!(r#""short_message":"{level}","tags":["#));
    for position in 0..TAGS_PER_EVENT {
        let comma = if position == 0 { "" } else { "," };
        append_formatted(out, format_args!(r#"{comma}"tag{}""#, random.between(1, 5)));
    }
    let index_type = random.pick(&INDEX_TYPES);
    let logger = random.between(1, 3);
    let host = random.between(1, 6);
    let application = random.between(1, 6);
    let kind = random.pick(&TYPES);
    out.extend_from_slice(br#"],"array":[0,1,2,3,4,5,6,7,8,9],"#);
    append_formatted(out, format_args!(r#""index_type":"{index_type}","#));
    append_formatted(out, format_args!(r#""logger_name":"logger{logger}","#));
    append_formatted(out, format_args!(r#""syslog_hostname":"host{host}","#));
    append_formatted(out, format_args!(r#""application":"app{application}","#));
    append_formatted(out, format_args!(r#""type":"{kind}","doc-type":"doc"}}"#));
}

fn append_sentences(random: &mut Random, out: &mut Vec<u8>) {
    for sentence in 0..random.between(3, 7) {
        if sentence > 0 {
            out.push(b' ');
        }
        let start = out.len();
        for word in 0..random.between(5, 15) {
            if word > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(random.pick(&WORDS).as_bytes());
        }
        out[start].make_ascii_uppercase();
        out.push(b'.');
    }
}

/// Appends 122 random bits in the form of a version 4 UUID (RFC 9562, section 5.4).
fn append_guid(random: &mut Random, out: &mut Vec<u8>) {
    let (high, low) = (random.next(), random.next());
    append_formatted(
        out,
        format_args!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff,
        ),
    );
}

pub(crate) fn append_formatted(out: &mut Vec<u8>, text: Arguments<'_>) {
    // Writing to a `Vec` cannot fail: it grows or aborts.
    let _ = out.write_fmt(text);
}
