//! Datagrams that the system has dropped, because nobody had read what came before them.

use std::{fs, net::UdpSocket};

use rustix::fs::fstat;

use crate::{Counter, Host};

/// How often the system is asked, in ns: it answers with a line for each socket of the machine.
const EVERY_NS: u64 = 10_000_000_000;

/// Counts what the system has dropped for a socket.
pub(super) struct Drops {
    /// What the system's tables know the socket by; none where it cannot be told.
    inode: Option<u64>,
    table: &'static str,
    counted: u64,
    asked_ns: Option<u64>,
    counter: Counter,
}

impl Drops {
    pub(super) fn new(host: &Host, socket: &UdpSocket) -> Self {
        let help = "Datagrams that the system has dropped, because its buffer was full.";
        let is_v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
        let mut drops = Self {
            inode: fstat(socket).ok().map(|status| status.st_ino),
            table: if is_v6 { "/proc/self/net/udp6" } else { "/proc/self/net/udp" },
            counted: 0,
            asked_ns: None,
            counter: host.counter("datagrams_dropped", help),
        };
        // An earlier source of the same socket has counted those.
        drops.counted = drops.dropped().unwrap_or_default();
        drops
    }

    /// Asks the system, if that is long enough ago.
    pub(super) fn count_now_and_then(&mut self, host: &Host) {
        let now_ns = host.monotonic_ns();
        if self.asked_ns.is_none_or(|at| now_ns.abs_diff(at) >= EVERY_NS) {
            self.asked_ns = Some(now_ns);
            self.count();
        }
    }

    /// Asks the system.
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

/// How many datagrams were dropped for a socket, by a table of the system's: see `proc_net_udp(5)`.
fn dropped(table: &str, inode: u64) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_it = fields.nth(9)?.parse() == Ok(inode);
        is_it.then(|| fields.next_back()?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::dropped;

    #[test]
    fn the_system_says_what_it_dropped_for_a_socket() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
            uid  timeout inode ref pointer drops\n  417: 0100007F:2329 00000000:0000 07 \
            00000000:00000000 00:00000000 00000000     0        0 48211 2 0000000000000000 37\n";
        assert_eq!(dropped(table, 48_211), Some(37));
        assert_eq!(dropped(table, 48_212), None);
        assert_eq!(dropped("no table", 48_211), None);
    }
}
