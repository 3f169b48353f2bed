//! Hosts that are reached without a proxy, as listed in the variable `NO_PROXY`.

use std::net::IpAddr;

use crate::{Network, net::Address};

/// An entry of `NO_PROXY`: hosts, and the port to which the entry is limited, if it has one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
enum Hosts {
    /// `*`: every host.
    Any,
    /// A network, such as `10.0.0.0/8`. A single address is a network whose prefix is the whole
    /// address.
    Network(Network),
    /// A domain in lower case, without leading and trailing dots. It contains the host of that name
    /// and all its subdomains.
    Domain(String),
}

impl Entry {
    /// Returns the entries of a list, which are separated by commas or white space. An entry that
    /// cannot be parsed is returned as its text.
    pub(super) fn list(text: &str) -> impl Iterator<Item = Result<Self, &str>> {
        let separates = |it: char| it == ',' || it.is_ascii_whitespace();
        let entries = text.split(separates).filter(|entry| !entry.is_empty());
        entries.map(|entry| Self::parse(entry).ok_or(entry))
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some(hosts) = Hosts::parse(text) {
            return Some(Self { hosts, port: None });
        }
        let (hosts, port) = text.rsplit_once(':')?;
        // An IPv6 address without brackets has no port: its last group must not be parsed as one.
        if hosts.contains(':') && !hosts.starts_with('[') {
            return None;
        }
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some(Self { hosts: Hosts::parse(hosts)?, port: Some(port) })
    }

    /// Returns whether the entry contains the host and the port of `peer`. Host names are not
    /// resolved: only an IP address can match a network.
    pub(super) fn covers(&self, peer: &Address) -> bool {
        if self.port.is_some_and(|port| port != peer.port()) {
            return false;
        }
        let host = peer.host();
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Network(network) => {
                host.parse::<IpAddr>().is_ok_and(|host| network.contains(host))
            }
            Hosts::Domain(domain) => {
                let host = host.strip_suffix('.').unwrap_or(&host).to_ascii_lowercase();
                let rest = host.strip_suffix(domain.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
        }
    }
}

impl Hosts {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        let bare = match text.strip_prefix('[') {
            Some(text) => text.strip_suffix(']')?,
            None => text,
        };
        if let Some((address, prefix)) = bare.split_once('/') {
            // Other programs accept networks whose bits after the prefix are set.
            let network = Network::of_address(address.parse().ok()?);
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= network.prefix_len())?;
            return Some(Self::Network(network.truncated(prefix)));
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Network(Network::of_address(address)));
        }
        let domain = text.strip_prefix('*').filter(|it| it.starts_with('.')).unwrap_or(text);
        let domain = domain.strip_prefix('.').unwrap_or(domain);
        let domain = domain.strip_suffix('.').unwrap_or(domain).to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            !label.is_empty() && label.bytes().all(is_allowed)
        };
        // A name whose last label is a number is not a domain, but an invalid address.
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        let last = domain.rsplit('.').next().unwrap_or_default();
        let is_domain = domain.split('.').all(is_label) && !is_number(last);
        is_domain.then_some(Self::Domain(domain))
    }
}

#[cfg(test)]
mod tests {
    use super::Entry;

    /// Returns whether a list contains a peer, whose port is 80 by default.
    fn covers(list: &str, peer: &str) -> bool {
        let has_port = peer.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let peer = if has_port { peer.to_owned() } else { format!("{peer}:80") };
        let peer = peer.parse().unwrap();
        Entry::list(list).any(|entry| entry.unwrap().covers(&peer))
    }

    #[test]
    fn addresses_match_networks_of_no_proxy() {
        for (list, peer) in [
            ("10.0.0.0/8", "10.200.3.4:8080"),
            ("10.1.2.3/8", "10.200.3.4"),
            ("192.168.7.0/25,172.16.0.0/12", "172.31.255.255"),
            ("10.0.0.1/32", "10.0.0.1"),
            ("0.0.0.0/0", "8.8.8.8"),
            ("2001:db8::/32", "[2001:db8:7::1]:81"),
            ("[2001:db8::/32]", "[2001:db8:7::1]:81"),
            ("[2001:db8::/32]:81", "[2001:db8:7::1]:81"),
            ("::/0", "[2001:db8::1]"),
            ("10.0.0.0/8:8080", "10.1.1.1:8080"),
            ("10.0.0.0/8", "[::ffff:10.1.1.1]"),
        ] {
            assert!(covers(list, peer), "{list} {peer}");
        }
        for (list, peer) in [
            ("10.0.0.0/8", "11.0.0.1"),
            ("10.0.0.0/8", "a.example"),
            ("192.168.7.0/25", "192.168.7.128"),
            ("10.0.0.1/32", "10.0.0.2"),
            ("0.0.0.0/0", "[2001:db8::1]"),
            ("2001:db8::/32", "[2001:db9::1]"),
            ("10.0.0.0/8:8080", "10.1.1.1:8081"),
        ] {
            assert!(!covers(list, peer), "{list} {peer}");
        }
    }

    #[test]
    fn names_and_addresses_match_entries_of_no_proxy() {
        for (list, peer) in [
            ("example.com", "example.com"),
            ("example.com", "a.example.com"),
            ("x, .example.com", "a.example.com"),
            ("x .example.com", "example.com"),
            ("*.EXAMPLE.com", "A.example.com"),
            ("example.com.", "a.example.com"),
            ("*", "a"),
            ("*:81", "a:81"),
            ("a:81", "a:81"),
            ("my_host", "my_host"),
            ("2001:db8::1", "[2001:DB8:0::1]:81"),
            ("[2001:db8::1]:81", "[2001:db8::1]:81"),
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.1:80", "10.0.0.1"),
        ] {
            assert!(covers(list, peer), "{list} {peer}");
        }
        for (list, peer) in [
            ("example.com", "notexample.com"),
            ("a:80", "a:81"),
            (" ,", "a"),
            ("10.0.0.1", "10.0.0.10"),
            ("[2001:db8::1]:82", "[2001:db8::1]:81"),
        ] {
            assert!(!covers(list, peer), "{list} {peer}");
        }
    }

    #[test]
    fn entries_that_match_no_host_are_found() {
        for wrong in [
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0.0/",
            "2001:db8::/129",
            "example.com/8",
            "10.0.0",
            "10.*",
            "exa*mple.com",
            "http://a",
            "a:99999",
            "a:0",
            "a:",
            "[::1",
            "::1:x",
            "a..b",
            ".",
            "*.",
            "ä.example",
        ] {
            assert_eq!(Entry::list(wrong).next(), Some(Err(wrong)), "{wrong}");
        }
    }
}
