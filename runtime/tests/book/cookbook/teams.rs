//! Tests of the page "Hosts enriched with their teams".

use std::fs::{self, File};
use std::io::Write;

use serde_json::json;

use super::{Kitchen, flows, values};
use crate::{peer::wait_until, running::Running, support::workspace};

/// Returns the tables of the page, in its order.
fn tables() -> Vec<String> {
    let page = workspace().join("docs/guide/cookbook/teams.md");
    let text = fs::read_to_string(page).unwrap();
    let blocks = text.split("```csv\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.map(str::to_owned).collect()
}

#[test]
fn teams_and_sites_are_added_from_changing_tables() {
    let kitchen = Kitchen::new();
    fs::create_dir(kitchen.log("apps")).unwrap();
    let mut input = File::create(kitchen.log("apps/a.json")).unwrap();
    let mut write = |host: &str, client: &str| {
        let event = json!({ "host": host, "client": client, "message": "order 7" });
        writeln!(input, "{event}").unwrap();
    };
    let [teams, networks] = &tables()[..] else { panic!("two tables") };
    let scene = kitchen
        .flow(&flows("teams.md")[0], &[])
        .write("teams.csv", teams.as_bytes())
        .write("networks.csv", networks.as_bytes());
    scene.tremor(&["check", "--deny-warnings", "flow.yaml"]).expect(0, &[]);
    let table = scene.path().join("teams.csv");
    write("web-1", "10.7.1.20");
    write("web-9", "192.0.2.1");
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    let (output, unknown) = (kitchen.state("events.json"), kitchen.state("unknown.json"));
    wait_until(|| values(&output).len() == 1 && values(&unknown).len() == 1);

    let new = table.with_extension("new");
    fs::write(&new, format!("{teams}web-9,lab,carol\n")).unwrap();
    fs::rename(&new, &table).unwrap();
    running.until("because the file has changed");
    write("web-9", "2001:db8::7");
    wait_until(|| values(&output).len() == 2);
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);
    let event = |host: &str, client: &str, site: &str| json!({ "host": host, "client": client, "message": "order 7", "site": site });
    let mut expected =
        [event("web-1", "10.7.1.20", "warehouse"), event("web-9", "2001:db8::7", "cloud")];
    expected[0]["owner"] = json!({ "team": "shop", "oncall": "alice" });
    expected[1]["owner"] = json!({ "team": "lab", "oncall": "carol" });
    assert_eq!(values(&output), expected);
    assert_eq!(values(&unknown), [event("web-9", "192.0.2.1", "internet")]);
}
