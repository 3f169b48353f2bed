#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::net::UnixStream,
};

use proptest::{collection::vec, prelude::*};

use super::{Client, Reader, TYPE_CRC32C, V2, crc32c};

const COMMAND_LOCAL: u8 = 0x20;
const COMMAND_PROXY: u8 = 0x21;

/// Returns a header of version 2.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [V2, &[command, family], &length, rest].concat()
}

/// Returns a header of version 2 for a client, with TLVs.
fn v2_of(client: SocketAddr, tlvs: &[u8]) -> Vec<u8> {
    let port = client.port().to_be_bytes();
    let (family, addresses) = match client {
        SocketAddr::V4(client) => (0x11, [client.ip().octets(), [203, 0, 113, 1]].concat()),
        SocketAddr::V6(client) => (0x21, [client.ip().octets(), [7; 16]].concat()),
    };
    v2(COMMAND_PROXY, family, &[&addresses[..], &port, &[0x1b, 0x58], tlvs].concat())
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_be_bytes();
    [&[kind], &length[..], value].concat()
}

/// Returns a header with the correct checksum between two other TLVs, and the position of the checksum.
fn with_checksum(client: SocketAddr) -> (Vec<u8>, usize) {
    let tlvs = [tlv(0xea, b"\x01vpce"), tlv(TYPE_CRC32C, &[0; 4]), tlv(0x04, &[0; 9])].concat();
    let mut header = v2_of(client, &tlvs);
    let position = header.len() - 12 - 4;
    let crc = !header.iter().fold(u32::MAX, |crc, byte| crc32c(crc, *byte));
    header[position..position + 4].copy_from_slice(&crc.to_be_bytes());
    (header, position)
}

/// Parses a header that is followed by other bytes. The bytes arrive in two parts.
fn parse_in_parts(header: &[u8], split: usize) -> std::io::Result<(usize, Option<Client>)> {
    let bytes = [header, b"PROXY payload"].concat();
    let (first, second) = bytes.split_at(split);
    let mut reader = Reader::default();
    match reader.parse(first)? {
        (taken, None) => {
            assert_eq!(taken, first.len());
            let (taken, client) = reader.parse(second)?;
            Ok((first.len() + taken, client))
        }
        complete => Ok(complete),
    }
}

#[track_caller]
fn expect(header: &[u8], client: Client) {
    for split in 0..=header.len() {
        let (taken, found) = parse_in_parts(header, split).unwrap();
        assert_eq!((taken, found), (header.len(), Some(client)), "{}", header.escape_ascii());
    }
}

#[track_caller]
fn expect_error(header: &[u8], part: &str) {
    for split in 0..=header.len() {
        let error = parse_in_parts(header, split).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let error = error.to_string();
        assert!(error.contains(part), "{}: {error}", header.escape_ascii());
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn headers_name_the_client() {
    let v4 = address("192.0.2.7:56324");
    let v6 = address("[2001:db8::7]:65535");
    for (line, client) in [
        ("PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\r\n", Some(v4)),
        ("PROXY TCP6 2001:db8::7 ::1 65535 0\r\n", Some(v6)),
        ("PROXY TCP6 ::ffff:10.0.0.7 ::1 1 2\r\n", Some(address("[::ffff:10.0.0.7]:1"))),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::ffff ffff::1 65535 65535\r\n", None),
    ] {
        expect(line.as_bytes(), client);
    }
    for client in [v4, v6] {
        expect(&v2_of(client, b""), Some(client));
        expect(&v2_of(client, &[tlv(0x04, b""), tlv(0xee, &[9; 300])].concat()), Some(client));
        expect(&with_checksum(client).0, Some(client));
    }
    let datagram = v2(COMMAND_PROXY, 0x12, &v2_of(v4, b"")[16..]);
    expect(&datagram, Some(v4));
}

#[test]
fn headers_without_address_keep_that_of_the_connection() {
    expect(&v2(COMMAND_LOCAL, 0x00, b""), None);
    // The family and the bytes after the fixed part of LOCAL are ignored, whatever they are.
    expect(&v2(COMMAND_LOCAL, 0x11, &[7; 5]), None);
    expect(&v2(COMMAND_LOCAL, 0xff, &[0xff; 600]), None);
    expect(&v2(COMMAND_PROXY, 0x00, b""), None);
    expect(&v2(COMMAND_PROXY, 0x00, &[1; 40]), None);
    expect(&v2(COMMAND_PROXY, 0x31, &[b'a'; 216]), None);
    expect(&v2(COMMAND_PROXY, 0x31, &[b'a'; 230]), None);
}

#[test]
fn invalid_lines_are_rejected() {
    for line in [
        "PROXY TCP4 192.0.2.7 203.0.113.1 56324\r\n",
        "PROXY TCP4 192.0.2.7 203.0.113.1 56324 443 1\r\n",
        "PROXY TCP4  192.0.2.7 203.0.113.1 56324 443\r\n",
        "PROXY TCP4 192.0.2.7 203.0.113.1 56324 443 \r\n",
        "PROXY TCP4 192.0.2.7 203.0.113.1 +1 443\r\n",
        "PROXY TCP4 192.0.2.7 203.0.113.1 65536 443\r\n",
        "PROXY TCP4 192.0.2.7 203.0.113.1 1 443\r\r\n",
        "PROXY TCP4 2001:db8::7 ::1 56324 443\r\n",
        "PROXY TCP6 192.0.2.7 203.0.113.1 56324 443\r\n",
        "PROXY TCP4 192.0.2.777 203.0.113.1 56324 443\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY UDP4 192.0.2.7 203.0.113.1 56324 443\r\n",
        "PROXY \r\n",
        "PROXY TCP4 192.0.2.7 203.0.113.1 1 \u{661}\r\n",
    ] {
        expect_error(line.as_bytes(), "expected `PROXY TCP4 SOURCE");
    }
    expect_error(b"PROXY UNKNOWN\n", "CR and LF");
    let long = |length: usize| [b"PROXY UNKNOWN ", &vec![b'x'; length][..], b"\r\n"].concat();
    expect(&long(107 - 16), None);
    expect_error(&long(108 - 16), "at most 107 bytes");
    for other in [
        "<13>Nov 29 08:00:00 host tag: text\n",
        "GET / HTTP/1.1\r\n\r\n",
        "PROXY\tTCP4 ",
        "\r\n\r\nx",
    ] {
        expect_error(other.as_bytes(), "does not begin with a header");
    }
}

#[test]
fn invalid_binary_headers_are_rejected() {
    let client = address("192.0.2.7:1");
    expect_error(&v2(0x11, 0x11, &[0; 12]), "version 1 or 2");
    expect_error(&v2(0x22, 0x11, &[0; 12]), "LOCAL or PROXY");
    expect_error(&v2(COMMAND_PROXY, 0x11, &[0; 11]), "shorter than its addresses");
    expect_error(&v2(COMMAND_PROXY, 0x21, &[0; 35]), "shorter than its addresses");
    expect_error(&v2(COMMAND_PROXY, 0x31, &[0; 215]), "shorter than its addresses");
    for family in [0x01, 0x10, 0x13, 0x41] {
        expect_error(&v2(COMMAND_PROXY, family, &[0; 216]), "family or protocol is unknown");
    }
    for tlvs in [&b"\x04"[..], b"\x04\0", b"\x04\0\x01", b"\x04\xff\xffabc"] {
        expect_error(&v2_of(client, tlvs), "longer than the header");
    }
    expect_error(&v2_of(client, &tlv(TYPE_CRC32C, &[0; 3])), "of 4 bytes");
    let (header, position) = with_checksum(client);
    for changed in [16, position, position + 3, header.len() - 1] {
        let mut header = header.clone();
        header[changed] ^= 1;
        expect_error(&header, "checksum");
    }
}

#[test]
fn checksum_is_that_of_the_specification() {
    // The check value of CRC-32C (Castagnoli).
    let crc = b"123456789".iter().fold(u32::MAX, |crc, byte| crc32c(crc, *byte));
    assert_eq!(!crc, 0xE306_9283);
}

#[test]
fn longest_header_is_skipped_without_its_memory() {
    let client = address("[2001:db8::7]:9");
    let tlvs = tlv(0xee, &vec![1; 65_535 - 36 - 3]);
    let header = v2_of(client, &tlvs);
    assert_eq!(header.len(), 16 + 65_535);
    assert_eq!(parse_in_parts(&header, 40).unwrap(), (header.len(), Some(Some(client))));
    assert!(size_of::<Reader>() < 256);
}

#[test]
fn data_after_the_header_stays_in_the_socket() {
    let client = address("192.0.2.7:1");
    for header in [
        v2_of(client, &tlv(0xee, &[1; 2_000])),
        b"PROXY TCP4 192.0.2.7 203.0.113.1 1 443\r\n".to_vec(),
    ] {
        let (mut balancer, mut server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let mut reader = Reader::default();
        let wait = |reader: &mut Reader| reader.read(&server).unwrap_err().kind();
        assert_eq!(wait(&mut reader), ErrorKind::WouldBlock);
        assert!(!reader.has_begun());
        for byte in &header[..header.len() - 1] {
            balancer.write_all(&[*byte]).unwrap();
            assert_eq!(wait(&mut reader), ErrorKind::WouldBlock);
        }
        assert!(reader.has_begun());
        // The socket has no data left, so that a poll for data waits.
        let mut left = [0; 64];
        assert_eq!(server.read(&mut left).unwrap_err().kind(), ErrorKind::WouldBlock);
        balancer.write_all(&[&header[header.len() - 1..], b"PROXY payload"].concat()).unwrap();
        assert_eq!(reader.read(&server).unwrap(), Some(client));
        let count = server.read(&mut left).unwrap();
        assert_eq!(&left[..count], b"PROXY payload");
        drop(balancer);
        let error = Reader::default().read(&server).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}

fn client() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<(Ipv4Addr, u16)>().prop_map(SocketAddr::from);
    prop_oneof![v4, any::<(Ipv6Addr, u16)>().prop_map(SocketAddr::from)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_client_is_read(client in client(), tlvs in vec((4_u8.., vec(any::<u8>(), 0..50)), 0..4)) {
        let tlvs: Vec<u8> = tlvs.iter().flat_map(|(kind, value)| tlv(*kind, value)).collect();
        let kind = if client.is_ipv4() { "TCP4" } else { "TCP6" };
        let ip = client.ip();
        let line = format!("PROXY {kind} {ip} {ip} {} 1\r\n", client.port()).into_bytes();
        for header in [v2_of(client, &tlvs), line] {
            let (taken, found) = parse_in_parts(&header, header.len() / 2).unwrap();
            prop_assert_eq!((taken, found), (header.len(), Some(Some(client))));
        }
    }

    /// The result does not depend on how the bytes arrive, and no byte after the header is taken.
    #[test]
    fn random_bytes_end_in_the_same_way_in_any_parts(
        prefix in 0..4_usize,
        mut bytes in vec(any::<u8>(), 1..400),
        sizes in vec(1..30_usize, 1..60),
    ) {
        // Most random bytes have no valid beginning, so three of four inputs get one.
        let fixed = [COMMAND_PROXY, 0x11, 0, bytes[0]];
        let beginning = [&b""[..], V2, &[V2, &fixed[..]].concat(), b"PROXY TCP4 1.2.3.4 "][prefix].to_vec();
        bytes.splice(0..0, beginning);
        let mut whole = Reader::default();
        let expected = whole.parse(&bytes).map_err(|error| error.to_string());
        let mut reader = Reader::default();
        let (mut taken, mut found) = (0, Ok(None));
        let mut sizes = sizes.iter().cycle();
        while taken < bytes.len() {
            let end = bytes.len().min(taken + sizes.next().unwrap());
            match reader.parse(&bytes[taken..end]) {
                Ok((count, client)) => {
                    taken += count;
                    found = Ok(client);
                    if client.is_some() { break; }
                }
                Err(error) => {
                    found = Err(error.to_string());
                    break;
                }
            }
        }
        match expected {
            Ok((count, client)) => {
                prop_assert_eq!(found, Ok(client));
                prop_assert_eq!(taken, count);
            }
            Err(error) => prop_assert_eq!(found, Err(error)),
        }
    }
}
