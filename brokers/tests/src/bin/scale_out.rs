//! What `cargo xtask scale-out` runs: `changes N SECONDS RATE`, or `limited SECONDS`, and after it perhaps `--release`.

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

/// What four processes are to do of what one does, each with a tenth of a core.
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

/// Whether all is well.
fn change(plan: Plan) -> bool {
    let broker = broker();
    let report = changes::run(Kafka::new(broker.get("plain")), plan);
    say(&report);
    report.is_good()
}

/// Whether many do so much more than one.
fn limit(each: Duration) -> bool {
    let broker = broker();
    let (turns, by) = limited::run(Kafka::new(broker.get("plain")), each);
    let table = limited::Table(&turns);
    say(&format_args!("a tenth of a core for each process, by {by}\n{table}"));
    let rate = |turn: Option<&Turn>| turn.map_or(f64::NAN, |turn| turn.rate);
    rate(turns.last()) >= OF_ONE * rate(turns.first())
}

#[allow(clippy::print_stdout)] // the program is for what it prints
fn say(what: &dyn Display) {
    println!("{what}");
}
