//! The header of the PROXY protocol: <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>.

use std::{
    io::{Error, ErrorKind, Result},
    mem::MaybeUninit,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};

/// First bytes of a header of version 1, which is a line of text.
const V1: &[u8] = b"PROXY ";

/// First bytes of a header of version 2, which is binary.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Maximum length of a header of version 1 in bytes, with its line end.
const MAX_V1: usize = 107;

/// Length of the fixed part of a header of version 2, in bytes.
const FIXED: usize = 16;

/// Maximum number of bytes that one system call reads.
const CHUNK: usize = 512;

/// Type of the TLV with the CRC32C of the header.
const TYPE_CRC32C: u8 = 0x03;

/// Address of the client according to a header. `None` if the header has none, because the balancer checks the server
/// or does not know the address: the address of the connection then applies.
pub(super) type Client = Option<SocketAddr>;

/// The reader of the header of one connection.
///
/// The reader takes only the bytes of the header from the socket, so that the data after it, such as a TLS handshake,
/// stays there. Its memory does not depend on the length of the header: the parts of a long header are skipped.
pub(in crate::net) struct Reader {
    /// First bytes of the header: a header of version 1, or the fixed part and the addresses of version 2.
    head: [u8; MAX_V1],
    head_len: usize,
    state: State,
    /// CRC32C of the bytes of the header so far, with zeros in place of the checksum in it, inverted.
    crc: u32,
}

/// Part of the header to which the next byte belongs.
enum State {
    /// The signature, or a header of version 1.
    Start,
    /// The fixed part of a header of version 2, or its addresses of `addresses` bytes.
    Head { addresses: usize },
    /// Data after the addresses, of `left` bytes.
    Tail { left: usize, client: Client, tlvs: Option<Tlvs> },
}

/// State of the sequence of TLVs, each of which has a type, a length and a value.
struct Tlvs {
    part: Part,
    kind: u8,
    value_left: usize,
    /// Bytes of the value so far, if it is the checksum.
    checksum: Option<u32>,
}

/// Part of a TLV to which the next byte belongs.
enum Part {
    Type,
    LengthHigh,
    LengthLow,
    Value,
}

impl Default for Reader {
    fn default() -> Self {
        Self { head: [0; MAX_V1], head_len: 0, state: State::Start, crc: u32::MAX }
    }
}

impl Reader {
    /// Returns whether a byte of the header was received.
    pub(in crate::net) fn has_begun(&self) -> bool {
        self.head_len > 0
    }

    /// Reads the header from a non-blocking socket, without the bytes after it.
    ///
    /// # Errors
    /// Returns `WouldBlock` if the header is incomplete: call the method again when the socket is readable. The error
    /// is `UnexpectedEof` if the peer closed the connection, and `InvalidData` if the header is invalid.
    pub(in crate::net) fn read(&mut self, socket: impl AsFd) -> Result<Client> {
        let mut space = [MaybeUninit::uninit(); CHUNK];
        loop {
            // The bytes are first peeked at, because only the parser knows which of them belong to the header. All of
            // them are then taken, unless they include the end of the header, so that a poll for more bytes waits.
            let peeked = match recv(&socket, &mut space[..], RecvFlags::PEEK) {
                Err(Errno::INTR) => continue,
                peeked => peeked?.0.0,
            };
            if peeked.is_empty() {
                return Err(Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
            }
            let (taken, client) = self.parse(peeked)?;
            take(&socket, taken)?;
            if let Some(client) = client {
                return Ok(client);
            }
        }
    }

    /// Parses the next bytes. Returns how many of them belong to the header, and the client if the header is complete.
    fn parse(&mut self, bytes: &[u8]) -> Result<(usize, Option<Client>)> {
        for (position, byte) in bytes.iter().enumerate() {
            if let Some(client) = self.push(*byte)? {
                return Ok((position + 1, Some(client)));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Parses the next byte. Returns the client if the header is complete.
    fn push(&mut self, byte: u8) -> Result<Option<Client>> {
        if let State::Tail { left, client, tlvs } = &mut self.state {
            *left -= 1;
            let counted = match tlvs {
                Some(tlvs) => tlvs.push(byte, *left)?,
                None => byte,
            };
            self.crc = crc32c(self.crc, counted);
            if *left > 0 {
                return Ok(None);
            }
            let checksum = tlvs.as_ref().and_then(|tlvs| tlvs.checksum);
            if checksum.is_some_and(|checksum| checksum != !self.crc) {
                return Err(invalid("its checksum (CRC32C) is wrong"));
            }
            return Ok(Some(*client));
        }
        let Some(next) = self.head.get_mut(self.head_len) else {
            return Err(invalid("a header of version 1 has at most 107 bytes"));
        };
        *next = byte;
        self.head_len += 1;
        self.crc = crc32c(self.crc, byte);
        match self.state {
            State::Head { addresses } if self.head_len == FIXED + addresses => self.addressed(),
            State::Head { .. } | State::Tail { .. } => Ok(None),
            State::Start => self.started(),
        }
    }

    /// Determines the version, and reads a header of version 1 that is complete.
    fn started(&mut self) -> Result<Option<Client>> {
        let head = &self.head[..self.head_len];
        if head.len() >= V1.len() && head.starts_with(V1) {
            return match head {
                [.., b'\r', b'\n'] => line(&head[V1.len()..head.len() - 2]).map(Some),
                [.., b'\n'] => Err(invalid("a header of version 1 ends in CR and LF")),
                _ => Ok(None),
            };
        }
        if head.len() < FIXED {
            let is_possible = V1.starts_with(head) || head.iter().zip(V2).all(|(a, b)| a == b);
            return if is_possible { Ok(None) } else { Err(absent()) };
        }
        let fields = [head[12], head[13]];
        let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
        if fields[0] >> 4 != 2 {
            return Err(invalid("expected the version 1 or 2"));
        }
        let addresses = match fields[0] & 0xf {
            // The sender itself has opened the connection, for example to check the server.
            0 => 0,
            1 => addresses(fields[1])?,
            _ => return Err(invalid("expected the command LOCAL or PROXY")),
        };
        if length < addresses {
            return Err(invalid("it is shorter than its addresses"));
        }
        // Addresses of Unix sockets are not used, and do not fit into the memory of the head.
        let is_read = addresses <= MAX_V1 - FIXED && addresses > 0;
        if is_read {
            self.state = State::Head { addresses };
            return Ok(None);
        }
        Ok(self.tail(length, None, None))
    }

    /// Reads the addresses of a header of version 2, which are complete.
    fn addressed(&mut self) -> Result<Option<Client>> {
        let length = usize::from(u16::from_be_bytes([self.head[14], self.head[15]]));
        let bytes = &self.head[FIXED..self.head_len];
        let client = match bytes {
            [a, b, c, d, _, _, _, _, high, low, _, _] => {
                SocketAddr::from(([*a, *b, *c, *d], u16::from_be_bytes([*high, *low])))
            }
            bytes => {
                let address: [u8; 16] = bytes
                    .first_chunk()
                    .copied()
                    .ok_or_else(|| invalid("it is shorter than its addresses"))?;
                let port = bytes.get(32..34).and_then(|port| port.first_chunk()).copied();
                SocketAddr::from((address, u16::from_be_bytes(port.unwrap_or_default())))
            }
        };
        Ok(self.tail(length - bytes.len(), Some(client), Some(Tlvs::new())))
    }

    /// Continues with `left` bytes after the addresses. Returns the client if there are none.
    fn tail(&mut self, left: usize, client: Client, tlvs: Option<Tlvs>) -> Option<Client> {
        if left == 0 {
            return Some(client);
        }
        self.state = State::Tail { left, client, tlvs };
        None
    }
}

impl Tlvs {
    fn new() -> Self {
        Self { part: Part::Type, kind: 0, value_left: 0, checksum: None }
    }

    /// Parses the next byte, after which `left` bytes of the header follow. Returns the byte that counts for the
    /// checksum.
    fn push(&mut self, byte: u8, left: usize) -> Result<u8> {
        match self.part {
            Part::Type => {
                self.kind = byte;
                self.part = Part::LengthHigh;
            }
            Part::LengthHigh => {
                self.value_left = usize::from(byte) << 8;
                self.part = Part::LengthLow;
            }
            Part::LengthLow => {
                self.value_left |= usize::from(byte);
                let is_checksum = self.kind == TYPE_CRC32C;
                if is_checksum && (self.value_left != 4 || self.checksum.replace(0).is_some()) {
                    return Err(invalid("expected one checksum (CRC32C) of 4 bytes"));
                }
                self.part = if self.value_left == 0 { Part::Type } else { Part::Value };
                if self.value_left > left {
                    return Err(invalid("the last TLV is longer than the header"));
                }
            }
            Part::Value => {
                self.value_left -= 1;
                if self.value_left == 0 {
                    self.part = Part::Type;
                }
                if self.kind == TYPE_CRC32C {
                    self.checksum = self.checksum.map(|sum| sum << 8 | u32::from(byte));
                    return Ok(0);
                }
            }
        }
        if left == 0 && !matches!(self.part, Part::Type) {
            return Err(invalid("the last TLV is longer than the header"));
        }
        Ok(byte)
    }
}

/// Removes the first `count` bytes from the socket, which has them.
fn take(socket: &impl AsFd, mut count: usize) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); CHUNK];
    while count > 0 {
        match recv(socket, &mut space[..count.min(CHUNK)], RecvFlags::empty()) {
            Ok((([], _), _)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(((taken, _), _)) => count -= taken.len(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the length in bytes of the addresses of a family and a protocol of version 2.
fn addresses(family: u8) -> Result<usize> {
    match family {
        0x00 => Ok(0),
        0x11 | 0x12 => Ok(12),
        0x21 | 0x22 => Ok(36),
        0x31 | 0x32 => Ok(216),
        _ => Err(invalid("its address family or protocol is unknown")),
    }
}

/// Reads a line of version 1, after `PROXY ` and without its end.
fn line(line: &[u8]) -> Result<Client> {
    let wrong = || {
        invalid(
            "expected `PROXY TCP4 SOURCE DESTINATION PORT PORT` or `TCP6`, with one space between the parts, \
             or `PROXY UNKNOWN`",
        )
    };
    let line = std::str::from_utf8(line).map_err(|_| wrong())?;
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Ok(None);
    }
    let mut parts = line.split(' ');
    let mut next = || parts.next().ok_or_else(wrong);
    let is_v4 = match next()? {
        "TCP4" => true,
        "TCP6" => false,
        _ => return Err(wrong()),
    };
    let mut address = || {
        let address = next()?.parse::<IpAddr>().ok();
        address.filter(|address| address.is_ipv4() == is_v4).ok_or_else(wrong)
    };
    let (source, _) = (address()?, address()?);
    let mut port = || {
        let text = next()?;
        let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|_| is_decimal).ok_or_else(wrong)
    };
    let (port, _) = (port()?, port()?);
    if parts.next().is_some() {
        return Err(wrong());
    }
    Ok(Some(SocketAddr::new(source, port)))
}

fn absent() -> Error {
    Error::new(ErrorKind::InvalidData, "it does not begin with a header of the PROXY protocol")
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("invalid header of the PROXY protocol: {what}"))
}

/// Returns the inverted CRC32C after another byte.
fn crc32c(crc: u32, byte: u8) -> u32 {
    TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8)
}

/// CRC32C of each byte, with the reflected polynomial 0x82F63B78.
static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests;
