//! The list of all checks. Each entry has the contract that the check verifies, and the checks that it depends on.

use super::{
    codec, connector, construct, operator, processor, report::Verdict, sink, source,
    subject::Subject,
};

/// A check of one kind of component.
pub(super) struct Check {
    /// Name of the check: a verb phrase that is true of the component if the check passes, such as `stays_finished`.
    pub(super) name: &'static str,
    /// Kind of component; empty for all kinds.
    pub(super) kind: &'static str,
    /// The contract, which begins with the method that has to keep it.
    pub(super) contract: &'static str,
    /// Names of the checks that must have passed, because otherwise the result of this check is meaningless.
    pub(super) depends_on: &'static [&'static str],
    pub(super) run: fn(&Subject) -> Verdict,
}

/// Returns the checks of components of one kind.
pub(super) fn of(kind: &str) -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().filter(move |check| check.kind.is_empty() || check.kind == kind)
}

/// Returns whether all checks that depend on the check `name` are skipped if `name` was skipped.
pub(super) fn is_basic(name: &str) -> bool {
    ["makes", "connects"].contains(&name)
}

macro_rules! checks {
    ($($kind:literal { $($name:ident($($on:ident),*): $contract:literal, $run:path;)* })*) => {
        &[$($(Check {
            name: stringify!($name),
            kind: $kind,
            contract: $contract,
            depends_on: &[$(stringify!($on)),*],
            run: $run,
        },)*)*]
    };
}

const CHECKS: &[Check] = checks! {
    "" {
        makes(): "`Component::new`: creates an instance, or returns an error of the kind configuration",
            construct::makes;
        stays_inside(makes): "`Component::new`: connects to no peer, starts nothing, does not wait, and keeps no file open", construct::stays_inside;
        makes_many(makes, stays_inside): "`Component::new`: a flow may have many instances", construct::many;
        refuses_unknown_keys(makes): "`Component::Config`: an unknown key is an error of the \
            kind configuration", construct::unknown_key;
        refuses_bad_configurations(makes): "`Component::new`: an invalid configuration is an error of the kind \
            configuration, and no panic", construct::hostile;
    }
    "connector" {
        connects(makes): "`Connector::connect`: returns the halves of a connection, or an error; \
            `Connector::sides` returns the sides that the connector has", connector::connects;
        lives(connects): "`Connector`: `on_start`, `on_pause`, `on_resume` and `close` are called in \
            this order, and return `Ok`", connector::life_cycle;
        reconnects(lives): "`Connector::connect`: called again after both halves of a lost connection were \
            dropped", connector::reconnects;
        pulls(connects): "`Source::pull`: returns as soon as there are events, and waits without blocking \
            the thread", source::pulls;
        drops_at_every_stage(lives, pulls): "`Connector`: an instance may be dropped after and during \
            any call",
            connector::drops_at_every_stage;
        heeds_the_limit(pulls): "`Source::pull`: returns once `Batch::is_full` returns `true`; only the \
            last message may exceed the limit", source::heeds_the_limit;
        keeps_gauges_true(pulls): "`Host::gauge`: a gauge of what waits to be read is also set while the source is not \
            pulled", source::keeps_gauges_true;
        stays_finished(pulls): "`Pull::Finished`: the source will not have more events",
            source::stays_finished;
        sources_share_nothing(pulls): "`Connector`: a flow may have many instances, and state belongs in \
            `self`", source::shares_nothing;
        survives_dropped_pulls(pulls, sources_share_nothing): "`Source::pull`: the future may be dropped at any \
            `await`, without losing or duplicating an event", source::survives_dropped_pulls;
        accepts_acknowledgements(pulls): "`Acks::ack`, `Acks::fail`: every pull ends, in any order",
            source::accepts_acknowledgements;
        reads_again(accepts_acknowledgements): "`Acks::fail`: a source that can read failed events again reads \
            these events again", source::reads_again;
        answers_the_circuit_breaker(lives): "`Source::on_circuit_breaker`: a sink that the source feeds is \
            down, or is available again", connector::answers_the_circuit_breaker;
        delivers(connects): "`Sink::deliver`: returns `Ok`, the events that were not delivered, or an error whose kind \
            says what to do", sink::delivers;
        flushes(connects): "`ParallelSink::flush`: no delivery follows for now; the deliveries in flight \
            are answered",
            sink::flushes;
        takes_several(delivers, flushes): "`ParallelSink::deliver`: several deliveries may be in flight, and any of \
            them may be dropped", sink::takes_several;
        answers_ticks(connects): "`Sink::on_tick`: called once a second; returns `Ok`", sink::answers_ticks;
        drains(lives, delivers, answers_ticks): "`Sink::close`: no event follows; the sink sends what it buffers",
            sink::drains;
        sinks_share_nothing(delivers): "`Connector`: a flow may have many instances, and state belongs in \
            `self`", sink::shares_nothing;
        stops_without_a_drain(lives, pulls, delivers): "`Connector::close`: called at the end, after a drain or \
            without one", connector::stops_without_a_drain;
        leaves_nothing(stays_inside, makes_many, lives, pulls): "`Connector::close`: called at the end; no thread, task or file descriptor is \
            left over", connector::leaves_nothing;
    }
    "operator" {
        names_ports(makes): "`Operator::ports`: returns the ports besides `out` and `err`; called once",
            operator::names_ports;
        accounts_for_events(names_ports): "`Operator::process`: every event is accounted for",
            operator::accounts;
        knows_the_time(accounts_for_events): "`Operator::on_time`: called at or after the time that `due` returned",
            operator::knows_the_time;
        drains(accounts_for_events): "`Operator::flush`: all buffered events are emitted, rejected or discarded",
            operator::drains;
        shares_nothing(accounts_for_events, drains): "`Operator`: each instance has a state of its own",
            operator::shares_nothing;
        is_stateless_if_declared(shares_nothing): "`Component::STATELESS`: the result for an event of a stateless operator \
            depends only on the event and the configuration", operator::is_stateless;
    }
    "codec" {
        round_trips(makes): "`Codec::decode`, `Codec::encode`: decoding an encoded value returns an equal value",
            codec::round_trips;
        refuses_bad_messages(makes): "`Codec::decode`: an invalid message is an error of the kind bad data",
            codec::refuses_hostile_bytes;
        shares_nothing(round_trips): "`Codec`: a connector has an instance for its source and one for its \
            sink", codec::shares_nothing;
    }
    "preprocessor" {
        takes_any_bytes(makes): "`Preprocessor::process`: rejects bytes that cannot be a message",
            processor::refuses_hostile_bytes;
        splits_do_not_matter(takes_any_bytes): "`Preprocessor::process`: a byte stream arrives in fragments \
            that are cut anywhere", processor::splits_do_not_matter;
        keeps_streams_apart(splits_do_not_matter): "`Preprocessor`: keeps a state for each stream",
            processor::keeps_streams_apart;
        ends_streams(keeps_streams_apart): "`Preprocessor::streams`: returns the streams that have begun and not ended",
            processor::ends_streams;
        aborts_streams(keeps_streams_apart): "`Preprocessor::process`: the buffered bytes of an aborted stream are \
            rejected, and the state of the stream is dropped", processor::aborts_streams;
        reports_buffered_bytes(ends_streams): "`Preprocessor::buffers`: returns whether bytes of a stream are buffered",
            processor::reports_buffered_bytes;
        keeps_time(ends_streams): "`Preprocessor::on_time`: emits messages that have waited long enough \
            for more bytes of their streams", processor::keeps_time;
        shares_nothing(splits_do_not_matter): "`Preprocessor`: state belongs in `self`",
            processor::shares_nothing;
    }
    "postprocessor" {
        takes_any_bytes(makes): "`Postprocessor::process`: rejects messages that it cannot frame",
            processor::takes_hostile_bytes;
        frames(takes_any_bytes): "`Postprocessor::process`: replaces messages one by one", processor::frames;
        shares_nothing(frames): "`Postprocessor`: each instance processes the batches of one sink",
            processor::post_shares_nothing;
    }
};
