//! The durable consumer of a stream: found, or made.

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

/// Finds it, or makes it as the configuration says.
///
/// # Errors
/// There is no such stream; there is such a consumer, and it is another than the configuration says; the server
/// does not answer.
pub(super) async fn find(
    client: async_nats::Client,
    wanted: &Durable,
    resume: &Resume,
    host: &Host,
) -> Result<PullConsumer> {
    let Durable { stream, consumer, .. } = wanted;
    let doing = format!("consumer `{consumer}` of stream `{stream}`");
    let found = jetstream::new(client).get_stream(stream).await.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error) => explain_api(&error, &format!("stream `{stream}`")),
        _ => Error::connection_refused(format_args!(
            "stream `{stream}`: JetStream does not answer: {error}; see whether it is on for this account"
        )),
    })?;
    let stream_made = found.cached_info().created;
    let again = resume.from(stream_made);
    let config = pull::Config {
        durable_name: Some(consumer.clone()),
        deliver_policy: again.unwrap_or(wanted.start),
        ack_policy: AckPolicy::Explicit,
        ack_wait: wanted.ack_wait.unwrap_or_default(),
        max_ack_pending: wanted.max_ack_pending.map_or(0, i64::from),
        max_deliver: wanted.max_deliver.map_or(0, i64::from),
        filter_subjects: wanted.subjects.clone(),
        ..pull::Config::default()
    };
    let found = found.get_or_create_consumer(consumer, config).await;
    let found: PullConsumer = found.map_err(|error| match error.kind() {
        ConsumerErrorKind::JetStream(error) => explain_api(&error, &doing),
        ConsumerErrorKind::InvalidConsumerType => Error::configuration(format_args!(
            "{doing} is a push consumer: this connector pulls; use another name"
        )),
        _ => {
            Error::connection_refused(format_args!("{doing}: the server does not answer: {error}"))
        }
    })?;
    let info = found.cached_info();
    check(&info.config, wanted, &doing)?;
    let is_new = info.delivered.consumer_sequence == 0;
    if is_new && again.is_some_and(|it| it == info.config.deliver_policy) {
        tremor_pdk::warn!(
            host,
            "{doing} was deleted while it was read: it is made again, and begins after what was acknowledged"
        );
    }
    resume.begin(stream_made, info.ack_floor.stream_sequence);
    Ok(found)
}

/// Whether it is as the configuration says.
fn check(found: &jetstream::consumer::Config, wanted: &Durable, doing: &str) -> Result<()> {
    if found.ack_policy != AckPolicy::Explicit {
        return Err(Error::configuration(format_args!(
            "{doing} does not want each message acknowledged: expected the policy `explicit`; use another name"
        )));
    }
    let all = found.filter_subjects.iter().chain(Some(&found.filter_subject));
    let subjects: BTreeSet<_> = all.filter(|it| !it.is_empty()).collect();
    let differs = |key: &str, has: String, wants: String| {
        Err(Error::configuration(format_args!(
            "{doing} is there already, with another `{key}`: {has}, and the flow says {wants}; change one of \
             them, or leave the key out"
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
