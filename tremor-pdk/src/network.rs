//! Networks of IP addresses.

use std::{fmt, net::IpAddr, str::FromStr};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Error, Result};

/// A network such as `10.0.0.0/8`: the addresses that have their first bits in common. Also the type of a configuration
/// key.
///
/// A single address is a network too. An IPv6 address that contains an IPv4 address (`::ffff:10.0.0.7`) counts as that
/// IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
// The configuration key that has this type has a description of its own.
#[schemars(
    inline,
    description = "",
    with = "String",
    extend("examples" = ["10.0.0.0/8"])
)]
pub struct Network {
    is_v6: bool,
    /// Bits of the address, at the end of 128 bits for IPv4.
    bits: u128,
    /// Number of bits of the address that are significant.
    len: u8,
}

impl Network {
    /// Returns the network that contains only this address.
    pub fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self { is_v6: false, bits: u32::from(address).into(), len: 32 },
            IpAddr::V6(address) => Self { is_v6: true, bits: address.into(), len: 128 },
        }
    }

    /// Returns whether the network consists of IPv6 addresses.
    pub fn is_v6(self) -> bool {
        self.is_v6
    }

    /// Returns the number of bits that the addresses have in common: at most 32 for IPv4, and 128 for IPv6.
    pub fn prefix_len(self) -> u8 {
        self.len
    }

    /// Returns the first address of the network.
    pub fn address(self) -> IpAddr {
        if self.is_v6 {
            IpAddr::V6(self.bits.into())
        } else {
            IpAddr::V4(u32::try_from(self.bits).unwrap_or_default().into())
        }
    }

    /// Returns the network of the first `len` bits of this network.
    #[must_use]
    pub fn truncated(self, len: u8) -> Self {
        let width = if self.is_v6 { 128 } else { 32 };
        let len = len.min(self.len);
        let mask = u128::MAX.checked_shl(u32::from(width - len)).unwrap_or(0);
        Self { bits: self.bits & mask, len, ..self }
    }

    /// Returns whether `address` is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = Self::of_address(address);
        address.is_v6 == self.is_v6 && address.truncated(self.len) == self
    }
}

impl FromStr for Network {
    type Err = Error;

    /// Reads an address, or a network such as `10.0.0.0/8`. The bits after the prefix must be zero. Errors contain only
    /// the expected syntax.
    fn from_str(text: &str) -> Result<Self> {
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
}

impl TryFrom<String> for Network {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse().map_err(|error: Error| {
            Error::configuration(format_args!("invalid network `{text}`: {}", error.message()))
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.len)
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
            assert_eq!(text.parse::<Network>().unwrap().to_string(), expected);
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
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn network_contains_addresses_with_its_prefix() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("192.0.2.128/25", "192.0.2.128", "192.0.2.127"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.0"),
            ("::/0", "2001:db8::1", "0.0.0.0"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }
}
