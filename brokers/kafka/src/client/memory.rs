//! Reserves memory of the flow for the records that a client of librdkafka buffers.

use tremor_pdk::{Memory, prelude::*};

/// Memory reserved for the records that a client buffers.
pub(crate) struct Records {
    /// The reservation, which ends when this value is dropped.
    _memory: Memory,
    /// Number of bytes that the client may buffer.
    pub(crate) bytes: u64,
}

impl Records {
    /// Reserves `most` bytes. If the memory limit does not allow that, halves the number until the
    /// limit allows it, down to `least` bytes. `key` is the configuration key that sets `most`;
    /// messages name it.
    ///
    /// # Errors
    /// An error of the kind shortage if the memory limit does not allow `least` bytes.
    pub(crate) fn borrow(host: &Host, key: &str, most: u64, least: u64) -> Result<Self> {
        let mut memory = host.memory();
        let mut bytes = most;
        while !memory.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            if bytes <= least {
                return Err(Error::shortage(format_args!(
                    "cannot start the Kafka client: the memory limit leaves less than {bytes} bytes; raise \
                     `--memory-limit`, or lower `{key}`"
                )));
            }
            bytes = (bytes / 2).max(least);
        }
        if bytes < most {
            tremor_pdk::info!(
                host,
                "reduced `{key}` from {most} to {bytes} bytes because of the memory limit"
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
    fn reservation_shrinks_to_fit_memory_limit() {
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
