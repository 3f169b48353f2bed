//! `cargo xtask rebalances [N]`: so many rebalances, 500 unless told, and what became of the records.

use broker_tests::{broker::Broker, kafka::Kafka, rebalances};

fn main() {
    let count = std::env::args().nth(1).map_or(Ok(500), |count| count.parse());
    let Ok(count) = count else {
        eprintln!("expected the number of rebalances");
        std::process::exit(2);
    };
    let arguments = [
        "--set",
        "group.min.session.timeout.ms=1000",
        "--set",
        "group.initial.rebalance.delay.ms=0",
    ];
    let Some(broker) = Broker::start("kafka", &arguments) else { std::process::exit(2) };
    let report = rebalances::run(Kafka::new(broker.get("plain")), count);
    eprintln!("{report}");
    drop(broker);
    std::process::exit(i32::from(report.lost > 0));
}
