//! The durable consumer of a stream, which is looked up or created.

use std::collections::BTreeSet;

use async_nats::jetstream::{
    self,
    consumer::{AckPolicy, PullConsumer, pull},
    context::GetStreamErrorKind,
    stream::ConsumerErrorKind,
};
use tremor_pdk::prelude::*;

use super::{config::Durable, resume::Resume};
use crate::client::explain_api;

/// Returns the durable consumer, and creates it from the configuration if it does not exist.
///
/// # Errors
/// The stream does not exist, an existing consumer differs from the configuration, or the server does not
/// answer.
pub(super) async fn find(
    client: async_nats::Client,
    wanted: &Durable,
    resume: &Resume,
    host: &Host,
) -> Result<PullConsumer> {
    let Durable { stream, consumer, .. } = wanted;
    let object = format!("consumer `{consumer}` of stream `{stream}`");
    let found = jetstream::new(client).get_stream(stream).await.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error) => explain_api(&error, &format!("stream `{stream}`")),
        _ => Error::connection_refused(format_args!(
            "cannot use stream `{stream}`: JetStream did not answer: {error}; check whether it is enabled for this account"
        )),
    })?;
    let stream_created = found.cached_info().created;
    let resume_at = resume.start(stream_created);
    let config = pull::Config {
        durable_name: Some(consumer.clone()),
        deliver_policy: resume_at.unwrap_or(wanted.start),
        ack_policy: AckPolicy::Explicit,
        ack_wait: wanted.ack_wait.unwrap_or_default(),
        max_ack_pending: wanted.max_ack_pending.map_or(0, i64::from),
        max_deliver: wanted.max_deliver.map_or(0, i64::from),
        filter_subjects: wanted.subjects.clone(),
        ..pull::Config::default()
    };
    let found = found.get_or_create_consumer(consumer, config).await;
    let found: PullConsumer = found.map_err(|error| match error.kind() {
        ConsumerErrorKind::JetStream(error) => explain_api(&error, &object),
        ConsumerErrorKind::InvalidConsumerType => Error::configuration(format_args!(
            "cannot use {object}: it is a push consumer, and this connector needs a pull consumer; use another name"
        )),
        _ => {
            Error::connection_refused(format_args!("cannot use {object}: the server did not answer: {error}"))
        }
    })?;
    let info = found.cached_info();
    check(&info.config, wanted, &object)?;
    let is_new = info.delivered.consumer_sequence == 0;
    if is_new && resume_at.is_some_and(|it| it == info.config.deliver_policy) {
        tremor_pdk::warn!(
            host,
            "{object} was deleted while it was read: it was recreated, and starts after the last acknowledged message"
        );
    }
    resume.set(stream_created, info.ack_floor.stream_sequence);
    Ok(found)
}

/// Checks that an existing consumer matches the configuration.
fn check(found: &jetstream::consumer::Config, wanted: &Durable, object: &str) -> Result<()> {
    if found.ack_policy != AckPolicy::Explicit {
        return Err(Error::configuration(format_args!(
            "cannot use {object}: expected the acknowledgement policy `explicit`, found another; use another name"
        )));
    }
    let all = found.filter_subjects.iter().chain(Some(&found.filter_subject));
    let subjects: BTreeSet<_> = all.filter(|it| !it.is_empty()).collect();
    let differs = |key: &str, has: String, wants: String| {
        Err(Error::configuration(format_args!(
            "cannot use {object}: it exists with another `{key}`: {has}, and the flow sets {wants}; change one of \
             them, or remove the key"
        )))
    };
    if !wanted.subjects.is_empty() && subjects != wanted.subjects.iter().collect() {
        return differs("subjects", format!("{subjects:?}"), format!("{:?}", wanted.subjects));
    }
    if let Some(wait) = wanted.ack_wait.filter(|it| *it != found.ack_wait) {
        return differs("ack_wait", format!("{:?}", found.ack_wait), format!("{wait:?}"));
    }
    for (key, has, wants) in [
        ("max_ack_pending", found.max_ack_pending, wanted.max_ack_pending),
        ("max_deliver", found.max_deliver, wanted.max_deliver),
    ] {
        if let Some(wants) = wants.filter(|it| i64::from(*it) != has) {
            return differs(key, has.to_string(), wants.to_string());
        }
    }
    Ok(())
}
