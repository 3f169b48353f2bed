//! Checks of sinks.

use std::{collections::BTreeMap, fs, path::Path};

use super::{
    construct::MANY,
    corpus,
    report::{Finding, Verdict, ensure, fault},
    subject::{Connected, Subject, is_of_peer},
};
use crate::{Batch, ErrorPolicy, Exception, Result, dynamic::CodecRequirement};

/// Returns batches of the form that the sink requires.
fn batches(codec: CodecRequirement) -> Vec<(&'static str, Batch)> {
    let of = |messages: &[&[u8]]| {
        let mut batch = Batch::new();
        for (position, message) in messages.iter().enumerate() {
            let stream = position as u64 % 3;
            match codec {
                CodecRequirement::Structured => {
                    let text = String::from_utf8_lossy(message).into_owned();
                    // Every document can contain text, so adding it cannot fail.
                    let _ = batch.stream(stream).push(&text);
                }
                _ => batch.stream(stream).push_message(message),
            }
        }
        batch
    };
    let mut values = Batch::new();
    if codec == CodecRequirement::Structured {
        // Values that a document cannot contain are skipped.
        corpus::values().iter().for_each(|value| drop(values.push(value)));
    }
    let every_byte: Vec<u8> = (0..=255).collect();
    let mut ends = of(&[b"before"]);
    ends.stream(0).end();
    ends.stream(1).abort();
    vec![
        ("an empty batch", Batch::new()),
        ("a batch of one event", of(&[b"one"])),
        ("a batch of 300 events", of(&vec![&b"many"[..]; 300])),
        ("a batch of values of every type", values),
        (
            "a batch of messages that are empty, binary and large",
            of(&[b"", &every_byte, &[b'x'; 70_000]]),
        ),
        ("a batch in which streams end", ends),
    ]
}

fn delivered(what: &str, batch: &Batch, answer: &Result<Vec<Exception>>) -> Verdict {
    match answer {
        Ok(_) => Ok(()),
        // The driver returns an error with this text if the sink rejects events of another batch.
        Err(error) if error.message().contains("answered a delivery") => {
            let help = "reject events of the batch that `deliver` was called with";
            Err(fault(format_args!("delivering {what} failed: {error}"), help))
        }
        Err(error) if is_of_peer(error) => Ok(()),
        Err(error) if batch.is_empty() => {
            let help = "return `Ok` if there is nothing to deliver";
            Err(fault(format_args!("delivering {what} failed: {error}"), help))
        }
        Err(error) if error.policy() == ErrorPolicy::DEAD_LETTER => Ok(()),
        Err(error) => {
            let kind = error.kind();
            let help = "name the events with `Exceptions::reject`, or return an error of the kind bad data: \
                other kinds fail the connector";
            Err(fault(format_args!("delivering {what} failed with the kind {kind}: {error}"), help))
        }
    }
}

fn waits(what: &str) -> Finding {
    Finding::skip(format_args!("delivering {what} waits for a peer that does not answer here"))
}

pub(super) fn delivers(subject: &Subject) -> Verdict {
    let mut connected = subject.with_sink()?;
    for (what, batch) in batches(connected.connector.codec_requirement()) {
        let answer = connected.deliver(&batch)?.ok_or_else(|| waits(what))?;
        delivered(what, &batch, &answer)?;
    }
    Ok(())
}

/// Number of deliveries in flight that the check grants, unless the sink supports fewer.
const SEVERAL: usize = 4;

pub(super) fn takes_several(subject: &Subject) -> Verdict {
    let mut connected = subject.with_sink_for(SEVERAL)?;
    let (codec, slots) = (connected.connector.codec_requirement(), connected.slots);
    if slots == 1 {
        return Err(Finding::skip("the sink accepts one delivery at a time"));
    }
    let gathers = connected.gathers;
    // The batches have different sizes, so that the answer to one delivery cannot be valid for another delivery.
    let of_size = |size: usize| {
        let mut batch = Batch::new();
        for _ in 0..size {
            match codec {
                CodecRequirement::Structured => drop(batch.push("one of several")),
                _ => batch.push_message(b"one of several"),
            }
        }
        batch
    };
    for cancels in [true, false] {
        let mut batches: Vec<_> = (0..slots).map(|slot| of_size(3 * slot + 1)).collect();
        let mut pending = Vec::new();
        for (slot, batch) in batches.iter_mut().enumerate() {
            match connected.deliver_in(slot, batch, 1)? {
                Some(answer) => {
                    delivered("one of several batches", &of_size(3 * slot + 1), &answer)?;
                }
                None => pending.push(slot),
            }
        }
        if cancels && !pending.is_empty() {
            connected.give_up(pending.remove(0))?;
        }
        if gathers && !pending.is_empty() {
            accepted("flush", &connected.flush()?)?;
        }
        for slot in pending {
            let help = "the future of `ParallelSink::deliver` may be dropped at any `await`: release \
                its locks and permits, and undo its counts, in `Drop`";
            let answer = connected.deliver_in(slot, &mut batches[slot], usize::MAX)?;
            let answer = answer.ok_or_else(|| {
                fault(
                    "after one of several deliveries was cancelled, another delivery never completes",
                    help,
                )
            })?;
            delivered("one of several batches", &of_size(3 * slot + 1), &answer)?;
        }
    }
    Ok(())
}

pub(super) fn flushes(subject: &Subject) -> Verdict {
    let mut connected = subject.with_sink_for(SEVERAL)?;
    let (codec, slots) = (connected.connector.codec_requirement(), connected.slots);
    if !connected.gathers {
        return Err(Finding::skip("the sink does not gather deliveries"));
    }
    let what = "one of several batches";
    for _ in 0..2 {
        let mut batch = Batch::new();
        match codec {
            CodecRequirement::Structured => drop(batch.push("one of several")),
            _ => batch.push_message(b"one of several"),
        }
        let mut pending = Vec::new();
        for slot in 0..slots {
            let mut sent = batch.clone();
            match connected.deliver_in(slot, &mut sent, 1)? {
                Some(answer) => delivered(what, &batch, &answer)?,
                None => pending.push((slot, sent)),
            }
        }
        accepted("flush", &connected.flush()?)?;
        for (slot, mut sent) in pending {
            let answer = connected.deliver_in(slot, &mut sent, usize::MAX)?.ok_or_else(|| {
                let help = "complete the gathered deliveries in `flush`, so that `deliver` answers each delivery \
                    that is in flight";
                fault("after a flush, a delivery never completes", help)
            })?;
            delivered(what, &batch, &answer)?;
        }
    }
    Ok(())
}

pub(super) fn answers_ticks(subject: &Subject) -> Verdict {
    let mut connected = subject.with_sink()?;
    for _ in 0..2 {
        accepted("on_tick", &connected.tick()?)?;
    }
    Ok(())
}

fn accepted(what: &str, answer: &Result<()>) -> Verdict {
    match answer {
        Err(error) if !is_of_peer(error) => {
            let help = "return `Ok` if there is nothing to do";
            Err(fault(format_args!("`{what}` failed: {error}"), help))
        }
        _ => Ok(()),
    }
}

pub(super) fn drains(subject: &Subject) -> Verdict {
    let mut connected = subject.with_sink()?;
    for (what, batch) in batches(connected.connector.codec_requirement()).iter().skip(1).take(2) {
        let _ = connected.deliver(batch)?.ok_or_else(|| waits(what))?;
    }
    accepted("close", &connected.close()?)?;
    let help = "in `Sink::deliver`, await all work of the delivery, such as the future of `Host::blocking`; \
        in `Sink::close`, send the buffered events";
    let jobs = connected.calls.host.0.lock().jobs.len();
    ensure(
        jobs == 0,
        || format!("after a drain, the work of {jobs} `Host::blocking` calls is not done"),
        help,
    )?;
    let drained = files(&subject.folder);
    connected.stop(false)?;
    let stopped = files(&subject.folder);
    let late = stopped.iter().find(|(name, contents)| drained.get(*name) != Some(contents));
    let seen = || {
        format!("after a drain, the sink still wrote to `{}`", late.map_or("", |(name, _)| name))
    };
    ensure(late.is_none(), seen, help)
}

/// Returns up to 100 files of a folder that are smaller than 1 MiB, with their contents.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let small = entries
        .filter(|entry| entry.metadata().is_ok_and(|file| file.is_file() && file.len() < 1 << 20));
    small
        .take(100)
        .filter_map(|entry| {
            Some((entry.file_name().into_string().ok()?, fs::read(entry.path()).ok()?))
        })
        .collect()
}

pub(super) fn shares_nothing(subject: &Subject) -> Verdict {
    let answers = |connected: &mut Connected| {
        let mut answers = Vec::new();
        for (what, batch) in batches(connected.connector.codec_requirement()) {
            let answer = connected.deliver(&batch)?.ok_or_else(|| waits(what))?;
            answers.push((what, answer));
        }
        Ok::<_, Finding>(answers)
    };
    let mut all = Vec::new();
    for others in 0..MANY {
        all.push(subject.with_sink().map_err(|finding| finding.beside(others))?);
    }
    let first = answers(&mut all[0])?;
    for (position, connected) in all.iter_mut().enumerate().skip(1) {
        for ((what, expected), (_, found)) in first.iter().zip(answers(connected)?) {
            ensure(
                *expected == found,
                || {
                    let position = position + 1;
                    format!(
                        "instance {position} of {MANY} answers {what} with {found:?}, the first instance with \
                         {expected:?}"
                    )
                },
                "keep state in `self` and not in a static",
            )?;
        }
    }
    Ok(())
}
