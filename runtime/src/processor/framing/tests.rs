use tremor_pdk::{
    Batch, Error, Output, Postprocessor, Result, abi::batch::HostBatch, abi::batch::Rejected,
};

use super::Framing;

struct Suffix(&'static [u8]);

impl Postprocessor for Suffix {
    fn suffix(&self) -> Option<&[u8]> {
        Some(self.0)
    }

    fn process(&mut self, _: &mut Batch, _: &mut Output) -> Result<()> {
        unreachable!("a suffix is no step")
    }
}

/// Does with a whole batch what the function does.
struct Does(fn(&mut Batch, &mut Output) -> Result<()>);

impl Postprocessor for Does {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.0(batch, output)
    }
}

/// Puts brackets around messages; what has an `x` it rejects.
fn brackets() -> Box<dyn Postprocessor> {
    Box::new(Does(|batch, output| {
        output.reject_all(batch.cut(|cutter| {
            let message = cutter.payload().to_vec();
            if message.contains(&b'x') {
                cutter.reject(&message, Error::bad_data("x"));
            } else {
                cutter.emit_joined(&[b"[", &message[..], b"]"].concat(), 0..0);
            }
        }));
        Ok(())
    }))
}

fn framing(steps: Vec<Box<dyn Postprocessor>>) -> Framing {
    let mut framing = Framing::default();
    steps.into_iter().for_each(|step| framing.push("it", step));
    framing
}

/// What a framing makes of messages, what events are left beside them, and what it rejects.
fn run(framing: &mut Framing, messages: &[&str]) -> (Vec<String>, Vec<u64>, Vec<(u64, String)>) {
    let (mut batch, mut encoded) = (Batch::new(), Batch::new());
    for (stream, message) in (0..).zip(messages) {
        batch.stream(stream).push(message).unwrap();
        encoded.stream(stream).push_message(message.as_bytes());
    }
    for batch in [&mut batch, &mut encoded] {
        batch.events_mut().iter_mut().for_each(|event| event.pull = 7);
    }
    let rejected = framing.process(&mut encoded, &mut batch);
    assert!(encoded.events().iter().all(|event| event.pull == 7), "the pulls are as they were");
    let text = |event| String::from_utf8(encoded.raw(event).unwrap().to_vec()).unwrap();
    let why = |rejected: Rejected| {
        assert!(batch.value(&rejected.event).is_some(), "the event as it came");
        (rejected.event.stream, rejected.error.to_string())
    };
    (
        encoded.events().iter().map(text).collect(),
        batch.events().iter().map(|event| event.stream).collect(),
        rejected.into_iter().map(why).collect(),
    )
}

#[test]
fn suffixes_in_front_are_one_and_done_with_the_encoding() {
    let mut framing = framing(vec![Box::new(Suffix(b"\r")), Box::new(Suffix(b"\n"))]);
    assert_eq!(framing.terminator().bytes(), b"\r\n");
    assert_eq!(run(&mut framing, &["a"]).0, ["a"]);
}

#[test]
fn what_comes_behind_a_step_is_done_in_its_place() {
    let mut framing = framing(vec![
        Box::new(Suffix(b"1")),
        brackets(),
        Box::new(Suffix(b"2")),
        Box::new(Suffix(b"3")),
        brackets(),
    ]);
    assert_eq!(framing.terminator().bytes(), b"1");
    assert_eq!(run(&mut framing, &["a", "b"]).0, ["[[a]23]", "[[b]23]"]);
}

#[test]
fn what_a_step_rejects_goes_from_both_batches_and_the_others_stay_side_by_side() {
    let mut framing = framing(vec![brackets(), brackets()]);
    let (messages, events, rejected) = run(&mut framing, &["x0", "a", "x2", "b", "x4"]);
    assert_eq!(messages, ["[[a]]", "[[b]]"]);
    assert_eq!(events, [1, 3]);
    let expected: Vec<_> = [0, 2, 4].map(|stream| (stream, "x".to_owned())).into();
    assert_eq!(rejected, expected);
}

#[test]
fn a_batch_that_fails_as_a_whole_leaves_as_a_whole() {
    let mut framing = framing(vec![Box::new(Does(|_, _| Err(Error::bad_data("no"))))]);
    let (messages, events, rejected) = run(&mut framing, &["a", "b"]);
    assert_eq!((messages.len(), events.len()), (0, 0));
    assert_eq!(rejected, [(0, "no".to_owned()), (1, "no".to_owned())]);
    let (_, _, rejected) = run(&mut framing, &["c"]);
    assert_eq!(rejected.len(), 1, "and nothing of it is left behind");
}

#[test]
fn a_step_that_breaks_its_contract_fails_the_batch() {
    let broken: [fn(&mut Batch, &mut Output) -> Result<()>; 5] = [
        |batch, _| {
            batch.push_message(b"more");
            Ok(())
        },
        |batch, _| {
            batch.retain(|event| event.raw() != Some(b"a"));
            Ok(())
        },
        |batch, _| {
            batch.events_mut().reverse();
            Ok(())
        },
        |batch, output| {
            output.reject(batch.events()[0], Error::bad_data("but it is still there"));
            Ok(())
        },
        |batch, output| {
            output.send(0, batch.clone());
            Ok(())
        },
    ];
    for does in broken {
        let (messages, events, rejected) =
            run(&mut framing(vec![Box::new(Does(does))]), &["a", "b"]);
        assert_eq!((messages.len(), events.len(), rejected.len()), (0, 0, 2));
        assert!(rejected[0].1.contains("the postprocessor `it` "), "{}", rejected[0].1);
    }
}
