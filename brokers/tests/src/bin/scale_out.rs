//! The program that `cargo xtask scale-out` runs. The arguments of the program are `changes N SECONDS RATE` or
//! `limited SECONDS`, optionally followed by `--release`.

use std::{env, fmt::Display, process::exit, time::Duration};

use broker_tests::{
    broker::Broker,
    built,
    kafka::Kafka,
    scale_out::{
        CONFIGURATION,
        changes::{self, Plan},
        limited::{self, Turn},
    },
};

/// Minimum throughput of four processes, as a multiple of the throughput of one process. Each process is limited to a
/// tenth of a core.
const OF_ONE: f64 = 3.5;

fn main() {
    let mut words: Vec<String> = env::args().skip(1).collect();
    let release = words.last().is_some_and(|word| word == "--release");
    words.truncate(words.len() - usize::from(release));
    built::want(release, &["connector-kafka"]);
    let what = words.first().map_or("", String::as_str);
    let numbers: Option<Vec<u32>> = words.iter().skip(1).map(|word| word.parse().ok()).collect();
    let is_good = match (what, numbers.as_deref()) {
        ("changes", Some(&[changes, seconds, rate])) => {
            let within = Duration::from_secs(seconds.into());
            change(Plan { changes, within, rate })
        }
        ("limited", Some(&[seconds])) => limit(Duration::from_secs(seconds.into())),
        _ => {
            say(&"expected `changes N SECONDS RATE` or `limited SECONDS`");
            exit(2)
        }
    };
    exit(i32::from(!is_good))
}

fn broker() -> Broker {
    Broker::start("kafka", CONFIGURATION).unwrap_or_else(|| exit(2))
}

/// Starts, stops and kills processes. Returns whether the records were delivered correctly.
fn change(plan: Plan) -> bool {
    let broker = broker();
    let report = changes::run(Kafka::new(broker.get("plain")), plan);
    say(&report);
    report.is_good()
}

/// Measures processes that are limited to a tenth of a core. Returns whether four processes reach [`OF_ONE`] times the
/// throughput of one.
fn limit(each: Duration) -> bool {
    let broker = broker();
    let (turns, by) = limited::run(Kafka::new(broker.get("plain")), each);
    let table = limited::Table(&turns);
    say(&format_args!("a tenth of a core for each process, by {by}\n{table}"));
    let rate = |turn: Option<&Turn>| turn.map_or(f64::NAN, |turn| turn.rate);
    rate(turns.last()) >= OF_ONE * rate(turns.first())
}

#[allow(clippy::print_stdout)] // the output is the result of the program
fn say(what: &dyn Display) {
    println!("{what}");
}
