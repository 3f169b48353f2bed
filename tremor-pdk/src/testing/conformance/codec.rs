//! Checks of codecs.

use super::{
    call::direct,
    construct::MANY,
    corpus,
    report::{Finding, Verdict, ensure, fault},
    subject::{Instance, Subject},
    transcript::short,
};
use tremor_abi::batch::{HostBatch, HostOutput};

use crate::{Batch, Error, ErrorKind, Output, Result, Value, ValueRef, dynamic::DynCodec};

/// A codec that converts one message at a time.
struct Messages(Box<dyn DynCodec>);

impl Messages {
    fn new(subject: &Subject) -> Verdict<Self> {
        match subject.instance(&subject.host())? {
            Instance::Codec(codec) => Ok(Self(codec)),
            _ => Err(Finding::skip("this is not a codec")),
        }
    }

    /// Returns the result for one event: the result of `take`, or the error with which the event was rejected.
    fn one<T>(
        what: &str,
        batch: &Batch,
        output: &mut Output,
        take: impl FnOnce(&Batch) -> Option<T>,
    ) -> Verdict<Result<T>> {
        batch.validate().map_err(|error| fault(format_args!("after `{what}`: {error}"), ONE))?;
        let (rejected, discarded) = (output.take_rejected(), output.take_discarded());
        match (take(batch), rejected.into_iter().next()) {
            (Some(taken), None) if batch.len() == 1 => Ok(Ok(taken)),
            (None, Some(rejected)) => super::call::answer(what, Err(rejected.error)),
            (None, None) if discarded == 1 => {
                Ok(Err(Error::bad_data("the message contains no event")))
            }
            _ => Err(fault(
                format_args!("`{what}` returned no event, or several events, for one event"),
                ONE,
            )),
        }
    }

    fn decode(&mut self, message: &[u8]) -> Verdict<Result<Value<'static>>> {
        let (mut batch, mut output) = (Batch::new(), Output::new());
        batch.push_message(message);
        if let Err(error) = direct("decode", || self.0.decode(&mut batch, &mut output))? {
            return Ok(Err(error));
        }
        Self::one("decode", &batch, &mut output, |batch| Some(batch.first()?.value()?.to_value()))
    }

    fn encode(&mut self, value: &Value<'static>) -> Verdict<Result<Vec<u8>>> {
        let (mut batch, mut encoded, mut output) = (Batch::new(), Batch::new(), Output::new());
        if let Err(error) = batch.push(value) {
            return Ok(Err(error));
        }
        let done = direct("encode", || self.0.encode(&mut batch, &mut encoded, &mut output))?;
        if let Err(error) = done {
            return Ok(Err(error));
        }
        Self::one("encode", &encoded, &mut output, |batch| Some(batch.first()?.raw()?.to_vec()))
    }

    /// Returns the values of the suite, and the values of the subject's samples.
    fn values(&mut self, subject: &Subject) -> Verdict<Vec<Value<'static>>> {
        let mut values = corpus::values();
        values.extend(self.samples(subject)?.into_iter().map(|(_, value)| value));
        Ok(values)
    }

    /// Returns the samples with their decoded values.
    fn samples(&mut self, subject: &Subject) -> Verdict<Vec<(Vec<u8>, Value<'static>)>> {
        let help = "give messages of the format as samples, or decode them";
        let mut samples = Vec::new();
        for message in &subject.samples {
            let value = self.decode(message)?.map_err(|error| {
                fault(
                    format_args!("the sample {} cannot be decoded: {error}", short(message)),
                    help,
                )
            })?;
            samples.push((message.clone(), value));
        }
        Ok(samples)
    }

    /// Returns the samples, and the messages of all values that the codec can encode, with their decoded values.
    fn known(&mut self, subject: &Subject) -> Verdict<Vec<(Vec<u8>, Value<'static>)>> {
        let mut known = self.samples(subject)?;
        for value in self.values(subject)? {
            let Ok(message) = self.encode(&value)? else { continue };
            if let Ok(decoded) = self.decode(&message)? {
                known.push((message, decoded));
            }
        }
        Ok(known)
    }
}

const ONE: &str = "write one value for a message, append one message for a value, or return \
    `Error::bad_data`";

fn of_bad_data(what: &str, error: &Error) -> Verdict {
    let kind = error.kind();
    let seen = || format!("{what} is an error of the kind {kind}: {error}");
    ensure(kind == ErrorKind::BAD_DATA, seen, "return `Error::bad_data`")
}

fn text(value: &Value<'_>) -> String {
    ValueRef::from(value).to_string()
}

pub(super) fn round_trips(subject: &Subject) -> Verdict {
    let mut codec = Messages::new(subject)?;
    let mut encoded = 0;
    for value in codec.values(subject)? {
        let message = match codec.encode(&value)? {
            Ok(message) => message,
            Err(error) => {
                of_bad_data("a value that cannot be encoded", &error)?;
                continue;
            }
        };
        encoded += 1;
        let help = "decode what `encode` writes; reject values that the format cannot represent in `encode`";
        let cannot = |what: &str, message: &[u8], done: &str| {
            let seen = format!("{what} {} cannot be {done}", short(message));
            move |error: Error| fault(format_args!("{seen}: {error}"), help)
        };
        let once =
            codec.decode(&message)?.map_err(cannot("its own message", &message, "decoded"))?;
        let again =
            codec.encode(&once)?.map_err(cannot("the decoded value of", &message, "encoded"))?;
        let twice = codec.decode(&again)?.map_err(cannot("its own message", &again, "decoded"))?;
        let (once, twice) = (text(&once), text(&twice));
        let seen = || {
            format!(
                "{} became {} when it was encoded and decoded",
                short(once.as_bytes()),
                short(twice.as_bytes())
            )
        };
        ensure(once == twice, seen, help)?;
    }
    let help = "encode at least one type of value, or return an error of the kind bad data";
    ensure(encoded > 0, || "no value at all can be encoded".to_owned(), help).map_err(|_| {
        Finding::skip(
            "none of the values of the suite and of the samples can be encoded: give messages of the format as samples, \
             unless the codec only decodes",
        )
    })
}

pub(super) fn refuses_hostile_bytes(subject: &Subject) -> Verdict {
    let mut codec = Messages::new(subject)?;
    let known = codec.known(subject)?;
    let cut = known
        .iter()
        .flat_map(|(message, _)| (0..message.len().min(64)).map(|end| message[..end].to_vec()));
    for bytes in corpus::hostile_bytes().into_iter().chain(cut) {
        let what = format!("the message {}", short(&bytes));
        if let Err(error) = codec.decode(&bytes)? {
            of_bad_data(&what, &error)?;
        }
    }
    for (message, expected) in known {
        let decoded = codec.decode(&message)?;
        let same = decoded.is_ok_and(|value| text(&value) == text(&expected));
        let seen = || {
            format!(
                "after invalid messages, {} is decoded differently than before",
                short(&message)
            )
        };
        ensure(same, seen, "keep no state of a message that failed")?;
    }
    Ok(())
}

pub(super) fn shares_nothing(subject: &Subject) -> Verdict {
    let expected = Messages::new(subject)?.known(subject)?;
    let mut all = (0..MANY).map(|_| Messages::new(subject)).collect::<Verdict<Vec<_>>>()?;
    for value in corpus::values() {
        for codec in &mut all {
            let _ = codec.encode(&value)?;
        }
    }
    for (position, codec) in all.iter_mut().enumerate() {
        for (message, _) in &expected {
            let _ = codec.decode(message)?;
        }
        let known = codec.known(subject)?;
        let same = known.len() == expected.len()
            && known.iter().zip(&expected).all(|(found, expected)| found.0 == expected.0);
        let seen = || {
            format!(
                "instance {} of {MANY} encodes differently than the first instance",
                position + 2
            )
        };
        ensure(same, seen, "keep state in `self` and not in a static, or keep no state")?;
    }
    Ok(())
}
