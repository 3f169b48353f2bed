//! Tests with databases that a small writer of the format creates.

use std::{fs::File, io::Write, net::IpAddr};

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tremor_pdk::{Batch, Error, testing::TestHost};

use super::Database;
use crate::{
    config::{By, Format, TableConfig},
    record::Limited,
};

/// Appends a value in the binary format. Integers are `uint64`, unless they are negative.
fn encode(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Bool(value) => header(14, usize::from(*value), out),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => {
                header(9, 8, out);
                out.extend(number.to_be_bytes());
            }
            (None, Some(number)) => {
                header(8, 4, out);
                out.extend(i32::try_from(number).unwrap().to_be_bytes());
            }
            (None, None) => {
                header(3, 8, out);
                out.extend(number.as_f64().unwrap().to_be_bytes());
            }
        },
        Json::String(text) => {
            header(2, text.len(), out);
            out.extend(text.as_bytes());
        }
        Json::Array(array) => {
            header(11, array.len(), out);
            array.iter().for_each(|element| encode(element, out));
        }
        Json::Object(object) => {
            header(7, object.len(), out);
            for (key, value) in object {
                encode(&json!(key), out);
                encode(value, out);
            }
        }
        Json::Null => panic!("the format has no null"),
    }
}

/// Appends the beginning of a value: its type, and its size of less than 285.
fn header(of: u8, size: usize, out: &mut Vec<u8>) {
    let (short, more) = match u8::try_from(size) {
        Ok(size) if size < 29 => (size, None),
        _ => (29, Some(u8::try_from(size - 29).unwrap())),
    };
    if of < 8 {
        out.push(of << 5 | short);
    } else {
        out.extend([short, of - 7]);
    }
    out.extend(more);
}

/// Returns a database of these networks. `version` is 4 or 6.
pub(crate) fn database(version: u8, networks: &[(&str, Json)]) -> Vec<u8> {
    // For each node, the two next ones: a node, or a record.
    #[derive(Clone, Copy)]
    enum Next {
        None,
        Node(usize),
        Data(usize),
    }
    let (mut nodes, mut data) = (vec![[Next::None; 2]], Vec::new());
    for (network, record) in networks {
        let (address, len) = network.split_once('/').unwrap();
        let mut len: usize = len.parse().unwrap();
        let bits = match (address.parse().unwrap(), version) {
            (IpAddr::V4(address), 4) => u128::from(u32::from(address)) << 96,
            // IPv4 addresses are in `::/96`.
            (IpAddr::V4(address), _) => {
                len += 96;
                u128::from(u32::from(address))
            }
            (IpAddr::V6(address), _) => u128::from(address),
        };
        let offset = data.len();
        encode(record, &mut data);
        let mut node = 0;
        for depth in 0..len {
            let bit = usize::from(bits >> (127 - depth) & 1 == 1);
            if depth == len - 1 {
                nodes[node][bit] = Next::Data(offset);
            } else if let Next::Node(next) = nodes[node][bit] {
                node = next;
            } else {
                nodes.push([Next::None; 2]);
                nodes[node][bit] = Next::Node(nodes.len() - 1);
                node = nodes.len() - 1;
            }
        }
    }
    let mut out = Vec::new();
    for next in nodes.iter().flatten() {
        let value = match next {
            Next::None => nodes.len(),
            Next::Node(node) => *node,
            Next::Data(offset) => nodes.len() + 16 + offset,
        };
        out.extend(&u32::try_from(value).unwrap().to_be_bytes()[1..]);
    }
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    // Each number of the metadata has a type of its own.
    let nodes = u32::try_from(nodes.len()).unwrap();
    header(7, 9, &mut out);
    for (key, number) in [
        ("binary_format_major_version", 2),
        ("binary_format_minor_version", 0),
        ("ip_version", u16::from(version)),
        ("record_size", 24),
    ] {
        encode(&json!(key), &mut out);
        header(5, 2, &mut out);
        out.extend(number.to_be_bytes());
    }
    encode(&json!("node_count"), &mut out);
    header(6, 4, &mut out);
    out.extend(nodes.to_be_bytes());
    for (key, value) in [
        ("build_epoch", json!(1_700_000_000)),
        ("database_type", json!("Test")),
        ("description", json!({ "en": "A test" })),
        ("languages", json!(["en"])),
    ] {
        encode(&json!(key), &mut out);
        encode(&value, &mut out);
    }
    out
}

fn config(fields: Option<&[&str]>) -> TableConfig {
    TableConfig {
        format: Format::Maxmind,
        delimiter: b',',
        column: None,
        by: By::Exact,
        fields: fields.map(|fields| fields.iter().map(|field| (*field).to_owned()).collect()),
        max_memory: 1 << 20,
    }
}

fn loaded(bytes: &[u8], config: &TableConfig) -> Result<Database, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    Database::load(&File::open(file.path()).unwrap(), config, TestHost::new().host().memory())
}

/// Returns the record of an address as JSON.
fn record(database: &Database, address: &str) -> Option<String> {
    let record = database.find(address)?;
    let mut batch = Batch::new();
    batch.push(&()).unwrap();
    let mut event = batch.last_mut().unwrap();
    match event.write_value(|out| record.write(&mut Limited::new(out, usize::MAX))) {
        Ok(()) => Some(event.value().unwrap().to_string()),
        Err(error) => Some(error.to_string()),
    }
}

fn berlin() -> Json {
    json!({
        "country": { "iso_code": "DE", "geoname_id": 2_921_044 },
        "city": { "names": { "en": "Berlin", "de": "Berlin" } },
        "location": { "latitude": 52.5, "accuracy_radius": 18_446_744_073_709_551_615_u64, "n": -3 },
        "subdivisions": [{ "iso_code": "BE" }], "traits": { "is_anycast": true },
    })
}

#[test]
fn record_of_the_network_is_written() {
    let networks = [("192.0.2.0/24", berlin()), ("2001:db8::/32", json!({ "n": 1 }))];
    let database = loaded(&database(6, &networks), &config(None)).unwrap();
    let expected = berlin().to_string();
    let sorted = |text: &str| serde_json::from_str::<Json>(text).unwrap().to_string();
    for address in ["192.0.2.1", "192.0.2.255", "::ffff:192.0.2.7"] {
        assert_eq!(sorted(&record(&database, address).unwrap()), expected, "{address}");
    }
    assert_eq!(record(&database, "2001:db8::7").unwrap(), r#"{"n":1}"#);
    for unknown in ["192.0.3.1", "2001:db9::1", "localhost", "", "192.0.2.1/32"] {
        assert_eq!(record(&database, unknown), None, "{unknown}");
    }
    assert!(database.bytes() > 0);
}

#[test]
fn chosen_fields_keep_their_objects() {
    let networks = [("192.0.2.0/24", berlin()), ("10.0.0.0/8", json!({ "country": "x" }))];
    let fields: &[&str] = &[
        "city.names.en",
        "country.iso_code",
        "location.none",
        "none.a",
        "location.latitude",
        "subdivisions",
    ];
    let database = loaded(&database(4, &networks), &config(Some(fields))).unwrap();
    let expected = r#"{"city":{"names":{"en":"Berlin"}},"country":{"iso_code":"DE"},"location":{"latitude":52.5},"subdivisions":[{"iso_code":"BE"}]}"#;
    assert_eq!(record(&database, "192.0.2.1").unwrap(), expected);
    assert_eq!(record(&database, "10.0.0.1").unwrap(), "{}");
    assert_eq!(record(&database, "2001:db8::1"), None, "the database has only IPv4 addresses");
    for fields in [&["a.b", "a"][..], &["a", "a.b"], &["a..b"], &[""]] {
        let networks = [("192.0.2.0/24", berlin())];
        let error = loaded(&self::database(4, &networks), &config(Some(fields))).err().unwrap();
        assert!(error.to_string().contains("invalid `fields`"), "{error}");
    }
}

#[test]
fn invalid_and_large_databases_are_rejected() {
    let valid = database(4, &[("192.0.2.0/24", berlin())]);
    let mut pointer = valid.clone();
    // The record becomes a pointer to itself.
    let at = valid.windows(16).position(|bytes| bytes == [0; 16]).unwrap() + 16;
    pointer[at..at + 2].copy_from_slice(&[0x20, 0]);
    for (bytes, expected) in [
        (&b"a,b\n1,2\n"[..], "not a valid database of MaxMind"),
        (&b""[..], "not a valid database of MaxMind"),
        (&valid[..valid.len() - 40], "not a valid database of MaxMind"),
        (&valid[40..], "not a valid database of MaxMind"),
        (&pointer[..], "not a valid database of MaxMind"),
    ] {
        let error = loaded(bytes, &config(None)).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let small = TableConfig { max_memory: 100, ..config(None) };
    let error = loaded(&valid, &small).err().unwrap().to_string();
    assert!(error.contains("`max_memory` is 100 bytes"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A database with wrong bytes is rejected, or has records that are written or reported.
    #[test]
    fn database_with_wrong_bytes_causes_no_panic(
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        address in any::<u32>(),
    ) {
        let mut bytes = database(4, &[("192.0.2.0/24", berlin()), ("128.0.0.0/1", json!({ "a": [1] }))]);
        for (at, byte) in &wrong {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        for fields in [None, Some(&["country.iso_code", "a"][..])] {
            if let Ok(database) = loaded(&bytes, &config(fields)) {
                record(&database, "192.0.2.1");
                record(&database, &IpAddr::from(address.to_be_bytes()).to_string());
            }
        }
    }
}
