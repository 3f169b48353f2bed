//! Networks, and their form as keys of a table.

use std::net::IpAddr;

use tremor_pdk::{Error, Result};

/// Maximum length of the key of a network in bytes: the length of the prefix and an IPv6 address.
const MAX_KEY: usize = 17;

/// A network: the first bits of an address. IPv6 addresses that contain an IPv4 address count as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    is_v6: bool,
    /// Bits of the address, at the end of 128 bits for IPv4.
    bits: u128,
    /// Number of bits of the address that are significant.
    len: u8,
}

impl Network {
    /// Returns the network that contains only this address.
    pub(crate) fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self { is_v6: false, bits: u32::from(address).into(), len: 32 },
            IpAddr::V6(address) => Self { is_v6: true, bits: address.into(), len: 128 },
        }
    }

    /// Reads an address, or a network such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// Returns the expected syntax.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let expected = || {
            Error::configuration(
                "expected an address or a network, such as `10.0.0.0/8` or `2001:db8::/32`",
            )
        };
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let whole = Self::of_address(address);
        let Some(len) = len else { return Ok(whole) };
        let is_decimal = !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit());
        let len: u8 = len.parse().ok().filter(|_| is_decimal).ok_or_else(expected)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        if len > width {
            return Err(Error::configuration(format_args!(
                "expected at most {width} bits after `/`"
            )));
        }
        // The prefix of an IPv4 address within IPv6 begins after 96 bits.
        let is_mapped = address.is_ipv6() && !whole.is_v6;
        let Some(len) = (if is_mapped { len.checked_sub(96) } else { Some(len) }) else {
            return Err(Error::configuration(
                "expected at least 96 bits for an IPv4 address within IPv6",
            ));
        };
        let network = whole.truncated(len);
        if network.bits != whole.bits {
            return Err(Error::configuration(format_args!(
                "expected `{network}`, because bits after the prefix are set"
            )));
        }
        Ok(network)
    }

    pub(crate) fn is_v6(self) -> bool {
        self.is_v6
    }

    /// Returns the number of significant bits.
    pub(crate) fn len(self) -> u8 {
        self.len
    }

    /// Returns the network of the first `len` bits.
    pub(crate) fn truncated(self, len: u8) -> Self {
        let width = if self.is_v6 { 128 } else { 32 };
        let unset = u32::from(width - len.min(width));
        let mask = u128::MAX.checked_shl(unset).unwrap_or(0);
        Self { bits: self.bits & mask, len: len.min(width), ..self }
    }

    /// Returns the key of the network in a table.
    pub(crate) fn key(self) -> ([u8; MAX_KEY], usize) {
        let mut key = [0; MAX_KEY];
        key[0] = self.len;
        let bits = self.bits.to_be_bytes();
        let bits = if self.is_v6 { &bits[..] } else { &bits[12..] };
        key[1..=bits.len()].copy_from_slice(bits);
        (key, 1 + bits.len())
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = if self.is_v6 {
            IpAddr::V6(self.bits.into())
        } else {
            IpAddr::V4(u32::try_from(self.bits).unwrap_or_default().into())
        };
        write!(formatter, "{address}/{}", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn networks_are_read_and_mistakes_are_described() {
        for (text, expected) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("::/0", "::/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ] {
            assert_eq!(Network::parse(text).unwrap().to_string(), expected);
        }
        for (text, expected) in [
            ("10.0.0.1/8", "expected `10.0.0.0/8`"),
            ("10.0.0.0/33", "at most 32 bits"),
            ("::/129", "at most 128 bits"),
            ("10.0.0.0/+8", "such as `10.0.0.0/8`"),
            ("10.0.0/8", "such as `10.0.0.0/8`"),
            ("host", "such as `10.0.0.0/8`"),
            ("::ffff:0.0.0.0/95", "at least 96 bits"),
        ] {
            let error = Network::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
