//! Tests of searches against searches over a list.

use std::net::IpAddr;

use proptest::{collection::vec, prelude::*};
use tremor_pdk::{Batch, Network, testing::TestHost};

use super::{Builder, Table};
use crate::{
    config::By,
    record::{Limited, put_number, put_text},
};

/// Returns a table whose rows have the column `n`, with the number of the row.
fn table(by: By, keys: &[String]) -> Table {
    let mut builder = Builder::new(by, 1 << 30, TestHost::new().host().memory());
    for (number, key) in keys.iter().enumerate() {
        let mut values = Vec::new();
        put_number(1, &mut values);
        put_number(0, &mut values);
        put_text(&number.to_string(), &mut values);
        builder.add(key, &values).unwrap();
    }
    builder.build(vec!["n".to_owned()]).unwrap()
}

/// Returns the number of the row that a key finds.
fn found(table: &Table, key: &str) -> Option<usize> {
    let row = table.find(key)?;
    let mut batch = Batch::new();
    batch.push(&()).unwrap();
    let mut event = batch.last_mut().unwrap();
    event
        .write_value(|out| {
            row.write(&mut Limited::new(out, usize::MAX));
            Ok(())
        })
        .unwrap();
    let number = event.value().unwrap().get("n").unwrap();
    Some(number.as_str().unwrap().parse().unwrap())
}

/// Addresses that share many of their first bits.
fn address() -> impl Strategy<Value = IpAddr> {
    let sparse = || prop_oneof![Just(0_u8), Just(255), Just(128), any::<u8>()];
    prop_oneof![
        [sparse(), sparse(), sparse(), sparse()].prop_map(IpAddr::from),
        (sparse(), sparse(), sparse()).prop_map(|(a, b, c)| {
            let mut bytes = [0; 16];
            (bytes[0], bytes[8], bytes[15]) = (a, b, c);
            IpAddr::from(bytes)
        }),
    ]
}

fn network() -> impl Strategy<Value = String> {
    (address(), 0..=128_u8)
        .prop_map(|(address, len)| Network::of_address(address).truncated(len).to_string())
}

/// Returns whether the first bits of an address are those of a network, by the texts of their bits.
fn contains(network: &str, address: IpAddr) -> Option<usize> {
    let bits = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(address) => format!("{:032b}", u32::from(address)),
        IpAddr::V6(address) => format!("{:0128b}", u128::from(address)),
    };
    let (text, len) = network.split_once('/').unwrap();
    let (network, address) = (bits(text.parse().unwrap()), bits(address));
    let len: usize = len.parse().unwrap();
    (network.len() == address.len() && network[..len] == address[..len]).then_some(len)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn smallest_network_is_found(
        networks in vec(network(), 0..40),
        addresses in vec(address(), 1..40),
    ) {
        let table = table(By::Cidr, &networks);
        for address in addresses {
            let expected = networks
                .iter()
                .enumerate()
                .filter_map(|(number, network)| Some((contains(network, address)?, number)))
                .max();
            prop_assert_eq!(
                found(&table, &address.to_string()),
                expected.map(|(_, number)| number),
                "{} {:?}", address, &networks
            );
        }
    }

    #[test]
    fn longest_prefix_is_found(
        prefixes in vec("[ab\u{e4}]{0,6}", 0..40),
        keys in vec("[ab\u{e4}]{0,8}", 1..40),
    ) {
        let table = table(By::Prefix, &prefixes);
        for key in keys {
            let expected = prefixes
                .iter()
                .enumerate()
                .filter(|(_, prefix)| key.starts_with(&**prefix))
                .map(|(number, prefix)| (prefix.len(), number))
                .max();
            prop_assert_eq!(found(&table, &key), expected.map(|(_, number)| number));
        }
    }

    #[test]
    fn last_row_of_a_key_is_found(
        rows in vec("[a-c]{0,3}", 0..200),
        keys in vec("[a-d]{0,3}", 1..40),
    ) {
        let table = table(By::Exact, &rows);
        for key in keys {
            prop_assert_eq!(found(&table, &key), rows.iter().rposition(|row| *row == key));
        }
        let mut different = rows.clone();
        different.sort();
        different.dedup();
        prop_assert_eq!(table.len(), different.len());
        prop_assert_eq!(table.duplicates(), (rows.len() - different.len()) as u64);
    }
}

#[test]
fn memory_of_table_is_counted_and_limited() {
    let host = TestHost::new();
    let mut builder = Builder::new(By::Exact, 256 << 10, host.host().memory());
    let mut add = |number: usize| builder.add(&format!("{number:0100}"), &[0]);
    let error = (0..10_000).find_map(|number| add(number).err()).unwrap();
    assert!(error.to_string().contains("more than 262144 bytes"), "{error}");
    assert!((64 << 10..=320 << 10).contains(&host.memory()), "{}", host.memory());
    drop(builder);
    assert_eq!(host.memory(), 0);
    host.set_memory_limit(64 << 10);
    let mut builder = Builder::new(By::Exact, 1 << 30, host.host().memory());
    let mut add = |number: usize| builder.add(&format!("{number:0100}"), &[0]);
    let error = (0..10_000).find_map(|number| add(number).err()).unwrap();
    assert!(error.to_string().contains("--memory-limit"), "{error}");
}
