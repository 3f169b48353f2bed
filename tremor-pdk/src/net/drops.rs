//! Counting of datagrams that the operating system has dropped because the buffer of a socket was full.

use std::{
    fs, io,
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use rustix::fs::fstat;

use crate::{Counter, Host, Result, Upkeep};

/// Interval between two reads of the table of the operating system.
const EVERY: Duration = Duration::from_secs(1);

/// Minimum interval between two log lines about dropped datagrams, in ns.
const REPORTED_EVERY_NS: u64 = 60_000_000_000;

/// A task that counts the datagrams that the system drops for a socket. The task does not depend on pulls, because the
/// system drops datagrams above all while a source is not pulled.
///
/// Drop this value before the socket, because the system forgets the number of dropped datagrams with the socket.
pub(super) struct Counting(Upkeep<Drops>);

impl Counting {
    /// Starts to count the datagrams that are dropped from now on.
    pub(super) fn start(host: &Host, socket: &UdpSocket) -> Self {
        let drops = Drops::new(host, socket);
        Self(host.upkeep("datagrams_dropped", EVERY, drops, |drops| {
            drops.update();
            drops.report(REPORTED_EVERY_NS);
            Ok(())
        }))
    }

    /// Counts and logs the datagrams that were dropped until now.
    pub(super) async fn complete(&self) -> Result<()> {
        self.0.hold().await?.complete();
        Ok(())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // If the task is counting at the moment, nothing is left to count.
        if let Ok(Some(mut drops)) = self.0.try_hold() {
            drops.complete();
        }
    }
}

/// Numbers of the datagrams that the system has dropped for a socket.
struct Drops {
    host: Host,
    address: Option<SocketAddr>,
    /// Inode of the socket, which identifies it in the table of the system; `None` if unknown.
    inode: Option<u64>,
    table: &'static str,
    /// Value in the table at the last read.
    counted: u32,
    counter: Counter,
    /// Dropped datagrams that were counted and not logged yet.
    unreported: u64,
    /// Monotonic time of the last log line, in ns; `None` before the first one.
    reported_ns: Option<u64>,
}

impl Drops {
    fn new(host: &Host, socket: &UdpSocket) -> Self {
        let help =
            "Datagrams that the system has dropped, because the buffer of the socket was full.";
        let address = socket.local_addr().ok();
        let is_v6 = address.is_some_and(|address| address.is_ipv6());
        let mut drops = Self {
            host: host.clone(),
            address,
            inode: fstat(socket).ok().map(|status| status.st_ino),
            table: if is_v6 { "/proc/self/net/udp6" } else { "/proc/self/net/udp" },
            counted: 0,
            counter: host.counter("datagrams_dropped", help),
            unreported: 0,
            reported_ns: None,
        };
        match drops.dropped() {
            Ok(dropped) => drops.counted = dropped,
            Err(error) => {
                let table = drops.table;
                warn!(
                    host,
                    "cannot count datagrams that the system drops, from `{table}`: {error}"
                );
            }
        }
        drops
    }

    /// Counts the datagrams that were dropped since the last call, and logs those that were not logged yet.
    fn complete(&mut self) {
        self.update();
        self.report(0);
    }

    fn update(&mut self) {
        let Ok(dropped) = self.dropped() else { return };
        // The value of the system has 32 bits, and begins at 0 again after the largest one.
        let new = u64::from(dropped.wrapping_sub(self.counted));
        self.counted = dropped;
        if new > 0 {
            self.counter.add(new);
            self.unreported += new;
        }
    }

    /// Logs dropped datagrams, unless the last line is more recent than `interval_ns`.
    fn report(&mut self, interval_ns: u64) {
        let now_ns = self.host.monotonic_ns();
        let is_due = self.reported_ns.is_none_or(|at| now_ns.abs_diff(at) >= interval_ns);
        if self.unreported == 0 || !is_due {
            return;
        }
        let address = self.address.map(|it| format!(" for {it}")).unwrap_or_default();
        warn!(
            self.host,
            "the system dropped {} datagrams{address}, because they arrived faster than the flow took them and the \
             buffer of the socket was full; a larger buffer keeps more of them while the flow waits",
            self.unreported
        );
        (self.unreported, self.reported_ns) = (0, Some(now_ns));
    }

    fn dropped(&self) -> io::Result<u32> {
        let table = fs::read_to_string(self.table)?;
        let dropped = self.inode.and_then(|inode| dropped(&table, inode));
        dropped.ok_or_else(|| io::Error::other("it has no line for the socket"))
    }
}

/// Returns the number of datagrams dropped for a socket, from a table of the system: see `proc_net_udp(5)`.
fn dropped(table: &str, inode: u64) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_socket = fields.nth(9)?.parse() == Ok(inode);
        let dropped = is_socket.then(|| fields.next_back()?.parse::<i64>().ok()).flatten()?;
        // Linux before 5.4 shows values of 2^31 and more as negative numbers.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let unsigned = dropped as u32;
        Some(unsigned)
    })
}

#[cfg(test)]
mod tests {
    use super::dropped;

    #[test]
    fn dropped_datagrams_are_read_from_system_table() {
        let table = |dropped: &str| {
            format!(
                "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode \
                 ref pointer drops\n  417: 0100007F:2329 00000000:0000 07 00000000:00000000 00:00000000 \
                 00000000     0        0 48211 2 0000000000000000 {dropped}\n"
            )
        };
        assert_eq!(dropped(&table("37"), 48_211), Some(37));
        assert_eq!(dropped(&table("37"), 48_212), None);
        assert_eq!(dropped("no table", 48_211), None);
        // Two versions of Linux show the largest value of the counter in these ways.
        for text in ["4294967295", "-1"] {
            assert_eq!(dropped(&table(text), 48_211), Some(u32::MAX));
        }
    }
}
