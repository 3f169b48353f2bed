//! The ports of a broker, which stay reserved while its nodes are down.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};
use hostile_peers::Reserved;

/// Returns ports of the loopback address: `count` ports from `first` on, or, if `first` is 0, free ports and the
/// sockets that reserve them.
///
/// The sockets never listen. While a node is down, the system gives its port neither to a process
/// that binds to any free port, nor to the connection of a client, for example one that reconnects
/// to the node. A node can still bind to its port, because its listening socket has `SO_REUSEADDR`,
/// as Java and Go set it, and so has the reserving socket.
///
/// # Errors
/// There are fewer ports than `count`.
pub(super) fn ports(first: u16, count: usize) -> Result<(Vec<u16>, Vec<OwnedFd>)> {
    if first > 0 {
        let numbers: Vec<_> = (first..=u16::MAX).take(count).collect();
        ensure!(numbers.len() == count, "there are fewer than {count} ports from {first} on");
        return Ok((numbers, Vec::new()));
    }
    let reserved =
        (0..count).map(|_| Ok(Reserved::tcp()?.into_parts())).collect::<Result<Vec<_>>>();
    Ok(reserved.context("no port is free")?.into_iter().unzip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_first_or_differ() {
        assert_eq!(ports(7_000, 3).expect("three ports are free").0, [7_000, 7_001, 7_002]);
        assert!(ports(65_535, 2).is_err());
        let (mut free, _reserved) = ports(0, 9).expect("nine ports are free");
        free.sort_unstable();
        free.dedup();
        assert_eq!(free.len(), 9);
    }
}
