//! The connector `kafka_consumer`.
