//! A record that contains a whole frame, as an event of an attacker may.

use crate::layout::{put, put_checksum};
use crate::record::record;
use crate::tests::disk::SimDisk;
use crate::tests::model::{DIR, Stepped};

/// Returns a frame with a valid checksum for the epoch that its sender guesses.
fn forged(number: u64) -> Vec<u8> {
    let mut bytes = record(b"forged");
    bytes[22] = 2;
    put(&mut bytes, 40, &number.to_le_bytes());
    put_checksum(0, &mut bytes);
    bytes
}

/// Damages a record that contains a forged one, and reads the log.
pub(super) fn check() -> Result<(), String> {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).map_err(|it| it.to_string())?;
    log.append_durably(record(b"first"));
    // At each multiple of 8, so that a search passes it.
    log.append_durably(record(&forged(3).repeat(20)));
    log.append_durably(record(b"last"));
    drop(log);
    let path = format!("{DIR}/0000000001.segment");
    let mut bytes = disk.contents(&path);
    bytes[3 * 4096] ^= 1;
    disk.set_contents(&path, &bytes);
    let mut log = Stepped::open(&disk, 4).map_err(|it| it.to_string())?;
    let found: Vec<_> = log.read_all().iter().map(|it| it.payload().to_vec()).collect();
    if found != [b"first".to_vec(), b"last".to_vec()] {
        return Err(format!("{} records were read", found.len()));
    }
    Ok(())
}

#[test]
fn frame_inside_a_damaged_record_is_not_a_record() {
    check().unwrap();
}
