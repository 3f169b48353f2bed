//! Kills of the sink at each request: what was acknowledged is in complete objects, and the next start aborts the
//! unfinished upload, and no other.

use super::{Fake, Reaction, TestHost, batches, connect, line, with_state};

/// Number of deliveries: two objects, of two parts and of three parts.
const DELIVERIES: usize = 40;

/// Runs the sink against a server that does not process the request with the number `kill`, and answers no request from
/// then on, as if the process had been killed. With `is_processed`, the last request is processed, and only its answer
/// is lost. Returns the acknowledged deliveries.
fn run_until(fake: &Fake, keys: &str, kill: usize, is_processed: bool) -> Vec<bool> {
    fake.react(move |number, _| match number {
        _ if number < kill => Reaction::Process,
        // These failures are not repeated, so the sink sends nothing else that has an effect.
        _ if number == kill && is_processed => Reaction::ProcessAndRefuse(403, "AccessDenied"),
        _ => Reaction::Refuse(403, "AccessDenied"),
    });
    let host = TestHost::new();
    let mut sink = connect(&host, fake, keys);
    let answers = sink.deliver_together(&batches(0, DELIVERIES)).unwrap();
    // The sink and the tasks of its host are dropped, and nothing is closed.
    answers.iter().map(Result::is_ok).collect()
}

#[test]
fn acknowledged_events_are_complete_and_no_upload_stays_open() {
    // More than the requests of a run without a kill, and so the last kills have no effect.
    for kill in 0..12 {
        for is_processed in [false, true] {
            let (fake, folder) = (Fake::new(), tempfile::tempdir().unwrap());
            let foreign = fake.add_foreign_upload("x-19700101T000001Z-000000000000-1");
            let keys = with_state("x", folder.path())
                + r#", "max_connections": 1, "rotate": { "max_bytes": 2000 }"#;
            let acknowledged = run_until(&fake, &keys, kill, is_processed);
            let case = format!("{kill} {is_processed} {:?}", fake.store().requests);
            let lines = fake.store().lines();
            for (number, _) in acknowledged.iter().enumerate().filter(|(_, is_ok)| **is_ok) {
                assert!(lines.contains(&line(number)), "{number} is lost: {case}");
            }
            // The next start.
            let host = TestHost::new();
            fake.react(|_, _| Reaction::Process);
            let mut sink = connect(&host, &fake, &keys);
            let unacknowledged = (0..DELIVERIES).filter(|number| !acknowledged[*number]);
            let again: Vec<_> = unacknowledged.flat_map(|number| batches(number, 1)).collect();
            assert!(sink.deliver_together(&again).unwrap().iter().all(Result::is_ok), "{case}");
            sink.stop().unwrap();
            let store = fake.store();
            assert_eq!(store.uploads.keys().collect::<Vec<_>>(), [&foreign], "{case}");
            let mut lines = store.lines();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines, (0..DELIVERIES).map(line).collect::<Vec<_>>(), "{case}");
            drop(store);
            fake.expect_no_faults();
        }
    }
}
