//! Counting of datagrams that the operating system has dropped because the buffer of a socket was full.

use std::{fs, net::UdpSocket};

use rustix::fs::fstat;

use crate::{Counter, Host};

/// Minimum interval between two reads of the table of the operating system, in ns. Reading is slow, because the table
/// has a line for each UDP socket of the network namespace.
const EVERY_NS: u64 = 10_000_000_000;

/// A counter of the datagrams that the system has dropped for a socket.
pub(super) struct Drops {
    /// Inode of the socket, which identifies it in the table of the system; `None` if unknown.
    inode: Option<u64>,
    table: &'static str,
    counted: u64,
    counted_ns: Option<u64>,
    counter: Counter,
}

impl Drops {
    pub(super) fn new(host: &Host, socket: &UdpSocket) -> Self {
        let help =
            "Datagrams that the system has dropped, because the buffer of the socket was full.";
        let is_v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
        let mut drops = Self {
            inode: fstat(socket).ok().map(|status| status.st_ino),
            table: if is_v6 { "/proc/self/net/udp6" } else { "/proc/self/net/udp" },
            counted: 0,
            counted_ns: None,
            counter: host.counter("datagrams_dropped", help),
        };
        // Datagrams that were dropped before this call were counted by an earlier source of the same socket.
        drops.counted = drops.dropped().unwrap_or_default();
        drops
    }

    /// Updates the counter if the last update was at least [`EVERY_NS`] ago.
    pub(super) fn count_periodically(&mut self, host: &Host) {
        let now_ns = host.monotonic_ns();
        if self.counted_ns.is_none_or(|at| now_ns.abs_diff(at) >= EVERY_NS) {
            self.counted_ns = Some(now_ns);
            self.count();
        }
    }

    /// Updates the counter.
    pub(super) fn count(&mut self) {
        let Some(dropped) = self.dropped() else { return };
        self.counter.add(dropped.saturating_sub(self.counted));
        self.counted = dropped;
    }

    fn dropped(&self) -> Option<u64> {
        let table = fs::read_to_string(self.table).unwrap_or_default();
        dropped(&table, self.inode?)
    }
}

/// Returns the number of datagrams dropped for a socket, from a table of the system: see `proc_net_udp(5)`.
fn dropped(table: &str, inode: u64) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_socket = fields.nth(9)?.parse() == Ok(inode);
        is_socket.then(|| fields.next_back()?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::dropped;

    #[test]
    fn dropped_datagrams_are_read_from_system_table() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
            uid  timeout inode ref pointer drops\n  417: 0100007F:2329 00000000:0000 07 \
            00000000:00000000 00:00000000 00000000     0        0 48211 2 0000000000000000 37\n";
        assert_eq!(dropped(table, 48_211), Some(37));
        assert_eq!(dropped(table, 48_212), None);
        assert_eq!(dropped("no table", 48_211), None);
    }
}
