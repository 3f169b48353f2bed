//! The connector `kafka_producer`.
