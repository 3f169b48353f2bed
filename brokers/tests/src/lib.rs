//! Tests that run the real program with the real plugins against real brokers.
