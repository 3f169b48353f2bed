//! The memory that a client of librdkafka fills with records, which is counted in the memory of the flow.

use tremor_pdk::{Memory, prelude::*};

/// Memory that was borrowed for the records of a client.
pub(crate) struct Records {
    /// Counted for as long as the client exists.
    _memory: Memory,
    /// Bytes that the client may fill.
    pub(crate) bytes: u64,
}

impl Records {
    /// Borrows `most` bytes, or half of them, a quarter and so on if the flow may not take more, but `least` bytes at
    /// least. `key` is the key of the configuration that has `most`.
    ///
    /// # Errors
    /// Kind shortage: the flow may not take `least` bytes.
    pub(crate) fn borrow(host: &Host, key: &str, most: u64, least: u64) -> Result<Self> {
        let mut memory = host.memory();
        let mut bytes = most;
        while !memory.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            if bytes <= least {
                return Err(Error::shortage(format_args!(
                    "cannot start the client: the flow may not take {bytes} bytes more; raise \
                     `--memory-limit`, or lower `{key}`"
                )));
            }
            bytes = (bytes / 2).max(least);
        }
        if bytes < most {
            tremor_pdk::info!(
                host,
                "`{key}` is {bytes} bytes instead of {most}, because of the memory limit"
            );
        }
        Ok(Self { _memory: memory, bytes })
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{ErrorKind, testing::TestHost};

    use super::Records;

    #[test]
    fn client_takes_what_the_memory_limit_leaves() {
        let host = TestHost::new();
        host.set_memory_limit(24 << 20);
        let own = host.host();
        let first = Records::borrow(&own, "prefetch", 64 << 20, 1 << 20).unwrap();
        assert_eq!((first.bytes, host.memory()), (16 << 20, 16 << 20));
        let second = Records::borrow(&own, "prefetch", 9 << 20, 5 << 20).unwrap();
        assert_eq!(second.bytes, 5 << 20);
        let error = Records::borrow(&own, "prefetch", 64 << 20, 4 << 20).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::SHORTAGE);
        assert!(error.to_string().contains("lower `prefetch`"), "{error}");
        drop((first, second));
        assert_eq!(host.memory(), 0);
    }
}
