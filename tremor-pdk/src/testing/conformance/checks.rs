//! The checks, with what the contract says and what they rest on.

use super::{
    codec, connector, construct, operator, processor, report::Verdict, sink, source,
    subject::Subject,
};

/// A check of a component.
pub(super) struct Check {
    /// Its name, as a sentence about the component without its subject.
    pub(super) name: &'static str,
    /// The kind of components that it is for; all of them where it is empty.
    pub(super) kind: &'static str,
    /// What the contract says, with the method that it says it of.
    pub(super) contract: &'static str,
    /// The checks without which this one tells nothing.
    pub(super) rests_on: &'static [&'static str],
    pub(super) run: fn(&Subject) -> Verdict,
}

/// The checks of components of one kind.
pub(super) fn of(kind: &str) -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().filter(move |check| check.kind.is_empty() || check.kind == kind)
}

/// Whether nothing can be checked of a component without this.
pub(super) fn is_basic(name: &str) -> bool {
    ["makes", "connects"].contains(&name)
}

macro_rules! checks {
    ($($kind:literal { $($name:ident($($on:ident),*): $contract:literal, $run:path;)* })*) => {
        &[$($(Check {
            name: stringify!($name),
            kind: $kind,
            contract: $contract,
            rests_on: &[$(stringify!($on)),*],
            run: $run,
        },)*)*]
    };
}

const CHECKS: &[Check] = checks! {
    "" {
        makes(): "`Component::new`: makes an instance, or answers with an error of the kind configuration",
            construct::makes;
        stays_inside(makes): "`Component::new`: nothing in it reaches outside", construct::stays_inside;
        makes_many(makes, stays_inside): "`Component::new`: a flow may have many instances", construct::many;
        refuses_unknown_keys(makes): "`Component::Config`: a key that it does not have is an error of the \
            kind configuration", construct::unknown_key;
        refuses_bad_configurations(makes): "`Component::new`: a bad configuration is an error of the kind \
            configuration, and no panic", construct::hostile;
    }
    "connector" {
        connects(makes): "`Connector::connect`: returns the halves of a connection, or why there is none; \
            `Connector::sides` names the sides that there are", connector::connects;
        lives(connects): "`Connector`: `on_start`, `on_pause`, `on_resume` and `close` come in \
            this order, and answer `Ok`", connector::life_cycle;
        reconnects(lives): "`Connector::connect`: called again after both halves of a lost connection were \
            dropped", connector::reconnects;
        pulls(connects): "`Source::pull`: returns as soon as there is something, and waits without holding \
            the thread", source::pulls;
        drops_at_every_stage(lives, pulls): "`Connector`: an instance may be dropped after any call, and in any",
            connector::drops_at_every_stage;
        heeds_the_limit(pulls): "`Source::pull`: returns once `Batch::is_full`; one message in hand may \
            exceed it", source::heeds_the_limit;
        stays_finished(pulls): "`Pull::Finished`: there is nothing more and there never will be",
            source::stays_finished;
        sources_share_nothing(pulls): "`Connector`: a flow may have many instances, and state belongs into \
            `self`", source::shares_nothing;
        survives_dropped_pulls(pulls, sources_share_nothing): "`Source::pull`: the future may be dropped at any `await`, and no \
            event is lost or doubled by that", source::survives_dropped_pulls;
        hears_acknowledgements(pulls): "`Acks::ack`, `Acks::fail`: every pull ends, in any order",
            source::hears_acknowledgements;
        reads_again(hears_acknowledgements): "`Acks::fail`: a source that can read again what has failed does so",
            source::reads_again;
        answers_the_circuit_breaker(lives): "`Source::on_circuit_breaker`: a sink downstream is down, or \
            is back", connector::answers_the_circuit_breaker;
        delivers(connects): "`Sink::deliver`: `Ok`, an outcome for each event, or an error of a kind that \
            says what to do", sink::delivers;
        flushes(connects): "`ParallelSink::flush`: no delivery follows for now; those in flight are answered",
            sink::flushes;
        takes_several(delivers, flushes): "`ParallelSink::deliver`: several deliveries may be under way, and any of \
            them may be dropped", sink::takes_several;
        answers_ticks(connects): "`Sink::on_tick`: time has passed", sink::answers_ticks;
        drains(lives, delivers, answers_ticks): "`Sink::close`: no event follows; the sink sends what it buffers",
            sink::drains;
        sinks_share_nothing(delivers): "`Connector`: a flow may have many instances, and state belongs into \
            `self`", sink::shares_nothing;
        stops_without_a_drain(lives, pulls, delivers): "`Connector::close`: the end, after a drain or \
            without one", connector::stops_without_a_drain;
        leaves_nothing(stays_inside, makes_many, lives, pulls): "`Connector::close`: the end; no thread, task or file descriptor is \
            left over", connector::leaves_nothing;
    }
    "operator" {
        names_ports(makes): "`Operator::ports`: the ports besides `out` and `err`; asked once",
            operator::names_ports;
        accounts_for_events(names_ports): "`Operator::process`: every event is accounted for",
            operator::accounts;
        knows_the_time(accounts_for_events): "`Operator::on_time`: it is at or after what `due` said",
            operator::knows_the_time;
        drains(accounts_for_events): "`Operator::flush`: what the operator holds back goes out now",
            operator::drains;
        shares_nothing(accounts_for_events, drains): "`Operator`: it has a state of its own",
            operator::shares_nothing;
    }
    "codec" {
        round_trips(makes): "`Codec::decode`, `Codec::encode`: what was encoded is decoded to the same",
            codec::round_trips;
        refuses_bad_messages(makes): "`Codec::decode`: what is no message is an error of the kind bad data",
            codec::refuses_hostile_bytes;
        shares_nothing(round_trips): "`Codec`: a connector has an instance for its source and one for its \
            sink", codec::shares_nothing;
    }
    "preprocessor" {
        takes_any_bytes(makes): "`Preprocessor::process`: what cannot be a message it rejects",
            processor::refuses_hostile_bytes;
        splits_do_not_matter(takes_any_bytes): "`Preprocessor::process`: a byte stream comes in fragments \
            that are cut anywhere", processor::splits_do_not_matter;
        keeps_streams_apart(splits_do_not_matter): "`Preprocessor`: it keeps a state for each stream",
            processor::keeps_streams_apart;
        ends_streams(keeps_streams_apart): "`Preprocessor::streams`: those that have begun and not ended",
            processor::ends_streams;
        aborts_streams(keeps_streams_apart): "`Preprocessor::process`: an aborted stream is rejected, and \
            its state forgotten", processor::aborts_streams;
        holds_what_it_buffers(ends_streams): "`Preprocessor::holds`: whether bytes of a stream are buffered",
            processor::holds_what_it_buffers;
        keeps_time(ends_streams): "`Preprocessor::on_time`: messages that no longer wait for their streams",
            processor::keeps_time;
        shares_nothing(splits_do_not_matter): "`Preprocessor`: state belongs into `self`",
            processor::shares_nothing;
    }
    "postprocessor" {
        takes_any_bytes(makes): "`Postprocessor::process`: what it cannot frame it rejects",
            processor::takes_hostile_bytes;
        frames(takes_any_bytes): "`Postprocessor::process`: replaces messages one by one", processor::frames;
        shares_nothing(frames): "`Postprocessor`: it sees the batches of one sink",
            processor::post_shares_nothing;
    }
};
