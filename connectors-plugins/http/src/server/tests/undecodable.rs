//! Tests of pulls with several requests of which some cannot be decoded.

use std::io::Write;

use tremor_pdk::{Error, Exception};

use super::{Scene, bodies, expect, post};

#[test]
fn undecodable_request_gets_reason_and_others_their_result() {
    let mut scene = Scene::new(r#", "respond": "delivered""#);
    let clients: Vec<_> = (0..8).map(|number| scene.client(&post(&number.to_string()))).collect();
    let (mut first, mut pulls) = (0, Vec::new());
    while first < 8 {
        let batch = scene.pull();
        first += batch.len();
        pulls.push(bodies(&batch).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
    }
    // Some requests cannot be decoded, and `2` and `6` cannot be delivered. Their positions in the
    // batches are not fixed.
    let is_undecodable = |body: &[u8]| matches!(body, b"1" | b"4" | b"5");
    for (pull, bodies) in (1..).zip(pulls) {
        let found: Vec<_> = bodies.iter().enumerate().collect();
        let exception = |(at, body): &(usize, &Vec<u8>)| {
            let body = String::from_utf8_lossy(body);
            Exception { events: *at..at + 1, error: Error::bad_data(format!("{body} has no end")) }
        };
        let messages: Vec<_> =
            found.iter().filter(|(_, body)| is_undecodable(body)).map(exception).collect();
        let failed: Vec<_> = found
            .iter()
            .filter(|(_, body)| is_undecodable(body) || matches!(&body[..], b"2" | b"6"))
            .map(|(at, _)| *at..at + 1)
            .collect();
        let acks = scene.server.acks().unwrap();
        if !messages.is_empty() {
            acks.undecodable(pull, &messages).unwrap();
        }
        if failed.is_empty() {
            acks.ack(pull).unwrap();
        } else {
            acks.fail(pull, &failed).unwrap();
        }
    }
    for (number, client) in clients.iter().enumerate() {
        let answer = scene.answer(client);
        match number {
            1 | 4 | 5 => {
                let why = format!("cannot be decoded: {number} has no end");
                expect(&answer, 400, &[&why]);
            }
            2 | 6 => expect(&answer, 500, &["not delivered"]),
            _ => expect(&answer, 200, &[]),
        }
    }
    // The next request of the same connection does not get the result of the previous one.
    (&clients[1]).write_all(&post("decodable")).unwrap();
    let pull = scene.pull().pull();
    scene.server.acks().unwrap().ack(pull).unwrap();
    expect(&scene.answer(&clients[1]), 200, &[]);
}
